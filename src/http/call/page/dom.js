// Elements of the page.

export const element = (id) => document.getElementById(id);

// Disables a control, or enables it. A control that is disabled loses the focus, which `next` gets then.
export function disable(control, isDisabled, next) {
  const hadFocus = document.activeElement === control;
  control.disabled = isDisabled;
  if (hadFocus && isDisabled) next.focus({ preventScroll: true });
}

// Makes an element with properties, attributes and children. Texts of others become text, never markup.
export function make(tag, { attributes = {}, dataset = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}
