// The texts of the page, in a file for each language. Elements name theirs by `data-text`, `data-label` (of buttons also the tooltip) and
// `data-placeholder`.

export const LANGUAGES = {
  ar: 'العربية', de: 'Deutsch', en: 'English', es: 'Español', fr: 'Français', pt: 'Português', sw: 'Kiswahili',
};
// Languages that are written from right to left.
const RIGHT_TO_LEFT = ['ar'];

const listeners = [];
let texts = {};
// The number of language changes so far.
let changes = 0;

// The first of the wanted languages that there is, such as `fr` for `fr-CA`.
function best(wanted) {
  const known = wanted.map((language) => language?.toLowerCase().split('-')[0]).find((language) => Object.hasOwn(LANGUAGES, language));
  return known ?? 'en';
}

// Changes the language of the whole page to the first of `wanted` that there is.
export async function speak(wanted) {
  const language = best(wanted);
  changes += 1;
  const change = changes;
  const response = await fetch(`/call/${language}.json`);
  const found = await response.json();
  // Texts that arrive late do not replace the texts of a newer change.
  if (change !== changes) return;
  texts = found;
  document.documentElement.lang = language;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(language) ? 'rtl' : 'ltr';
  fill(document);
  for (const listener of listeners) listener(language);
}

export function onLanguage(listener) {
  listeners.push(listener);
}

// A text with its values, such as `{name}`.
export function text(key, values = {}) {
  const found = Object.hasOwn(texts, key) ? texts[key] : key;
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export function isText(key) {
  return Object.hasOwn(texts, key);
}

export function fill(root) {
  for (const one of root.querySelectorAll('[data-text]')) one.textContent = text(one.dataset.text);
  for (const one of root.querySelectorAll('[data-label]')) label(one, one.dataset.label);
  for (const one of root.querySelectorAll('[data-placeholder]')) one.placeholder = text(one.dataset.placeholder);
}

// Names an element for screen readers. Buttons and images also get the name as their tooltip.
export function label(element, key) {
  element.dataset.label = key;
  element.setAttribute('aria-label', text(key));
  if (element.matches('button, [role="img"]')) element.title = text(key);
}
