// The view after the call: the reason of its end, and the ways to continue. No device is in use here.

import { element } from './dom.js';
import { onLanguage, text } from './texts.js';

// After these reasons the same participant may come back.
const RETURNING = ['left', 'elsewhere', 'stopped', 'lost'];

export class End {
  // `rejoin` joins the same call again, and `start` goes to the form.
  constructor({ rejoin, start }) {
    this.reason = '';
    element('rejoin').onclick = rejoin;
    element('to-start').onclick = start;
    onLanguage(() => this.say());
  }

  // Without `canStart`, an embedding page decides what is joined.
  show(reason, { canStart }) {
    this.reason = reason;
    this.say();
    element('rejoin').hidden = !RETURNING.includes(reason);
    element('to-start').hidden = !canStart;
    this.setJoining(false);
    element('end').hidden = false;
    // The focus was in the call. If it is in the page around this one, it stays there.
    if (document.hasFocus()) element('end-title').focus({ preventScroll: true });
  }

  say() {
    if (this.reason) element('end-title').textContent = text(`ended-${this.reason}`);
  }

  setJoining(isJoining) {
    // The form would open devices beside the call's.
    for (const id of ['rejoin', 'to-start']) element(id).disabled = isJoining;
    element('end-status').textContent = isJoining ? text('joining') : '';
  }

  // Shows the wait after the server's rate limit has refused a request.
  wait(seconds) {
    element('end-status').textContent = text('waiting', { seconds });
  }

  hide() {
    element('end').hidden = true;
  }
}
