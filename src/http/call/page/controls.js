// The buttons below the call, and the dialog of its devices.

import { blurProcessor, chooseBlur, isBlurChosen, isBlurOffered } from './blur.js';
import { canChooseSpeaker, explain, explainAll, fillDevices } from './devices.js';
import { open } from './dialogs.js';
import { element } from './dom.js';
import { setIcon } from './icons.js';
import { remember, remembered } from './memory.js';
import { clear, problem } from './notices.js';
import { playTestSound } from './sound.js';
import { label } from './texts.js';

const { RoomEvent, Track } = LivekitClient;
const EVENTS = [
  RoomEvent.LocalTrackPublished, RoomEvent.LocalTrackUnpublished, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted,
  RoomEvent.ParticipantPermissionsChanged,
];
const SOURCES = { microphone: Track.Source.Microphone, camera: Track.Source.Camera, screen: Track.Source.ScreenShare };
// Audio processing of the microphone by the browser. Each kind is on unless the user has turned it off.
const PROCESSING = { 'echo-cancellation': 'echoCancellation', 'noise-suppression': 'noiseSuppression' };
const DEVICES = { microphone: 'audioinput', camera: 'videoinput', speaker: 'audiooutput' };

export function processing() {
  return Object.fromEntries(Object.values(PROCESSING).map((name) => [name, remembered()[name] !== false]));
}

export class Controls {
  constructor(room, { hands, leave, setLayout }) {
    Object.assign(this, { room, hands, wanted: {}, opened: [], isOver: false });
    for (const method of ['createTracks', 'createScreenTracks']) this.keepOpened(method);
    for (const event of EVENTS) room.on(event, () => this.show());
    for (const source of Object.keys(SOURCES)) element(source).onclick = () => this.tryTo(source, !this.isOn(source)).catch(() => {});
    element('hand').onclick = () => this.raiseHand();
    element('leave').onclick = leave;
    element('layout').onclick = () => setLayout(element('layout').dataset.other);
    element('menu-button').onclick = () => open(element('menu'));
    element('settings-button').onclick = () => this.openSettings();
    element('audio').onclick = () => room.startAudio();
    room.on(RoomEvent.AudioPlaybackStatusChanged, () => this.showAudio());
    for (const device of Object.keys(DEVICES)) {
      element(`${device}-now`).onchange = ({ target }) => this.switchTo(device, target.value);
    }
    element('test-sound').onclick = () => playTestSound(element('speaker-now').value).catch((error) => problem(error.message));
    for (const [id, name] of Object.entries(PROCESSING)) element(id).onchange = ({ target }) => this.process(name, target.checked);
    element('blur-switch').hidden = !isBlurOffered;
    element('blur').onchange = ({ target }) => this.blur(target.checked);
  }

  // Keeps the tracks that the client SDK opens. A device may open only after the call, as when the user allows it late: the SDK would wait
  // for a connection then, with the device on.
  keepOpened(method) {
    const { localParticipant: me } = this.room;
    const create = me[method].bind(me);
    me[method] = async (options) => {
      const tracks = await create(options);
      this.opened = [...this.opened, ...tracks].filter(({ mediaStreamTrack }) => mediaStreamTrack.readyState === 'live');
      if (this.isOver) this.end();
      this.expectCall();
      return tracks;
    };
  }

  expectCall() {
    if (this.isOver) throw Object.assign(new Error('the call has ended'), { code: 'no_call' });
  }

  // Releases the devices, including any that open later.
  end() {
    this.isOver = true;
    for (const track of this.opened.splice(0)) track.stop();
  }

  isOn(source) {
    const { isMicrophoneEnabled, isCameraEnabled, isScreenShareEnabled } = this.room.localParticipant;
    return { microphone: isMicrophoneEnabled, camera: isCameraEnabled, screen: isScreenShareEnabled }[source];
  }

  mayPublish(source) {
    const { canPublish, canPublishSources: sources } = this.room.localParticipant.permissions ?? {};
    return canPublish !== false && (!sources?.length || sources.includes(Track.sourceToProto(SOURCES[source])));
  }

  async change(source, isOn) {
    const { localParticipant: me } = this.room;
    if (source === 'microphone') await me.setMicrophoneEnabled(isOn);
    if (source === 'camera' && isOn && isBlurChosen() && !me.getTrackPublication(Track.Source.Camera)) {
      this.starting ??= this.startBlurred().finally(() => { this.starting = null; });
      await this.starting;
    } else if (source === 'camera') await me.setCameraEnabled(isOn);
    if (source === 'screen') await me.setScreenShareEnabled(isOn, { audio: true });
    this.wanted[source] = isOn;
  }

  // Publishes a new camera with its processor, so that no frame without blur is sent. If the library fails, the camera stays off.
  async startBlurred() {
    const { localParticipant: me } = this.room;
    const [track] = await me.createTracks({ video: true });
    try {
      await track.setProcessor(await blurProcessor());
      this.expectCall();
      await me.publishTrack(track, { source: Track.Source.Camera });
    } catch (error) {
      track.stop();
      throw error;
    }
  }

  // Changes the blur of a running camera. If that fails, blur is off.
  async blur(isOn) {
    const { track } = this.room.localParticipant.getTrackPublication(Track.Source.Camera) ?? {};
    element('blur').disabled = true;
    try {
      if (track && isOn) await track.setProcessor(await blurProcessor());
      if (track && !isOn) await track.stopProcessor();
      chooseBlur(isOn);
    } catch (error) {
      chooseBlur(false);
      problem(explain('camera', error));
    } finally {
      element('blur').disabled = false;
      element('blur').checked = isBlurChosen();
    }
  }

  // Devices can be missing or refused. The call continues without them and shows the problem; the error is for an embedding page.
  async tryTo(source, isOn) {
    clear();
    try {
      await this.change(source, isOn);
    } catch (error) {
      // A refused screen is most often a dialog that was closed.
      if (!this.isOver && (source !== 'screen' || error.name !== 'NotAllowedError')) problem(explain(source, error));
      throw error;
    } finally {
      this.show();
    }
  }

  // Turns on the devices that the user has chosen before the call. A problem that both devices share is shown once.
  async startDevices(wishes) {
    const problems = {};
    for (const device of ['microphone', 'camera'].filter((one) => wishes[one] && this.mayPublish(one))) {
      // The user may have left meanwhile.
      if (this.isOver) return;
      await this.change(device, true).catch((error) => { problems[device] = error; });
    }
    if (this.isOver) return;
    if (Object.keys(problems).length > 0) problem(explainAll(problems));
    this.show();
  }

  async raiseHand() {
    try {
      await this.hands.toggle();
    } catch (error) {
      problem(error.message);
    }
    this.show();
  }

  show() {
    // The buttons may be a later call's.
    if (this.isOver) return;
    for (const source of Object.keys(SOURCES)) {
      const isOn = this.isOn(source);
      element(source).setAttribute('aria-pressed', String(isOn));
      element(source).disabled = !this.mayPublish(source);
      if (source !== 'screen') setIcon(element(source), isOn ? source : `${source}-off`);
    }
    element('screen').hidden = !navigator.mediaDevices?.getDisplayMedia;
    element('hand').setAttribute('aria-pressed', String(this.hands.isRaised(this.room.localParticipant)));
    element('hand').disabled = this.room.localParticipant.permissions?.canPublishData === false;
  }

  // The button shows the other layout, which it changes to.
  showLayout(layout) {
    const button = element('layout');
    button.dataset.other = layout === 'grid' ? 'speaker' : 'grid';
    setIcon(button, button.dataset.other);
    label(button, `layout-${button.dataset.other}`);
  }

  // Shows the controls of a list, such as `microphone`; all of them without one.
  offer(wanted) {
    for (const control of document.querySelectorAll('#call [data-control], #menu [data-control]')) {
      control.classList.toggle('not-offered', wanted.length > 0 && !wanted.includes(control.dataset.control));
    }
    // A menu without entries is none.
    element('menu-button').hidden = !element('menu').querySelector('[data-control]:not(.not-offered, [hidden])');
  }

  showAudio() {
    element('audio').hidden = this.room.canPlaybackAudio;
  }

  async openSettings() {
    for (const [device, kind] of Object.entries(DEVICES)) {
      await fillDevices(element(`${device}-now`), device, this.room.getActiveDevice(kind));
    }
    for (const [id, name] of Object.entries(PROCESSING)) element(id).checked = processing()[name];
    element('blur').checked = isBlurChosen();
    await open(element('settings'));
  }

  // Browsers change the processing of a microphone only when they open it.
  async process(name, isOn) {
    remember({ [name]: isOn });
    const { audioCaptureDefaults: before } = this.room.options;
    this.room.options.audioCaptureDefaults = { ...before, ...processing() };
    const { track } = this.room.localParticipant.getTrackPublication(Track.Source.Microphone) ?? {};
    try {
      await track?.restartTrack({ ...this.room.options.audioCaptureDefaults, deviceId: this.room.getActiveDevice('audioinput') });
    } catch (error) {
      problem(explain('microphone', error));
    }
  }

  async switchTo(device, deviceId) {
    remember({ [`${device}Id`]: deviceId });
    this.wanted[`${device}Id`] = deviceId;
    try {
      await this.room.switchActiveDevice(DEVICES[device], deviceId);
    } catch (error) {
      problem(explain(device, error));
    }
  }

  // The loudspeaker that was chosen before the call.
  async useSpeaker(deviceId) {
    if (deviceId && canChooseSpeaker) await this.room.switchActiveDevice('audiooutput', deviceId).catch(() => {});
  }
}
