// The chat: data messages with the topic `chat`, as plain text. What the backend sends with that topic is shown, too.

import { element, make } from './dom.js';
import { withLinks } from './links.js';
import { nameOf } from './names.js';
import { label, text } from './texts.js';

const { RoomEvent } = LivekitClient;
const TOPIC = 'chat';
// Older messages are taken away, so that a flood does not slow the page down.
const MOST_MESSAGES = 500;
// Bytes of a message. More is neither sent nor shown.
const LONGEST = 16 * 1024;
// Where the chat has a place beside the call.
const WIDE = '(min-width: 56rem)';

export class Chat {
  constructor(room, { isOffered, panels }) {
    Object.assign(this, { room, panels, messages: element('messages'), form: element('send'), button: element('chat-button'), unread: 0 });
    this.messages.replaceChildren();
    panels.add('chat', (isShown) => this.count(isShown ? 0 : this.unread));
    this.offer(isOffered);
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.send(this.form.text.value.trim());
    };
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic) => {
      if (topic === TOPIC) this.add(participant ? nameOf(participant) : text('chat-server'), read(bytes));
    });
    room.on(RoomEvent.ParticipantConnected, (one) => this.note(text('has-joined', { name: nameOf(one) })));
    room.on(RoomEvent.ParticipantDisconnected, (one) => this.note(text('has-left', { name: nameOf(one) })));
  }

  // Without an offer there is no chat at all.
  offer(isOffered) {
    this.button.hidden = !isOffered;
    this.panels.show(isOffered && matchMedia(WIDE).matches ? 'chat' : '');
  }

  count(unread) {
    this.unread = unread;
    element('unread').textContent = unread ? String(Math.min(unread, 99)) : '';
    label(this.button, unread ? 'chat-unread' : 'chat');
  }

  async send(message) {
    if (!message) return;
    const bytes = new TextEncoder().encode(message);
    if (bytes.length > LONGEST) {
      this.note(text('chat-too-long', { most: LONGEST, bytes: bytes.length }));
      return;
    }
    try {
      await this.room.localParticipant.publishData(bytes, { reliable: true, topic: TOPIC });
      this.add(text('you'), message);
      this.form.reset();
    } catch (error) {
      this.note(text('chat-not-sent', { reason: error.message }));
    }
  }

  allow(isAllowed) {
    for (const control of this.form.elements) control.disabled = !isAllowed;
    this.form.text.dataset.placeholder = isAllowed ? 'chat-message' : 'chat-forbidden';
    this.form.text.placeholder = text(this.form.text.dataset.placeholder);
  }

  add(from, message) {
    this.append(make('bdi', { className: 'from', textContent: from }), make('p', { dir: 'auto' }, ...withLinks(message)));
    if (element('chat').hidden) this.count(this.unread + 1);
  }

  note(message) {
    this.append(make('span', { className: 'notice', textContent: message }));
  }

  append(...parts) {
    const item = make('li', {}, ...parts);
    this.messages.append(item);
    if (this.messages.children.length > MOST_MESSAGES) this.messages.firstChild.remove();
    // Only the list moves, never the page that shows this one in a frame.
    const log = this.messages.parentElement;
    log.scrollTop = log.scrollHeight;
  }
}

// The text of a message, which ends early if it is too long.
function read(bytes) {
  const text = new TextDecoder().decode(bytes.subarray(0, LONGEST));
  return bytes.length > LONGEST ? `${text}…` : text;
}
