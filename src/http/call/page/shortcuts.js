// Keyboard shortcuts in the call, and the sheet that lists them. They are single keys, so that they work in every browser. Users who
// control the page by speech can switch them off.

import { open } from './dialogs.js';
import { element, make } from './dom.js';
import { remember, remembered } from './memory.js';
import { text } from './texts.js';

// Keys, the button that each presses, and the text that describes it.
const KEYS = {
  m: ['microphone', 'shortcut-microphone'],
  v: ['camera', 'shortcut-camera'],
  s: ['screen', 'shortcut-screen'],
  h: ['hand', 'shortcut-hand'],
  p: ['people-button', 'shortcut-people'],
  c: ['chat-button', 'shortcut-chat'],
  l: ['layout', 'shortcut-layout'],
  f: ['full-screen', 'shortcut-full-screen'],
  pageup: ['page-before', 'page-before'],
  pagedown: ['page-after', 'page-after'],
  '?': ['shortcuts-button', 'shortcut-help'],
};
const NAMES = { pageup: 'Page ↑', pagedown: 'Page ↓' };
// Names for screen readers, as events of the keyboard have them.
const VALUES = { pageup: 'PageUp', pagedown: 'PageDown' };
const TYPED_INTO = 'input, select, textarea, [contenteditable]';

// Whether a button can be pressed. A button that is not offered cannot.
const isPressable = (button) => !button.disabled && !button.hidden && !button.classList.contains('not-offered');

function press(event) {
  const [id] = KEYS[event.key.toLowerCase()] ?? [];
  const isOurs = id && !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat && !event.defaultPrevented;
  if (!isOurs || element('call').hidden || document.querySelector('dialog[open]') || event.target.closest?.(TYPED_INTO)) return;
  if (remembered().shortcuts === false || !isPressable(element(id))) return;
  event.preventDefault();
  element(id).click();
}

function list() {
  const rows = Object.entries(KEYS).filter(([, [id]]) => isPressable(element(id)) || id.startsWith('page-'));
  return rows.flatMap(([key, [, said]]) => [make('dt', {}, make('kbd', { textContent: NAMES[key] ?? key.toUpperCase() })), make('dd', { textContent: text(said) })]);
}

export function bindShortcuts() {
  const isUsed = element('use-shortcuts');
  isUsed.checked = remembered().shortcuts !== false;
  isUsed.onchange = () => remember({ shortcuts: isUsed.checked });
  element('shortcuts-button').onclick = () => {
    element('shortcut-list').replaceChildren(...list());
    open(element('shortcuts'));
  };
  for (const [key, [id]] of Object.entries(KEYS)) element(id).setAttribute('aria-keyshortcuts', VALUES[key] ?? key);
  addEventListener('keydown', press);
}
