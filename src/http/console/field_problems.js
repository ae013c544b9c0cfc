// Shows the problem of an action beside the input that it is about. The whole problem is also above the page.
'use strict';

(() => {
  const clear = (form) => {
    for (const input of form.querySelectorAll('[aria-invalid]')) {
      input.removeAttribute('aria-invalid');
      input.removeAttribute('aria-describedby');
    }
    for (const message of form.querySelectorAll('.wrong')) message.remove();
  };

  // An index is part of the text of one input: `config.urls[2]` is a line of `config.urls`.
  const inputOf = (form, field) => {
    const name = field.replace(/\[\d+\].*$/, '');
    return [...form.elements].find((input) => input.name === name && input.type !== 'hidden');
  };

  const show = (form, { field, message }) => {
    const input = inputOf(form, field);
    if (!input) return;
    const text = document.createElement('small');
    text.className = 'wrong';
    text.id = `wrong-${input.id}`;
    const line = /\[(\d+)\]/.exec(field);
    text.textContent = line ? `Line ${Number(line[1]) + 1}: ${message}` : message;
    input.after(text);
    input.setAttribute('aria-invalid', 'true');
    input.setAttribute('aria-describedby', text.id);
    // After htmx has scrolled to the top, where the whole problem is.
    setTimeout(() => input.focus(), 50);
  };

  document.addEventListener('htmx:beforeRequest', ({ detail: { elt } }) => {
    if (elt.matches('form')) clear(elt);
  });
  document.addEventListener('htmx:afterRequest', ({ detail: { elt, xhr } }) => {
    const problem = document.querySelector('#notice [data-field]');
    if (elt.matches('form') && xhr.status >= 400 && problem) show(elt, problem.dataset);
  });
})();
