// Raised hands: data messages with the topic `conclave.hand`, `{"raised": true}` or `false`. Who joins later is told by everyone whose
// hand is raised.

const { RoomEvent } = LivekitClient;
const TOPIC = 'conclave.hand';

export class Hands {
  constructor(room, onChange) {
    Object.assign(this, { room, onChange, raised: new Set() });
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

  async toggle() {
    const { localParticipant: me } = this.room;
    const raised = !this.isRaised(me);
    await this.send({ raised });
    this.set(me, raised);
  }

  // Tells some, or everyone, that the own hand is raised.
  async tell(identities) {
    if (!this.isRaised(this.room.localParticipant)) return;
    // A message that is lost with its connection is repeated when that comes back.
    await this.send({ raised: true }, identities).catch(() => {});
  }

  send(message, destinationIdentities) {
    const bytes = new TextEncoder().encode(JSON.stringify(message));
    return this.room.localParticipant.publishData(bytes, { reliable: true, topic: TOPIC, destinationIdentities });
  }

  note(participant, bytes) {
    try {
      const { raised } = JSON.parse(new TextDecoder().decode(bytes));
      if (typeof raised === 'boolean') this.set(participant, raised);
    } catch {
      // Another program uses the topic for something else.
    }
  }

  set(participant, isRaised) {
    if (isRaised === this.isRaised(participant)) return;
    if (isRaised) this.raised.add(participant.identity);
    else this.raised.delete(participant.identity);
    this.onChange(participant, isRaised);
  }
}
