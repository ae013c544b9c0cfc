// The call page: joins with a room code and shows the call. Everything of the call comes from livekit-client.

import { Chat } from './chat.js';
import { Grid } from './grid.js';
import { identityOf } from './names.js';

const { Room, RoomEvent, ConnectionState, DisconnectReason, Track } = LivekitClient;
const element = (id) => document.getElementById(id);

const isDev = document.body.dataset.dev === 'true';
const form = element('join');
let current = null;

// A link to a call has its code in the fragment, which browsers do not send to servers.
function prepareLobby() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  form.code.value = fragment.get('code') ?? '';
  const hasCode = form.code.value !== '';
  element('by-room').hidden = !isDev || hasCode;
  form.code.required = !isDev;
}

async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error?.message ?? `the server answered ${response.status}`);
  return answer;
}

async function join() {
  let code = form.code.value.trim();
  if (!code) ({ code } = await post('/call/rooms', { room: form.room.value || undefined, role: form.role.value }));
  const granted = await post(`/v1/codes/${encodeURIComponent(code)}/exchange`, { identity: identityOf(form.name.value) });
  const room = new Room({ adaptiveStream: true, dynacast: true });
  current = new Call(room, granted.role, code);
  await room.connect(granted.url, granted.token);
  await current.start({ microphone: form.microphone.checked, camera: form.camera.checked });
}

class Call {
  constructor(room, role, code) {
    this.room = room;
    this.grid = new Grid(element('grid'), room);
    this.chat = new Chat(element('chat'), room);
    element('own-role').textContent = role ?? '';
    element('invite').onclick = () => this.copyLink(code);
    this.bind();
  }

  bind() {
    const { room } = this;
    room.on(RoomEvent.ConnectionStateChanged, (state) => this.showConnection(state));
    room.on(RoomEvent.Disconnected, (reason) => this.end(reason));
    room.on(RoomEvent.AudioPlaybackStatusChanged, () => { element('audio').hidden = room.canPlaybackAudio; });
    for (const event of [
      RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
      RoomEvent.ParticipantPermissionsChanged,
    ]) {
      room.on(event, () => this.showControls());
    }
    room.on(RoomEvent.ParticipantAttributesChanged, (_, participant) => {
      if (participant.isLocal) element('own-role').textContent = participant.attributes['svc.role'] ?? '';
    });
    element('audio').onclick = () => room.startAudio();
    element('leave').onclick = () => room.disconnect();
    const { localParticipant: me } = room;
    element('microphone').onclick = () => this.change(() => me.setMicrophoneEnabled(!me.isMicrophoneEnabled));
    element('camera').onclick = () => this.change(() => me.setCameraEnabled(!me.isCameraEnabled));
    element('screen').onclick = () => this.change(() => me.setScreenShareEnabled(!me.isScreenShareEnabled, { audio: true }));
  }

  async start({ microphone, camera }) {
    element('lobby').hidden = true;
    element('call').hidden = false;
    element('room-name').textContent = this.room.name.replace(/^prj_[0-9a-f]+\./, '');
    element('audio').hidden = this.room.canPlaybackAudio;
    this.grid.show();
    this.showControls();
    if (microphone) await this.change(() => this.room.localParticipant.setMicrophoneEnabled(true));
    if (camera) await this.change(() => this.room.localParticipant.setCameraEnabled(true));
  }

  // Devices can be missing or refused; the call goes on without them.
  async change(action) {
    element('call-error').textContent = '';
    try {
      await action();
    } catch (error) {
      element('call-error').textContent = error.message;
    }
    this.showControls();
  }

  showControls() {
    const { localParticipant: me } = this.room;
    const may = (source) => {
      const { canPublish, canPublishSources: sources } = me.permissions ?? {};
      return canPublish !== false && (!sources?.length || sources.includes(Track.sourceToProto(source)));
    };
    const show = (id, isOn, source) => {
      element(id).setAttribute('aria-pressed', String(isOn));
      element(id).disabled = !may(source);
    };
    show('microphone', me.isMicrophoneEnabled, Track.Source.Microphone);
    show('camera', me.isCameraEnabled, Track.Source.Camera);
    show('screen', me.isScreenShareEnabled, Track.Source.ScreenShare);
    this.chat.allow(me.permissions?.canPublishData !== false);
  }

  showConnection(state) {
    const tag = element('connection');
    const isLost = state === ConnectionState.Reconnecting || state === ConnectionState.SignalReconnecting;
    tag.dataset.state = isLost ? 'reconnecting' : state;
    tag.textContent = isLost ? 'reconnecting…' : state;
  }

  async copyLink(code) {
    const link = `${location.origin}/call#code=${code}`;
    try {
      await navigator.clipboard.writeText(link);
      this.chat.note('The link is copied.');
    } catch {
      this.chat.note(link);
    }
  }

  end(reason) {
    this.grid.clear();
    current = null;
    element('call').hidden = true;
    element('lobby').hidden = false;
    const texts = {
      [DisconnectReason.PARTICIPANT_REMOVED]: 'A moderator has removed you.',
      [DisconnectReason.ROOM_DELETED]: 'The call has ended.',
      [DisconnectReason.DUPLICATE_IDENTITY]: 'You have joined from somewhere else.',
      [DisconnectReason.SERVER_SHUTDOWN]: 'The server has stopped.',
    };
    const wanted = reason === undefined || reason === DisconnectReason.CLIENT_INITIATED;
    element('join-error').textContent = wanted ? '' : texts[reason] ?? 'The connection was lost.';
  }
}

form.onsubmit = async (event) => {
  event.preventDefault();
  const button = form.querySelector('button');
  element('join-error').textContent = '';
  button.disabled = true;
  try {
    await join();
  } catch (error) {
    element('join-error').textContent = error.message;
  }
  button.disabled = false;
};
addEventListener('hashchange', prepareLobby);
addEventListener('pagehide', () => current?.room.disconnect());
prepareLobby();
