// The tiles of a call, in one of two layouts: a grid of equals, or one large tile and a strip of the others. A tile is large if it is
// pinned; else a shared screen is; else, in the layout `speaker`, who speaks or spoke last.

import { element } from './dom.js';
import { Tile } from './tile.js';

const { RoomEvent, Track } = LivekitClient;
const EVENTS = [
  RoomEvent.ParticipantConnected, RoomEvent.ParticipantDisconnected, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
  RoomEvent.TrackSubscribed, RoomEvent.TrackUnsubscribed, RoomEvent.TrackPublished, RoomEvent.TrackUnpublished,
  RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished, RoomEvent.ActiveSpeakersChanged,
  RoomEvent.ParticipantNameChanged, RoomEvent.ParticipantAttributesChanged, RoomEvent.ConnectionQualityChanged, RoomEvent.Reconnected,
];
const RATIO = 16 / 9;
const GAP = 8;

// The number of columns with which tiles of 16 to 9 are largest.
export function columnsFor(count, width, height) {
  const sizeWith = (columns) => {
    const rows = Math.ceil(count / columns);
    return Math.min((width - GAP * (columns - 1)) / columns, ((height - GAP * (rows - 1)) / rows) * RATIO);
  };
  const all = Array.from({ length: count }, (_, index) => index + 1);
  return all.reduce((best, columns) => (sizeWith(columns) > sizeWith(best) ? columns : best), 1);
}

export class Stage {
  // `view` says what a tile shows besides its participant: `isRaised`, `canModerate`, `more`.
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
    const tile = new Tile(participant, kind, { pin: (pinned) => this.togglePin(pinned), more: this.view.more });
    tile.key = key;
    this.tiles.set(key, tile);
    this.grid.append(tile.root);
  }

  // The key of the tile that is large, if one is.
  large() {
    if (this.tiles.has(this.pinned)) return this.pinned;
    const keys = [...this.tiles.keys()];
    // One's own screen in a window of the call would show itself without end.
    const screen = keys.find((key) => key.startsWith('screen ') && !this.tiles.get(key).participant.isLocal);
    if (screen || this.layout !== 'speaker') return screen ?? null;
    return this.speaker() ?? keys.at(-1) ?? null;
  }

  // The tile of who speaks, or else of who spoke last and is still there.
  speaker() {
    const speaking = this.room.activeSpeakers.find((one) => !one.isLocal);
    if (speaking) this.lastSpeaker = `person ${speaking.sid}`;
    return this.tiles.has(this.lastSpeaker) ? this.lastSpeaker : null;
  }

  arrange() {
    const large = this.large();
    this.root.classList.toggle('has-large', large !== null);
    this.root.classList.toggle('is-alone', this.tiles.size === 1);
    for (const [key, { root }] of this.tiles) root.classList.toggle('large', key === large);
    const columns = columnsFor(this.tiles.size, this.root.clientWidth, this.root.clientHeight);
    this.grid.style.setProperty('--columns', columns);
  }

  clear() {
    this.observer.disconnect();
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
  }
}
