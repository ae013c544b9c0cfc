// The chat: data messages with the topic `chat`, as plain text. What the backend sends with that topic is shown, too.

import { nameOf } from './names.js';

const { RoomEvent } = LivekitClient;
const TOPIC = 'chat';

export class Chat {
  constructor(root, room) {
    this.room = room;
    this.messages = root.querySelector('#messages');
    this.form = root.querySelector('#send');
    this.messages.replaceChildren();
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.send(this.form.text.value.trim());
    };
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic) => {
      if (topic === TOPIC) this.add(participant ? nameOf(participant) : 'server', new TextDecoder().decode(bytes));
    });
    room.on(RoomEvent.ParticipantConnected, (one) => this.note(`${nameOf(one)} has joined.`));
    room.on(RoomEvent.ParticipantDisconnected, (one) => this.note(`${nameOf(one)} has left.`));
  }

  async send(text) {
    if (!text) return;
    try {
      await this.room.localParticipant.publishData(new TextEncoder().encode(text), { reliable: true, topic: TOPIC });
      this.add('you', text);
      this.form.reset();
    } catch (error) {
      this.note(`The message was not sent: ${error.message}`);
    }
  }

  allow(isAllowed) {
    for (const control of this.form.elements) control.disabled = !isAllowed;
    this.form.text.placeholder = isAllowed ? 'Message' : 'Your role may not send messages';
  }

  add(from, text) {
    const sender = document.createElement('span');
    sender.className = 'from';
    sender.textContent = `${from} `;
    this.append(sender, text);
  }

  note(text) {
    const note = document.createElement('span');
    note.className = 'notice';
    note.textContent = text;
    this.append(note);
  }

  append(...parts) {
    const item = document.createElement('li');
    item.append(...parts);
    this.messages.append(item);
    item.scrollIntoView({ block: 'end' });
  }
}
