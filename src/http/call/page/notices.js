// Short messages above the tiles: events, and actions that failed. Screen readers announce them.

import { element, make } from './dom.js';

const SHOWN_MS = 6_000;
// More at once would hide the call.
const MOST = 3;
let timer;

export function notice(text) {
  // In the direction of the page's language, even if it starts with a name in another script.
  const shown = make('p', { textContent: text });
  const list = element('notice');
  list.append(shown);
  if (list.children.length > MOST) list.firstChild.remove();
  setTimeout(() => shown.remove(), SHOWN_MS);
}

export function problem(text) {
  clearTimeout(timer);
  element('problem').textContent = text;
  timer = setTimeout(clear, SHOWN_MS);
}

// Removes the problem, as when the user tries again.
export function clear() {
  element('problem').textContent = '';
}

export function clearAll() {
  clear();
  element('notice').replaceChildren();
}

// Announces a text to screen readers alone.
export function say(text) {
  element('said').textContent = text;
}
