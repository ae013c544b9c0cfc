// The panel of participants: their names and roles, raised hands first, in the order of raising; and the actions on others that the user's
// role permits.

import { disable, element, make } from './dom.js';
import { fillIcons, setIcon } from './icons.js';
import { initialsCircle, initialsOf, nameOf, roleOf, searchable } from './names.js';
import { label, text } from './texts.js';

const { RoomEvent, Track } = LivekitClient;
const EVENTS = [
  RoomEvent.ParticipantConnected, RoomEvent.ParticipantDisconnected, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
  RoomEvent.TrackPublished, RoomEvent.TrackUnpublished, RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished,
  RoomEvent.ParticipantNameChanged, RoomEvent.ParticipantAttributesChanged, RoomEvent.Reconnected,
];

// A participant in the list. It is kept while the participant is there, so that a button in it keeps the focus.
class Row {
  constructor(participant, { mute, more }) {
    this.participant = participant;
    this.initials = initialsCircle(participant);
    this.name = make('bdi', { className: 'name' });
    this.role = make('span', { className: 'role' });
    this.hand = make('span', { className: 'hand', attributes: { role: 'img' }, dataset: { icon: 'hand' } });
    this.mute = make('button', { type: 'button', className: 'small quiet', dataset: { icon: 'microphone' }, onclick: () => mute(participant) });
    this.more = make('button', { type: 'button', className: 'small quiet', dataset: { icon: 'more' }, onclick: () => more(participant) });
    this.root = make('li', { className: 'attendee' }, this.initials, make('span', { className: 'who' }, this.name, this.role), this.hand, this.mute, this.more);
    fillIcons(this.root);
  }

  update({ isRaised, canMute, canModerate }) {
    const { participant } = this;
    const name = nameOf(participant);
    const isOn = participant.isMicrophoneEnabled;
    this.initials.textContent = initialsOf(name);
    this.name.textContent = name + (participant.isLocal ? ` (${text('you')})` : '');
    this.role.textContent = roleOf(participant);
    this.hand.hidden = !isRaised;
    label(this.hand, 'hand-raised');
    setIcon(this.mute, isOn ? 'microphone' : 'microphone-off');
    this.mute.classList.toggle('muted', !isOn);
    this.more.hidden = participant.isLocal || !canModerate;
    disable(this.mute, !isOn || participant.isLocal || !canMute, this.more.hidden ? this.root.closest('.scroll') : this.more);
    this.mute.title = text(this.mute.disabled ? (isOn ? 'unmuted' : 'muted') : 'mute-microphone');
    this.mute.setAttribute('aria-label', `${this.mute.title}: ${name}`);
    label(this.more, 'more');
    this.more.setAttribute('aria-label', `${this.more.title}: ${name}`);
  }
}

export class People {
  constructor(room, { hands, moderation, panels }) {
    Object.assign(this, { room, hands, moderation, rows: new Map(), list: element('people-list'), isShown: false });
    this.list.replaceChildren();
    element('people-search').value = '';
    element('people-search').oninput = () => this.show();
    element('mute-all').onclick = () => moderation.muteAll();
    for (const event of EVENTS) room.on(event, () => this.show());
    panels.add('people', (isShown) => {
      this.isShown = isShown;
      this.show();
    });
  }

  get all() {
    return [this.room.localParticipant, ...this.room.remoteParticipants.values()];
  }

  // Raised hands first, then the own participant, then by name.
  sorted() {
    const { hands } = this;
    const compare = new Intl.Collator(document.documentElement.lang, { numeric: true }).compare;
    return this.all.sort((one, other) => {
      const [first, second] = [hands.raisedAt(one), hands.raisedAt(other)];
      if (first !== second) return first - second;
      if (one.isLocal !== other.isLocal) return one.isLocal ? -1 : 1;
      return compare(nameOf(one), nameOf(other));
    });
  }

  show() {
    const count = this.room.remoteParticipants.size + 1;
    element('people-count').textContent = String(count);
    element('people-total').dataset.count = String(Math.min(count, 999));
    element('people-button').setAttribute('aria-label', `${text('participants')} (${count})`);
    if (!this.isShown) return;
    const { permissions, canModerate } = this.moderation;
    const canMute = permissions.mute_others === true;
    element('mute-all').hidden = !canMute;
    disable(element('mute-all'), this.moderation.unmuted().length === 0, this.list.parentElement);
    const wanted = searchable(element('people-search').value);
    const found = this.sorted().filter((one) => searchable(`${nameOf(one)} ${roleOf(one)}`).includes(wanted));
    const rows = found.map((participant) => this.row(participant));
    for (const row of rows) row.update({ isRaised: this.hands.isRaised(row.participant), canMute, canModerate });
    this.place(rows);
    element('people-none').hidden = rows.length > 0;
  }

  row(participant) {
    // After a new connection, the client SDK has another object for a participant who is still there.
    if (this.rows.get(participant.sid)?.participant !== participant) {
      const { moderation } = this;
      this.rows.set(participant.sid, new Row(participant, {
        mute: (one) => moderation.muteSource(one, Track.Source.Microphone), more: (one) => moderation.show(one),
      }));
    }
    return this.rows.get(participant.sid);
  }

  // An element that moves loses the focus, so only a list in another order is placed anew.
  place(rows) {
    const roots = rows.map(({ root }) => root);
    const present = new Set(this.all.map(({ sid }) => sid));
    for (const sid of this.rows.keys()) if (!present.has(sid)) this.rows.delete(sid);
    if (roots.length === this.list.children.length && roots.every((root, index) => this.list.children[index] === root)) return;
    const focused = document.activeElement;
    const wasInside = this.list.contains(focused);
    this.list.replaceChildren(...roots);
    if (!wasInside) return;
    // The focus is lost with the row of a participant that has left. The area around the list opens no keyboard on a phone.
    const next = this.list.contains(focused) ? focused : this.list.parentElement;
    next.focus({ preventScroll: true });
  }
}
