// The panels beside the tiles, such as the chat. One is open at a time.

import { element } from './dom.js';

export class Panels {
  constructor() {
    Object.assign(this, { opened: '', onShow: {} });
  }

  // A panel with its button, whose ids follow from the name. `onShow` gets whether it is open.
  add(name, onShow) {
    this.onShow[name] = onShow;
    element(`${name}-button`).onclick = () => this.toggle(name);
    element(`${name}-close`).onclick = () => this.close();
  }

  toggle(name) {
    this.show(this.opened === name ? '' : name);
  }

  // Opens a panel and closes the open one; without a name, only closes it.
  show(opened) {
    this.opened = opened;
    for (const [name, onShow] of Object.entries(this.onShow)) {
      const isShown = name === opened;
      element(name).hidden = !isShown;
      element(`${name}-button`).setAttribute('aria-expanded', String(isShown));
      onShow(isShown);
    }
  }

  // Closes the panel that is open. The focus was in it.
  close() {
    const name = this.opened;
    this.show('');
    if (name) element(`${name}-button`).focus();
  }
}
