// The tiles of a call. Two participants are one large tile with the other in its corner; more are a grid of equals, or one large tile and a
// strip of the others. The large tile is the pinned one; else a shared screen; else, in the layout `speaker`, the current or last speaker.
// Large calls have pages; only the tiles of the current page receive video. `layout.js` has the arithmetic.

import { element } from './dom.js';
import { capacityOf, fitted, gridOf, inCorner, withStrip } from './layout.js';
import { Order } from './order.js';
import { Pages } from './pages.js';
import { Floating } from './screen.js';
import { Tile } from './tile.js';

const { RoomEvent, Track } = LivekitClient;
const EVENTS = [
  RoomEvent.ParticipantConnected, RoomEvent.ParticipantDisconnected, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
  RoomEvent.TrackSubscribed, RoomEvent.TrackUnsubscribed, RoomEvent.TrackPublished, RoomEvent.TrackUnpublished,
  RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished,
  RoomEvent.ParticipantNameChanged, RoomEvent.ParticipantAttributesChanged, RoomEvent.ConnectionQualityChanged, RoomEvent.Reconnected,
];

const personKey = ({ sid }) => `person ${sid}`;
const screenKey = ({ sid }) => `screen ${sid}`;

export class Stage {
  // `view` has a tile's state besides its participant: `isRaised`, `canModerate`, `more`, and whether the call is cut off. `most` is the
  // greatest number of tiles on a page.
  constructor(room, view, { layout, most }) {
    Object.assign(this, { room, view, layout, most, root: element('stage'), grid: element('grid'), tiles: new Map(), sounds: new Map(), pinned: null, order: new Order() });
    this.pages = new Pages(() => this.show());
    this.floating = new Floating(() => this.floatingTrack());
    for (const event of EVENTS) room.on(event, () => this.show());
    room.on(RoomEvent.ActiveSpeakersChanged, (speakers) => this.speak(speakers));
    room.on(RoomEvent.TrackSubscribed, (track) => this.receive(track));
    // The client SDK reports tracks that arrive while it connects before `connect` returns, so no handler of this class gets them.
    for (const { trackPublications } of room.remoteParticipants.values()) {
      for (const { track } of trackPublications.values()) if (track) this.receive(track);
    }
    room.on(RoomEvent.TrackUnsubscribed, (track) => {
      // The client SDK has detached the element by then, so the track no longer names it.
      this.sounds.get(track)?.remove();
      this.sounds.delete(track);
    });
    this.observer = new ResizeObserver(() => this.show());
    this.observer.observe(this.root);
  }

  // Plays audio. Pauses video until a tile shows it: the client SDK pauses a track when its last element is detached, so the
  // track gets one first.
  receive(track) {
    const media = track.attach();
    if (track.kind !== Track.Kind.Audio) {
      track.detach(media);
      return;
    }
    this.sounds.set(track, media);
    document.body.append(media);
  }

  setLayout(layout) {
    this.layout = layout;
    this.show();
  }

  setMost(most) {
    this.most = most;
    this.show();
  }

  // Marks frozen video, so that nobody mistakes it for live video.
  setCutOff(isCutOff) {
    this.root.classList.toggle('is-cut-off', isCutOff);
    this.view = { ...this.view, isCutOff };
    this.show();
  }

  togglePin({ key }) {
    this.pinned = this.pinned === key ? null : key;
    this.show();
  }

  // The tile of a participant, if it is on the page that is shown.
  tileOf(participant) {
    return this.tiles.get(personKey(participant));
  }

  speak(speakers) {
    // A later page does not change while the user looks at it.
    const first = this.pages.index === 0 ? this.capacity : Infinity;
    this.order.speak(speakers.filter(({ isLocal }) => !isLocal).map(personKey), first);
    this.show();
  }

  // The tiles that there could be, in their order.
  wanted() {
    const participants = [this.room.localParticipant, ...this.room.remoteParticipants.values()];
    const people = new Map(participants.map((one) => [personKey(one), one]));
    this.order.update([...people.keys()]);
    const screens = participants.filter((one) => one.isScreenShareEnabled);
    return [
      ...screens.map((participant) => ({ key: screenKey(participant), participant, isScreen: true })),
      ...this.order.keys.map((key) => ({ key, participant: people.get(key), isScreen: false })),
    ];
  }

  show() {
    const wanted = this.wanted();
    const isPair = wanted.length === 2 && !wanted.some(({ isScreen }) => isScreen);
    const large = this.chooseLarge(wanted, isPair);
    const others = wanted.filter((one) => one !== large);
    this.capacity = this.capacityFor(large);
    const shown = new Set([large, ...this.pages.cut(others, this.capacity)]);
    this.place(wanted.filter((one) => shown.has(one)));
    this.large = this.tiles.get(large?.key) ?? null;
    this.isPair = isPair;
    for (const tile of this.tiles.values()) tile.update({ ...this.view, pinned: this.pinned });
    this.arrange();
    this.floating.follow();
  }

  // How many tiles a page has, beside a large one or without.
  capacityFor(large) {
    if (large) return Math.max(1, this.most - 1);
    const { clientWidth: width, clientHeight: height } = this.root;
    return width > 0 && height > 0 ? capacityOf({ width, height }, this.most) : this.most;
  }

  // Adds and removes tiles. An existing tile is moved only if its position changes.
  place(shown) {
    const keys = new Set(shown.map(({ key }) => key));
    for (const [key, tile] of this.tiles) {
      if (keys.has(key)) continue;
      tile.remove();
      this.tiles.delete(key);
    }
    shown.forEach((one, index) => {
      if (!this.tiles.has(one.key)) this.tiles.set(one.key, this.newTile(one));
      const { root } = this.tiles.get(one.key);
      if (this.grid.children[index] !== root) this.grid.insertBefore(root, this.grid.children[index] ?? null);
    });
  }

  newTile({ key, participant, isScreen }) {
    const actions = { pin: (pinned) => this.togglePin(pinned), more: this.view.more, resized: () => this.arrange() };
    return Object.assign(new Tile(participant, isScreen ? 'screen' : 'person', actions), { key });
  }

  // Chooses the large tile: the pinned one, or in a call of two the other participant, or a screen, or the speaker.
  chooseLarge(wanted, isPair) {
    const found = wanted.length > 1 && wanted.find(({ key }) => key === this.pinned);
    if (found) return found;
    if (isPair) return wanted.find(({ participant }) => !participant.isLocal) ?? wanted[0];
    // One's own screen in a window of the call would show itself without end.
    const screen = wanted.find(({ isScreen, participant }) => isScreen && !participant.isLocal);
    if (screen || this.layout !== 'speaker' || wanted.length < 2) return screen ?? null;
    const speaker = this.speaker();
    return wanted.find(({ key }) => key === speaker) ?? wanted.at(-1);
  }

  // The current speaker, or else the last one.
  speaker() {
    const speaking = this.room.activeSpeakers.find((one) => !one.isLocal);
    if (speaking) this.lastSpeaker = personKey(speaking);
    return this.lastSpeaker;
  }

  // The track for a small window: the speaker's, or else another tile's that has video.
  floatingTrack() {
    const tiles = [this.tiles.get(this.speaker()), this.large, ...this.tiles.values()];
    const found = tiles.filter((tile) => tile?.video);
    return (found.find(({ participant }) => !participant.isLocal) ?? found[0])?.track;
  }

  arrange() {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (width === 0 || height === 0 || this.tiles.size === 0) return;
    const stage = { width, height };
    const { large } = this;
    const second = this.isPair ? [...this.tiles.values()].find((one) => one !== large) : undefined;
    this.root.classList.toggle('has-large', large !== null);
    this.root.classList.toggle('is-pair', this.isPair);
    this.root.classList.toggle('is-beside', width >= height);
    for (const tile of this.tiles.values()) {
      tile.root.classList.toggle('large', tile === large);
      tile.root.classList.toggle('in-corner', tile === second);
    }
    if (second) this.arrangePair(large, second, stage);
    else if (large) this.arrangeStrip(large, stage);
    else this.arrangeGrid(stage);
  }

  arrangePair(first, second, stage) {
    place(this.grid, { left: 0, top: 0, ...stage });
    const large = fitted(first.ratio, stage);
    first.place(large);
    second.place(inCorner(second.ratio, stage, large));
  }

  arrangeStrip(large, stage) {
    const { isBeside, thickness, large: box, strip } = withStrip(stage);
    place(this.grid, strip);
    large.place(fitted(large.ratio, box));
    for (const tile of this.tiles.values()) {
      if (tile === large) continue;
      // An upright tile beside the large one may be as high as the strip is wide.
      const cell = isBeside ? { width: thickness, height: tile.ratio < 1 ? thickness : thickness / tile.ratio } : { width: thickness * 2, height: thickness };
      tile.resize(fitted(tile.ratio, cell));
    }
  }

  arrangeGrid(stage) {
    const tiles = [...this.tiles.values()];
    const { width, height } = gridOf(tiles.map(({ ratio }) => ratio), stage);
    // A bar for scrolling needs the whole width.
    place(this.grid, { left: 0, top: 0, ...stage });
    this.grid.style.paddingInline = `${Math.floor((stage.width - width) / 2)}px`;
    for (const tile of tiles) tile.resize({ width: Math.floor(height * tile.ratio), height });
  }

  clear() {
    this.root.classList.remove('is-cut-off');
    this.floating.close();
    this.observer.disconnect();
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
    this.sounds.forEach((media) => media.remove());
    this.sounds.clear();
  }
}

function place(grid, { left, top, width, height }) {
  Object.assign(grid.style, { margin: `${top}px 0 0 ${left}px`, width: `${width}px`, height: `${height}px`, paddingInline: '0' });
}
