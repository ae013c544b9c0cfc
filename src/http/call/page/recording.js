// Whether the call is recorded or broadcast: a badge, and a notice that is also spoken. For roles that may, the entries of the menu that
// start and stop it. The media plane reports that the room is recorded; the server's records list the recordings and broadcasts.

import { open } from './dialogs.js';
import { element } from './dom.js';
import { notice, problem } from './notices.js';
import { text } from './texts.js';

const { RoomEvent } = LivekitClient;
const KINDS = ['recording', 'broadcast'];
const ENTRIES = { recording: ['record', 'record-stop', 'record'], broadcast: ['broadcast', 'broadcast-stop', 'broadcast-start'] };
// The media plane knows it before the records do. They are asked twice, and again if they say nothing yet.
const WAITS_MS = [0, 1_500, 1_500, 3_000];

export const kindsOf = (running) => Object.fromEntries(KINDS.map((kind) => [kind, running.some((one) => one.kind === kind)]));
const isAny = (state) => KINDS.some((kind) => state[kind]);

// Returns the notice for the user, before joining or at the start of a recording or broadcast.
export function startedText({ recording, broadcast }) {
  return text(recording && broadcast ? 'both-started' : recording ? 'recording-started' : 'broadcast-started');
}

export class Recording {
  // `layout` returns the layout for a new recording; `emit` sends events to an embedding page.
  constructor(room, { moderation, layout, emit }) {
    Object.assign(this, { room, moderation, layout, emit, state: kindsOf([]) });
    room.engine?.on('roomUpdate', () => this.learn());
    room.on(RoomEvent.Reconnected, () => this.learn());
    room.on(RoomEvent.Disconnected, () => { this.asking = null; });
    element('record').onclick = () => this.toggle('recording');
    element('broadcast').onclick = () => this.toggle('broadcast');
    element('new-broadcast').onsubmit = (event) => {
      event.preventDefault();
      element('broadcast-dialog').close('start');
    };
    this.show();
  }

  // Requests the current recordings and broadcasts. A later change restarts the requests.
  async learn() {
    const asking = Symbol('asking');
    this.asking = asking;
    for (const [index, wait] of WAITS_MS.entries()) {
      await new Promise((resolve) => { setTimeout(resolve, wait); });
      if (this.asking !== asking) return;
      await this.moderation.refresh();
      if (this.asking !== asking) return;
      const found = this.room.isRecording ? kindsOf(this.moderation.running) : kindsOf([]);
      if (isAny(found) || !this.room.isRecording) this.set(found);
      if (index > 0 && (isAny(found) || !this.room.isRecording)) return;
    }
    // Something runs, but there is no record of it that this participant can read.
    this.set({ ...kindsOf([]), recording: true });
  }

  set(state) {
    const changed = KINDS.filter((kind) => state[kind] !== this.state[kind]);
    this.state = state;
    this.show();
    if (changed.length === 0) return;
    this.emit('recording-changed', state);
    if (changed.length === 2 && state.recording && state.broadcast) notice(startedText(state));
    else for (const kind of changed) notice(text(`${kind}-${state[kind] ? 'started' : 'ended'}`));
  }

  // The egresses of a kind that this participant may stop.
  idsOf(kind) {
    return this.moderation.running.filter((one) => one.kind === kind && one.egress_id).map(({ egress_id: id }) => id);
  }

  async toggle(kind) {
    const { moderator } = this.moderation;
    const ids = this.idsOf(kind);
    try {
      for (const id of ids) await moderator.stopEgress(kind, id);
      if (ids.length === 0 && kind === 'recording') await moderator.record(this.layout());
      if (ids.length === 0 && kind === 'broadcast') await this.askToBroadcast();
    } catch (error) {
      problem(error.message);
    }
    this.learn();
  }

  async askToBroadcast() {
    const address = element('new-broadcast').address;
    address.value = '';
    const answer = await open(element('broadcast-dialog'));
    const url = address.value.trim();
    // The address has a secret.
    address.value = '';
    if (answer === 'start') await this.moderation.moderator.broadcast(url, this.layout());
  }

  show() {
    const { permissions } = this.moderation;
    for (const kind of KINDS) {
      const [id, stop, start] = ENTRIES[kind];
      element(`${kind}-tag`).hidden = !this.state[kind];
      element(id).hidden = permissions[id] !== true;
      const label = element(id).lastElementChild;
      label.dataset.text = this.idsOf(kind).length > 0 ? stop : start;
      label.textContent = text(label.dataset.text);
    }
  }
}
