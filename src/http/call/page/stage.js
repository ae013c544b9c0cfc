// The tiles of a call. Two participants are one large picture with the other in its corner; more are a grid of equals, or one large tile
// and a strip of the others. A tile is large if it is pinned; else a shared screen is; else, in the layout `speaker`, who speaks or spoke
// last. `layout.js` has the arithmetic.

import { element } from './dom.js';
import { fitted, gridOf, inCorner, withStrip } from './layout.js';
import { Tile } from './tile.js';

const { RoomEvent, Track } = LivekitClient;
const EVENTS = [
  RoomEvent.ParticipantConnected, RoomEvent.ParticipantDisconnected, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
  RoomEvent.TrackSubscribed, RoomEvent.TrackUnsubscribed, RoomEvent.TrackPublished, RoomEvent.TrackUnpublished,
  RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished, RoomEvent.ActiveSpeakersChanged,
  RoomEvent.ParticipantNameChanged, RoomEvent.ParticipantAttributesChanged, RoomEvent.ConnectionQualityChanged, RoomEvent.Reconnected,
];

export class Stage {
  // `view` says what a tile shows besides its participant: `isRaised`, `canModerate`, `more`, and whether the call is cut off.
  constructor(room, view, layout) {
    Object.assign(this, { room, view, layout, root: element('stage'), grid: element('grid'), tiles: new Map(), pinned: null });
    for (const event of EVENTS) room.on(event, () => this.show());
    room.on(RoomEvent.TrackSubscribed, (track) => {
      if (track.kind === Track.Kind.Audio) document.body.append(track.attach());
    });
    room.on(RoomEvent.TrackUnsubscribed, (track) => track.detach().forEach((media) => media.remove()));
    this.observer = new ResizeObserver(() => this.arrange());
    this.observer.observe(this.root);
  }

  setLayout(layout) {
    this.layout = layout;
    this.show();
  }

  // Pictures that stand still are not taken for those of now.
  setCutOff(isCutOff) {
    this.root.classList.toggle('is-cut-off', isCutOff);
    this.view = { ...this.view, isCutOff };
    this.show();
  }

  togglePin({ key }) {
    this.pinned = this.pinned === key ? null : key;
    this.show();
  }

  wanted() {
    const participants = [this.room.localParticipant, ...this.room.remoteParticipants.values()];
    const screens = participants.filter((one) => one.isScreenShareEnabled);
    return [
      ...screens.map((one) => [`screen ${one.sid}`, one, 'screen']),
      ...participants.map((one) => [`person ${one.sid}`, one, 'person']),
    ];
  }

  show() {
    const wanted = this.wanted();
    const keys = new Set(wanted.map(([key]) => key));
    for (const [key, tile] of this.tiles) {
      if (keys.has(key)) continue;
      tile.remove();
      this.tiles.delete(key);
    }
    for (const [key, participant, kind] of wanted) {
      if (!this.tiles.has(key)) this.add(key, participant, kind);
      this.tiles.get(key).update({ ...this.view, pinned: this.pinned });
    }
    this.arrange();
  }

  add(key, participant, kind) {
    const actions = { pin: (pinned) => this.togglePin(pinned), more: this.view.more, resized: () => this.arrange() };
    const tile = new Tile(participant, kind, actions);
    tile.key = key;
    this.tiles.set(key, tile);
    this.grid.append(tile.root);
  }

  // The two tiles of a call of two, the large one first; or nothing.
  pair() {
    const tiles = [...this.tiles.values()];
    if (tiles.length !== 2 || tiles.some(({ isScreen }) => isScreen)) return [];
    const large = this.tiles.get(this.pinned) ?? tiles.find(({ participant }) => !participant.isLocal) ?? tiles[0];
    return [large, tiles.find((one) => one !== large)];
  }

  // The tile that is large, if one is.
  large() {
    if (this.tiles.has(this.pinned)) return this.tiles.get(this.pinned);
    const tiles = [...this.tiles.values()];
    // One's own screen in a window of the call would show itself without end.
    const screen = tiles.find(({ isScreen, participant }) => isScreen && !participant.isLocal);
    if (screen || this.layout !== 'speaker') return screen ?? null;
    return this.speaker() ?? tiles.at(-1) ?? null;
  }

  // The tile of who speaks, or else of who spoke last and is still there.
  speaker() {
    const speaking = this.room.activeSpeakers.find((one) => !one.isLocal);
    if (speaking) this.lastSpeaker = `person ${speaking.sid}`;
    return this.tiles.get(this.lastSpeaker) ?? null;
  }

  arrange() {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (width === 0 || height === 0 || this.tiles.size === 0) return;
    const stage = { width, height };
    const [first, second] = this.pair();
    const large = first ?? (this.tiles.size > 1 ? this.large() : null);
    this.root.classList.toggle('has-large', large !== null);
    this.root.classList.toggle('is-pair', first !== undefined);
    this.root.classList.toggle('is-beside', width >= height);
    for (const tile of this.tiles.values()) {
      tile.root.classList.toggle('large', tile === large);
      tile.root.classList.toggle('in-corner', tile === second);
    }
    if (first) this.arrangePair(first, second, stage);
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
      // An upright picture beside the large one is as high as it may be wide.
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
    this.observer.disconnect();
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
  }
}

function place(grid, { left, top, width, height }) {
  Object.assign(grid.style, { margin: `${top}px 0 0 ${left}px`, width: `${width}px`, height: `${height}px`, paddingInline: '0' });
}
