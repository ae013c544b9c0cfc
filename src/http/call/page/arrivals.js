// Notices of participants who have joined and left. Several within a moment share one sentence, as at the start of a lesson.

import { nameOf } from './names.js';
import { notice } from './notices.js';
import { text } from './texts.js';

const { ConnectionState, RoomEvent } = LivekitClient;
const GATHERED_MS = 1_000;

// The client SDK reports everyone as gone when it connects anew after an interruption, and as joined when it has connected. Participants who
// are still there then have the sids that they had.
export class Arrivals {
  // `onJoin` gets each participant who joins.
  constructor(room, onJoin) {
    Object.assign(this, { room, joined: [], left: [], known: this.present(room) });
    room.on(RoomEvent.ParticipantConnected, (one) => {
      if (this.known.has(one.sid)) return;
      this.known.add(one.sid);
      onJoin(one);
      this.note(this.joined, one);
    });
    room.on(RoomEvent.ParticipantDisconnected, (one) => this.note(this.left, one));
    room.on(RoomEvent.Disconnected, () => clearTimeout(this.timer));
  }

  present(room) {
    return new Set([...room.remoteParticipants.values()].map(({ sid }) => sid));
  }

  note(list, participant) {
    list.push({ sid: participant.sid, name: nameOf(participant) });
    this.timer ??= setTimeout(() => this.tell(), GATHERED_MS);
  }

  tell() {
    const isConnected = this.room.state === ConnectionState.Connected;
    this.timer = isConnected ? undefined : setTimeout(() => this.tell(), GATHERED_MS);
    if (!isConnected) return;
    const present = this.present(this.room);
    const left = this.left.splice(0).filter(({ sid }) => !present.has(sid));
    for (const { sid } of left) this.known.delete(sid);
    this.say(this.joined.splice(0), ['has-joined', 'have-joined']);
    this.say(left, ['has-left', 'have-left']);
  }

  say(participants, [one, several]) {
    const { length } = participants;
    if (length === 0) return;
    const [{ name }] = participants;
    notice(length === 1 ? text(one, { name }) : text(several, { name, count: length - 1 }));
  }
}
