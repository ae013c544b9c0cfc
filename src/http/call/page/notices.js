// Short messages below the call: what has happened, and what could not be done. Screen readers say them.

import { element } from './dom.js';

const SHOWN_MS = 6_000;
let timer;

export function notice(text) {
  show('notice', text);
}

export function problem(text) {
  show('problem', text);
}

function show(id, text) {
  clearTimeout(timer);
  clear();
  element(id).textContent = text;
  timer = setTimeout(clear, SHOWN_MS);
}

export function clear() {
  element('notice').textContent = '';
  element('problem').textContent = '';
}
