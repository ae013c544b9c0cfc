// Raised hands: data messages with the topic `conclave.hand`, `{"raised": true, "for_ms": 0}` or `{"raised": false}`. Participants
// with a raised hand repeat the message for later participants, with the time since it was raised, so that all see hands in the same order.

const { RoomEvent } = LivekitClient;
const TOPIC = 'conclave.hand';
const LONGEST_MS = 24 * 3_600_000;

export class Hands {
  constructor(room, onChange) {
    Object.assign(this, { room, onChange, raised: new Map() });
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic) => {
      if (topic === TOPIC && participant) this.note(participant, bytes);
    });
    room.on(RoomEvent.ParticipantConnected, (one) => this.tell([one.identity]));
    room.on(RoomEvent.Reconnected, () => this.tell());
    room.on(RoomEvent.ParticipantDisconnected, ({ identity }) => this.raised.delete(identity));
  }

  isRaised({ identity }) {
    return this.raised.has(identity);
  }

  // When a hand was raised, by this page's clock; `Infinity` if it is not.
  raisedAt({ identity }) {
    return this.raised.get(identity) ?? Infinity;
  }

  async toggle() {
    const { localParticipant: me } = this.room;
    const raised = !this.isRaised(me);
    await this.send(raised ? { raised, for_ms: 0 } : { raised });
    this.set(me, raised);
  }

  // Sends the user's raised hand to some participants, or to everyone.
  async tell(identities) {
    const { localParticipant: me } = this.room;
    if (!this.isRaised(me)) return;
    // A message that is lost with its connection is repeated when that comes back.
    await this.send({ raised: true, for_ms: Math.round(performance.now() - this.raisedAt(me)) }, identities).catch(() => {});
  }

  send(message, destinationIdentities) {
    const bytes = new TextEncoder().encode(JSON.stringify(message));
    return this.room.localParticipant.publishData(bytes, { reliable: true, topic: TOPIC, destinationIdentities });
  }

  note(participant, bytes) {
    try {
      const { raised, for_ms: time } = JSON.parse(new TextDecoder().decode(bytes));
      if (typeof raised === 'boolean') this.set(participant, raised, time >= 0 && time <= LONGEST_MS ? time : 0);
    } catch {
      // Another program uses the topic for something else.
    }
  }

  set(participant, isRaised, time = 0) {
    if (isRaised === this.isRaised(participant)) return;
    if (isRaised) this.raised.set(participant.identity, performance.now() - time);
    else this.raised.delete(participant.identity);
    this.onChange(participant, isRaised);
  }
}
