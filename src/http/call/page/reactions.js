// Reactions: data messages with the topic `conclave.reaction`, `{"reaction": "heart"}`. They are seen for a moment on the tile of who
// reacts, or in a corner if there is no tile.

import { element, make } from './dom.js';
import { nameOf } from './names.js';
import { problem, say } from './notices.js';
import { text } from './texts.js';

const { RoomEvent } = LivekitClient;
const TOPIC = 'conclave.reaction';
const SIGNS = { agree: '👍', applause: '👏', heart: '❤️', laughter: '😂', surprise: '😮', celebration: '🎉' };
const SHOWN_MS = 4_000;
// A participant's reactions that follow another within this time are not shown, so that a flood is none.
const LEAST_BETWEEN_MS = 250;

export class Reactions {
  // `tileOf` finds the element of a participant's tile.
  constructor(room, tileOf) {
    Object.assign(this, { room, tileOf, last: new Map(), list: element('reactions') });
    this.list.replaceChildren(...Object.entries(SIGNS).map(([reaction, sign]) => make('button', {
      type: 'button', textContent: sign, title: text(`reaction-${reaction}`),
      attributes: { 'aria-label': text(`reaction-${reaction}`) }, dataset: { label: `reaction-${reaction}` }, onclick: () => this.react(reaction),
    })));
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic) => {
      if (topic === TOPIC && participant) this.read(participant, bytes);
    });
  }

  async react(reaction) {
    this.list.hidePopover?.();
    const { localParticipant: me } = this.room;
    const bytes = new TextEncoder().encode(JSON.stringify({ reaction }));
    try {
      await me.publishData(bytes, { reliable: true, topic: TOPIC });
      this.show(me, reaction);
    } catch (error) {
      problem(error.message);
    }
  }

  read(participant, bytes) {
    try {
      const { reaction } = JSON.parse(new TextDecoder().decode(bytes));
      if (Object.hasOwn(SIGNS, reaction)) this.show(participant, reaction);
    } catch {
      // Another program uses the topic for something else.
    }
  }

  show(participant, reaction) {
    const now = performance.now();
    if (now - (this.last.get(participant.identity) ?? -Infinity) < LEAST_BETWEEN_MS) return;
    this.last.set(participant.identity, now);
    const name = nameOf(participant);
    const tile = this.tileOf(participant);
    const shown = make('span', { className: 'reaction', attributes: { 'aria-hidden': 'true' } }, make('span', { className: 'sign', textContent: SIGNS[reaction] }));
    if (!tile) shown.append(make('bdi', { textContent: name }));
    (tile ?? element('reactions-of-others')).append(shown);
    setTimeout(() => shown.remove(), SHOWN_MS);
    say(text('reacts', { name, reaction: text(`reaction-${reaction}`) }));
  }
}
