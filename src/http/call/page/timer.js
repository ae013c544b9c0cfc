// How long the user has been in the call.

import { element } from './dom.js';

const two = (number) => String(number).padStart(2, '0');

export class Timer {
  start() {
    this.begun = performance.now();
    this.show();
    this.interval = setInterval(() => this.show(), 1_000);
  }

  stop() {
    clearInterval(this.interval);
    element('time').textContent = '';
  }

  show() {
    const seconds = Math.floor((performance.now() - this.begun) / 1_000);
    const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
    element('time').textContent = `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(seconds % 60)}`;
  }
}
