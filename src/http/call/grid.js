// The grid: a tile for each participant, and one for each screen that is shared.

import { nameOf } from './names.js';

const { RoomEvent, Track } = LivekitClient;

function initials(name) {
  const words = name.split(/[\s._-]+/).filter(Boolean);
  return words.slice(0, 2).map((word) => word[0].toUpperCase()).join('');
}

class Tile {
  constructor(participant, kind) {
    this.participant = participant;
    this.root = document.createElement('div');
    this.root.className = `tile ${kind}`;
    this.root.classList.toggle('own', participant.isLocal);
    this.root.innerHTML = '<span class="initials"></span><div class="label"><span class="name"></span>'
      + '<span class="role"></span><span class="muted"></span></div>';
    this.isScreen = kind === 'screen';
  }

  part(name) {
    return this.root.querySelector(`.${name}`);
  }

  update() {
    const { participant } = this;
    const name = nameOf(participant);
    const microphone = participant.getTrackPublication(Track.Source.Microphone);
    this.part('initials').textContent = initials(name);
    this.part('name').textContent = this.isScreen ? `${name}: screen` : name + (participant.isLocal ? ' (you)' : '');
    this.part('role').textContent = this.isScreen ? '' : participant.attributes['svc.role'] ?? '';
    this.part('muted').textContent = this.isScreen || (microphone && !microphone.isMuted) ? '' : 'muted';
    this.root.classList.toggle('speaking', !this.isScreen && participant.isSpeaking);
    this.showVideo();
  }

  // The video element is kept while its track is, so that it does not flicker.
  showVideo() {
    const source = this.isScreen ? Track.Source.ScreenShare : Track.Source.Camera;
    const publication = this.participant.getTrackPublication(source);
    const track = publication && !publication.isMuted ? publication.videoTrack : undefined;
    if (track === this.track) return;
    this.track?.detach().forEach((video) => video.remove());
    this.track = track;
    if (track) this.root.prepend(track.attach());
  }

  remove() {
    this.track?.detach().forEach((video) => video.remove());
    this.root.remove();
  }
}

export class Grid {
  constructor(root, room) {
    this.root = root;
    this.room = room;
    this.tiles = new Map();
    for (const event of [
      RoomEvent.ParticipantConnected, RoomEvent.ParticipantDisconnected, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
      RoomEvent.TrackSubscribed, RoomEvent.TrackUnsubscribed, RoomEvent.TrackPublished, RoomEvent.TrackUnpublished,
      RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished, RoomEvent.ActiveSpeakersChanged,
      RoomEvent.ParticipantNameChanged, RoomEvent.ParticipantAttributesChanged, RoomEvent.Reconnected,
    ]) {
      room.on(event, () => this.show());
    }
    room.on(RoomEvent.TrackSubscribed, (track) => {
      if (track.kind === Track.Kind.Audio) document.body.append(track.attach());
    });
    room.on(RoomEvent.TrackUnsubscribed, (track) => track.detach().forEach((media) => media.remove()));
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
      if (!keys.has(key)) {
        tile.remove();
        this.tiles.delete(key);
      }
    }
    for (const [key, participant, kind] of wanted) {
      if (!this.tiles.has(key)) {
        const tile = new Tile(participant, kind);
        this.tiles.set(key, tile);
        this.root.append(tile.root);
      }
      this.tiles.get(key).update();
    }
  }

  clear() {
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
  }
}
