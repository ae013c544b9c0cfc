// Pages of tiles, if there are more than are shown at once.

import { disable, element } from './dom.js';
import { text } from './texts.js';

export class Pages {
  constructor(onTurn) {
    Object.assign(this, { onTurn, index: 0, count: 1 });
    element('page-before').onclick = () => this.turn(-1);
    element('page-after').onclick = () => this.turn(1);
  }

  turn(step) {
    const index = Math.max(0, Math.min(this.index + step, this.count - 1));
    if (index === this.index) return;
    this.index = index;
    this.onTurn();
  }

  // The entries of the page that is shown, if a page has so many.
  cut(entries, most) {
    this.count = Math.max(1, Math.ceil(entries.length / most));
    this.index = Math.min(this.index, this.count - 1);
    this.show();
    return entries.slice(this.index * most, (this.index + 1) * most);
  }

  show() {
    element('pages').hidden = this.count === 1;
    const [before, after] = ['page-before', 'page-after'].map(element);
    // The button that may get the focus has to be enabled first.
    if (this.index > 0) before.disabled = false;
    disable(after, this.index === this.count - 1, before);
    disable(before, this.index === 0, after);
    const shown = text('page-of', { page: this.index + 1, pages: this.count });
    // The same text again would be read aloud again.
    if (element('page-number').textContent !== shown) element('page-number').textContent = shown;
  }
}
