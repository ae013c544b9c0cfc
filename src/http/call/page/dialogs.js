// Dialogs: the browser keeps the focus inside, and Escape closes them.

import { element, make } from './dom.js';
import { text } from './texts.js';

// Opens a dialog of the page, and resolves with the value that it is closed with; empty for Escape.
export function open(dialog) {
  return new Promise((resolve) => {
    dialog.returnValue = '';
    dialog.addEventListener('close', () => resolve(dialog.returnValue), { once: true });
    dialog.showModal();
  });
}

// Asks which of some actions to take: the value of each, with its text, and whether it is the `main` one or a `dangerous` one. Resolves with the value, or empty for none.
export function ask(question, actions) {
  const dialog = element('question');
  const buttons = Object.entries(actions).map(([value, { key, kind = '' }]) => make('button', {
    type: 'button', textContent: text(key), className: kind, onclick: () => dialog.close(value),
  }));
  element('question-text').textContent = question;
  element('question-actions').replaceChildren(...buttons, make('button', {
    type: 'button', textContent: text('cancel'), onclick: () => dialog.close(''),
  }));
  return open(dialog);
}

export function closeAll() {
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close('');
}

// Each dialog has a button that closes it; each entry of the menu does so, too, and then what it is for.
export function bindDialogs() {
  for (const button of document.querySelectorAll('#menu .entries button')) {
    button.addEventListener('click', () => button.closest('dialog').close(''));
  }
  for (const button of document.querySelectorAll('dialog [data-close]')) {
    button.onclick = () => button.closest('dialog').close('');
  }
}
