// Notices of participants who have joined and left. Several within a moment share one sentence, as at the start of a lesson.

import { nameOf } from './names.js';
import { notice } from './notices.js';
import { text } from './texts.js';

const { RoomEvent } = LivekitClient;
const GATHERED_MS = 1_000;

export class Arrivals {
  constructor(room) {
    Object.assign(this, { joined: [], left: [] });
    room.on(RoomEvent.ParticipantConnected, (one) => this.note(this.joined, one));
    room.on(RoomEvent.ParticipantDisconnected, (one) => this.note(this.left, one));
    room.on(RoomEvent.Disconnected, () => clearTimeout(this.timer));
  }

  note(list, participant) {
    list.push(nameOf(participant));
    this.timer ??= setTimeout(() => this.tell(), GATHERED_MS);
  }

  tell() {
    this.timer = undefined;
    this.say(this.joined.splice(0), ['has-joined', 'have-joined']);
    this.say(this.left.splice(0), ['has-left', 'have-left']);
  }

  say(names, [one, several]) {
    const [name] = names;
    if (names.length === 1) notice(text(one, { name }));
    if (names.length > 1) notice(text(several, { name, count: names.length - 1 }));
  }
}
