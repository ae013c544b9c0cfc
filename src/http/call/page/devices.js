// Cameras, microphones and loudspeakers: which there are, and a look at them before the call.

import { make } from './dom.js';
import { isText, text } from './texts.js';

const KINDS = { microphone: 'audioinput', camera: 'videoinput', speaker: 'audiooutput' };
const MEDIA = { microphone: 'audio', camera: 'video' };
const CAUSES = {
  NotAllowedError: 'blocked', SecurityError: 'blocked', NotFoundError: 'missing', OverconstrainedError: 'missing', NotReadableError: 'busy',
  AbortError: 'busy', InvalidStateError: 'click',
};

// Whether audio can be played on a speaker other than the system's.
export const canChooseSpeaker = 'setSinkId' in HTMLMediaElement.prototype;

// Browsers by a part of their name, in the order in which to look: Chromium names Safari, too.
const BROWSERS = [['Firefox/', 'firefox'], ['Chrome/', 'chromium'], ['Safari/', 'safari']];

// The cause of a refusal. A device that the user has blocked comes back only by steps that each browser has in another place.
function causeText(key, cause) {
  if (cause !== 'blocked') return text(key);
  const [, browser] = BROWSERS.find(([part]) => navigator.userAgent.includes(part)) ?? ['', 'other'];
  return `${text(key)} ${text(`allow-${browser}`)}`;
}

// Explains why a device cannot be used, with advice.
export function explain(device, error) {
  if (!navigator.mediaDevices) return text('device-insecure');
  if (error?.name === 'BlurError') return error.message;
  const cause = CAUSES[error?.name];
  const key = `${device}-${cause}`;
  if (!isText(key)) return text('device-failed', { reason: error?.message ?? '' });
  // A refused screen was a choice of the user, not a setting.
  return device === 'screen' ? text(key) : causeText(key, cause);
}

// Explains the problems of several devices, by their names. A problem that microphone and camera share is explained once.
export function explainAll(problems) {
  const { microphone, camera } = problems;
  const cause = CAUSES[microphone?.name];
  const key = microphone && camera && cause === CAUSES[camera.name] ? `both-${cause}` : '';
  if (isText(key) && navigator.mediaDevices) return causeText(key, cause);
  return [...new Set(Object.entries(problems).map(([device, error]) => explain(device, error)))].join(' ');
}

// Fills a list with the devices of a kind. Browsers name them once one of the kind is in use.
export async function fillDevices(select, device, chosen) {
  const all = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  const found = all.filter(({ kind, deviceId }) => kind === KINDS[device] && deviceId);
  const options = found.map(({ deviceId, label }, index) => make('option', { value: deviceId, textContent: label || `${text(device)} ${index + 1}` }));
  select.replaceChildren(...options);
  if (found.some(({ deviceId }) => deviceId === chosen)) select.value = chosen;
  select.closest('label').hidden = found.length === 0 || (device === 'speaker' && !canChooseSpeaker);
}

// The preview of the microphone and the camera before the call: the camera's video, and the microphone's level.
export class Preview {
  constructor(video, meter) {
    Object.assign(this, { video, meter, tracks: {} });
  }

  // Starts a device. Another start or a stop in between wins.
  async start(device, deviceId) {
    this.stop(device);
    const turn = Symbol(device);
    this.tracks[device] = { turn };
    const wanted = deviceId ? { deviceId: { ideal: deviceId } } : true;
    const stream = await navigator.mediaDevices.getUserMedia({ [MEDIA[device]]: wanted });
    if (this.tracks[device]?.turn !== turn) {
      stream.getTracks().forEach((track) => track.stop());
      return;
    }
    this.tracks[device].stream = stream;
    if (device === 'camera') this.video.srcObject = stream;
    else this.measure(stream);
  }

  stop(device) {
    this.tracks[device]?.stream?.getTracks().forEach((track) => track.stop());
    delete this.tracks[device];
    if (device === 'camera') this.video.srcObject = null;
    else this.silence();
  }

  end() {
    this.stop('camera');
    this.stop('microphone');
  }

  // Shows the level of a microphone, as the root mean square of its samples.
  measure(stream) {
    this.context = new AudioContext();
    const analyser = this.context.createAnalyser();
    this.context.createMediaStreamSource(stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const show = () => {
      if (!this.context) return;
      analyser.getFloatTimeDomainData(samples);
      const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
      this.meter.value = Math.min(1, Math.sqrt(power) * 4);
      requestAnimationFrame(show);
    };
    show();
  }

  silence() {
    this.context?.close();
    this.context = null;
    this.meter.value = 0;
  }
}
