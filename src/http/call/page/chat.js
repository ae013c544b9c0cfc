// The chat: data messages with the topic `chat`, as plain text. Messages from the backend with that topic are shown, too.

import { element, make } from './dom.js';
import { withLinks } from './links.js';
import { nameOf } from './names.js';
import { notice, problem } from './notices.js';
import { label, text } from './texts.js';

const { RoomEvent } = LivekitClient;
const TOPIC = 'chat';
// Older messages are taken away, so that a flood does not slow the page down.
const MOST_MESSAGES = 500;
// Bytes of a message. More is neither sent nor shown.
const LONGEST = 16 * 1024;
// Messages of one participant that follow each other within this time have one heading.
const GROUPED_MS = 3 * 60_000;
// So much of a message is shown where the chat is closed.
const LONGEST_NOTICE = 120;
// Where the chat has a place beside the call.
const WIDE = matchMedia('(min-width: 56rem)');

export class Chat {
  constructor(room, { isOffered, panels }) {
    Object.assign(this, { room, panels, messages: element('messages'), form: element('send'), button: element('chat-button'), unread: 0, last: null });
    this.messages.replaceChildren();
    panels.add('chat', (isShown) => this.shown(isShown));
    this.offer(isOffered);
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.send(this.form.text.value.trim());
    };
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic, _encryption, sender = '') => {
      // A message can arrive before its sender is known as a participant, or after it has left. Only the backend's messages have no sender.
      const from = participant ? nameOf(participant) : sender || text('chat-server');
      if (topic === TOPIC) this.add(from, sender, read(bytes));
    });
  }

  get isOpen() {
    return this.panels.opened === 'chat';
  }

  // Without an offer there is no chat at all.
  offer(isOffered) {
    this.isOffered = isOffered;
    this.button.hidden = !isOffered;
    if (!isOffered && this.isOpen) this.panels.show('');
  }

  // From then on, the user decides whether the chat is open.
  shown(isShown) {
    if (!isShown) return;
    this.wasOpen = true;
    this.count(0);
    this.toEnd();
  }

  count(unread) {
    this.unread = unread;
    const { dataset } = element('unread');
    dataset.count = unread ? String(Math.min(unread, 99)) : '';
    label(this.button, unread ? 'chat-unread' : 'chat');
    if (unread) this.button.setAttribute('aria-label', `${this.button.title} (${dataset.count})`);
  }

  async send(message) {
    if (!message) return;
    const bytes = new TextEncoder().encode(message);
    if (bytes.length > LONGEST) {
      problem(text('chat-too-long', { most: LONGEST, bytes: bytes.length }));
      return;
    }
    // The field is free at once: the message may take a while, as where the connection is interrupted, and the user writes on.
    this.form.reset();
    try {
      await this.room.localParticipant.publishData(bytes, { reliable: true, topic: TOPIC });
      this.add(text('you'), this.room.localParticipant.identity, message);
    } catch (error) {
      this.form.text.value ||= message;
      problem(text('chat-not-sent', { reason: error.message }));
    }
  }

  allow(isAllowed) {
    for (const control of this.form.elements) control.disabled = !isAllowed;
    this.form.text.dataset.placeholder = isAllowed ? 'chat-message' : 'chat-forbidden';
    this.form.text.placeholder = text(this.form.text.dataset.placeholder);
  }

  add(from, identity, message) {
    const at = new Date();
    const follows = this.last?.identity === identity && this.last.from === from && at - this.last.at < GROUPED_MS;
    this.last = { identity, from, at };
    const heading = follows ? [] : [make('div', { className: 'heading' }, make('bdi', { className: 'from', textContent: from }), timeOf(at))];
    this.append(make('li', { className: follows ? 'follows' : '' }, ...heading, make('p', { dir: 'auto' }, ...withLinks(message))));
    if (this.isOpen || !this.isOffered) return;
    // The first message opens the chat where it covers nothing, unless the embedding page has left its button out.
    if (!this.wasOpen && this.panels.opened === '' && WIDE.matches && !this.button.classList.contains('not-offered')) {
      this.panels.show('chat');
      return;
    }
    this.count(this.unread + 1);
    notice(text('chat-said', { name: from, message: [...message].slice(0, LONGEST_NOTICE).join('') + (message.length > LONGEST_NOTICE ? '…' : '') }));
  }

  append(item) {
    this.messages.append(item);
    if (this.messages.children.length > MOST_MESSAGES) this.messages.firstChild.remove();
    this.toEnd();
  }

  // Only the list moves, never the page that shows this one in a frame.
  toEnd() {
    const log = this.messages.parentElement;
    log.scrollTop = log.scrollHeight;
  }
}

function timeOf(at) {
  const shown = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: 'short' }).format(at);
  return make('time', { dateTime: at.toISOString(), textContent: shown });
}

// The text of a message, which ends early if it is too long.
function read(bytes) {
  const text = new TextDecoder().decode(bytes.subarray(0, LONGEST));
  return bytes.length > LONGEST ? `${text}…` : text;
}
