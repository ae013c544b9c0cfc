// A call: from the connection to its end. Everything of the media comes from livekit-client.

import { Arrivals } from './arrivals.js';
import { Chat } from './chat.js';
import { Controls, processing } from './controls.js';
import { Details } from './details.js';
import { ask, closeAll } from './dialogs.js';
import { element } from './dom.js';
import { watchEnding } from './ending.js';
import { Hands } from './hands.js';
import { Liveness } from './liveness.js';
import { Moderation } from './moderation.js';
import { nameOf, roleOf } from './names.js';
import { clearAll, notice, problem } from './notices.js';
import { Panels } from './panels.js';
import { People } from './people.js';
import { Reactions } from './reactions.js';
import { Recording } from './recording.js';
import { FullScreen } from './screen.js';
import { Moderator } from './server.js';
import { Stage } from './stage.js';
import { Talking } from './talking.js';
import { text } from './texts.js';
import { Timer } from './timer.js';

const { Room, RoomEvent, ConnectionState, DisconnectReason } = LivekitClient;
// Interval at which the end of the client SDK's attempt to connect is looked for.
const ATTEMPT_MS = 100;
const REASONS = {
  [DisconnectReason.CLIENT_INITIATED]: 'left',
  [DisconnectReason.PARTICIPANT_REMOVED]: 'removed',
  [DisconnectReason.ROOM_DELETED]: 'ended',
  [DisconnectReason.DUPLICATE_IDENTITY]: 'elsewhere',
  [DisconnectReason.SERVER_SHUTDOWN]: 'stopped',
};

export class Call {
  // `granted` is a room token with its URL; `wishes` are the devices, the layout, a title, and whether there is a chat. `emit` sends events
  // to an embedding page, and `onEnd` gets the reason of the end, with the token and the devices for a rejoin.
  constructor(granted, wishes, { emit, onEnd }) {
    Object.assign(this, { granted, wishes, emit, onEnd, layout: wishes.layout, title: wishes.title, offered: wishes.controls });
    const device = (id) => (id ? { deviceId: id } : undefined);
    this.room = new Room({
      adaptiveStream: true, dynacast: true,
      audioCaptureDefaults: { ...device(wishes.microphoneId), ...processing() }, videoCaptureDefaults: device(wishes.cameraId),
    });
    this.liveness = new Liveness(this.room, () => this.showConnection());
    watchEnding(this.room, (seconds) => this.emit('ending', { room: this.roomName, seconds }));
    this.hands = new Hands(this.room, (participant, isRaised) => this.showHand(participant, isRaised));
    this.bind();
  }

  bind() {
    const { room } = this;
    room.on(RoomEvent.ConnectionStateChanged, () => this.showConnection());
    room.on(RoomEvent.Reconnected, () => this.releaseEvents());
    room.on(RoomEvent.Disconnected, (reason) => this.end(reason));
    room.on(RoomEvent.ParticipantAttributesChanged, (changed, participant) => {
      if ('svc.role' in changed) this.roleChanged(participant);
    });
    room.on(RoomEvent.ParticipantPermissionsChanged, (_, participant) => {
      if (participant?.isLocal) this.allowData();
    });
  }

  // After a new connection, the client SDK (2.23) may take a cancelled attempt for one to come, and keep back its events, such as joins and
  // speakers, for the rest of the call.
  releaseEvents() {
    const { engine, state } = this.room;
    if (state !== ConnectionState.Connected) return;
    if (engine.attemptingReconnect) {
      setTimeout(() => this.releaseEvents(), ATTEMPT_MS);
      return;
    }
    engine.reconnectTimeout = undefined;
    this.room.emitBufferedEvents();
  }

  // Known as soon as messages can arrive, which may be before the connection is complete.
  get roomName() {
    return this.room.name.replace(/^prj_[0-9a-f]+\./, '');
  }

  describe(participant) {
    return { identity: participant.identity, name: nameOf(participant), role: roleOf(participant) || null };
  }

  // The own participant, for the embedding page.
  self() {
    return { room: this.roomName, ...this.describe(this.room.localParticipant) };
  }

  // Connects. Throws if the connection is refused or fails; nothing of the call remains then. The devices start later: browsers ask for them,
  // and the user may leave without an answer.
  async join() {
    const { room, granted } = this;
    await room.connect(granted.url, granted.token);
    this.moderation = new Moderation(room, new Moderator(this.roomName, () => room.engine?.token ?? granted.token), () => this.show());
    this.stage = new Stage(room, this.view(), { layout: this.layout, most: this.wishes.mostTiles });
    this.panels = new Panels();
    this.people = new People(room, { hands: this.hands, moderation: this.moderation, panels: this.panels });
    this.chat = new Chat(room, { isOffered: this.wishes.chat, panels: this.panels });
    this.controls = new Controls(room, { hands: this.hands, leave: () => this.askToLeave(), setLayout: (layout) => this.setLayout(layout) });
    this.recording = new Recording(room, { moderation: this.moderation, layout: () => this.layout, emit: this.emit });
    this.reactions = new Reactions(room, (participant) => this.stage.tileOf(participant)?.root);
    this.arrivals = new Arrivals(room, (one) => this.emit('participant-joined', this.describe(one)));
    this.details = new Details(room);
    this.talking = new Talking(room);
    this.fullScreen = new FullScreen();
    this.timer = new Timer();
    this.start();
    this.learn();
    this.startDevices();
  }

  // Requests the permissions, for which the server's rate limit may demand a wait.
  async learn() {
    await this.moderation.refresh();
    if (this.room.isRecording && !this.controls.isOver) this.recording.learn();
  }

  async startDevices() {
    await this.controls.useSpeaker(this.wishes.speakerId);
    await this.controls.startDevices(this.wishes);
  }

  // Messages and reactions are for roles that may send data.
  allowData() {
    const isAllowed = this.room.localParticipant.permissions?.canPublishData !== false;
    this.chat?.allow(isAllowed);
    element('react').disabled = !isAllowed;
  }

  view() {
    const call = this;
    return {
      isRaised: (participant) => call.hands.isRaised(participant),
      get canModerate() { return call.moderation.canModerate; },
      more: (participant) => call.moderation.show(participant),
    };
  }

  start() {
    const me = this.room.localParticipant;
    element('lobby').hidden = true;
    element('end').hidden = true;
    element('call').hidden = false;
    this.setTitle(this.title);
    this.controls.showLayout(this.layout);
    this.controls.showAudio();
    this.panels.show('');
    this.timer.start();
    this.allowData();
    this.liveness.start();
    this.showConnection();
    this.show();
    // Where the form was, the focus would be lost. If it is in the page around this one, it stays there.
    if (document.hasFocus()) element('microphone').focus({ preventScroll: true });
    this.emit('joined', this.self());
  }

  show() {
    // A response may arrive after the end, and the elements may be a later call's.
    if (this.controls.isOver) return;
    this.setTitle(this.title);
    this.stage.view = this.view();
    this.stage.show();
    this.people.show();
    this.recording.show();
    this.controls.show();
    this.controls.offer(this.offered);
  }

  // Shows the texts with values in another language, such as the names of buttons for a participant.
  translate() {
    if (!this.controls) return;
    this.show();
    this.chat.count(this.chat.unread);
  }

  offer(controls) {
    this.offered = controls;
    this.controls?.offer(controls);
  }

  // Shows the title: from the embedding page, or else from the room's metadata, or else the room's name.
  setTitle(title) {
    this.title = title;
    const shown = title || this.moderation?.title || this.roomName;
    element('room-name').textContent = shown;
    element('room-name').title = shown;
  }

  // The embedding page may change this and the following while the call connects.
  setLayout(layout) {
    this.layout = layout;
    this.stage?.setLayout(layout);
    this.controls?.showLayout(layout);
  }

  setMost(most) {
    this.wishes.mostTiles = most;
    this.stage?.setMost(most);
  }

  offerChat(isOffered) {
    this.wishes.chat = isOffered;
    this.chat?.offer(isOffered);
  }

  showHand(participant, isRaised) {
    this.stage?.show();
    this.people?.show();
    this.controls?.show();
    if (isRaised && !participant.isLocal) notice(text('raises-hand', { name: nameOf(participant) }));
  }

  roleChanged(participant) {
    const change = this.describe(participant);
    this.emit('role-changed', change);
    if (!participant.isLocal) return;
    notice(text('role-changed', { role: change.role ?? '' }));
    this.moderation?.refresh();
  }

  showConnection() {
    const { state } = this.room;
    const isLost = this.liveness.isCutOff || state === ConnectionState.Reconnecting || state === ConnectionState.SignalReconnecting;
    const tag = element('connection');
    // Shows a notice only after the interruption: the tag covers the interruption itself.
    if (tag.dataset.state === 'reconnecting' && !isLost && state === ConnectionState.Connected) notice(text('reconnected'));
    tag.dataset.state = isLost ? 'reconnecting' : state;
    tag.dataset.text = isLost ? 'reconnecting' : 'connected';
    tag.textContent = isLost || state === ConnectionState.Connected ? text(tag.dataset.text) : '';
    this.stage?.setCutOff(isLost);
  }

  // Leaves the call. Participants who may end it for everyone are asked which of the two they mean.
  async askToLeave() {
    if (!this.moderation.canEnd) return this.leave();
    const answer = await ask(text('leave-question'), { leave: { key: 'leave' }, end: { key: 'end-call', kind: 'dangerous' } });
    if (answer === 'leave') await this.leave();
    if (answer === 'end') await this.moderation.moderator.endRoom().catch((error) => problem(error.message));
    return undefined;
  }

  leave() {
    return this.room.disconnect();
  }

  end(code) {
    // The event also comes for a connection that never was.
    if (!this.stage) return;
    // The client SDK gives no reason if it could not connect again.
    const reason = REASONS[code] ?? 'lost';
    this.liveness.stop();
    this.timer.stop();
    this.controls.end();
    closeAll();
    clearAll();
    this.stage.clear();
    this.fullScreen.close();
    element('call').hidden = true;
    element('connection').dataset.state = '';
    if (reason === 'ended') this.emit('ended', { room: this.roomName });
    this.emit('left', { room: this.roomName, reason });
    this.onEnd(reason, { token: this.room.engine?.token ?? this.granted.token, devices: this.controls.wanted });
  }
}
