// Many participants with small videos, in one window. One of them at a time can be heard.
import { openWindow } from '../support/browsers.mjs';

export class Publishers {
  // Joins guests with videos of a size and rate. `guests` is a list of names, or a number; with a number, the names are `P01` and so on,
  // in this order. `muted`: their microphones are.
  static async join(server, browser, room, guests, { width = 160, height = 90, frames = 5, muted = false } = {}) {
    const names = Array.isArray(guests) ? guests : Array.from({ length: guests }, (_, index) => `P${String(index + 1).padStart(2, '0')}`);
    const tokens = [];
    for (const name of names) {
      const identity = Array.isArray(guests) ? `guest-${encodeURIComponent(name).replaceAll(/[^A-Za-z0-9]/g, '')}` : name;
      tokens.push((await server.call('POST', '/v1/tokens', { room, identity, name, role: 'guest' })).token);
    }
    const window = await openWindow(browser);
    await window.addInitScript(`globalThis.drawPerson = ${drawPerson}`);
    await window.goto(`${server.api}/call`);
    await window.evaluate(publish, { url: server.api.replace('http', 'ws'), tokens, tones: names.map(toneOf), width, height, frames, muted });
    return Object.assign(new Publishers(), { window });
  }

  // Makes one of them audible, and the others silent.
  speak(number) {
    return this.window.evaluate((wanted) => globalThis.voices.forEach((voice, index) => { voice.gain.value = index === wanted - 1 ? 0.5 : 0; }), number);
  }

  leave() {
    return this.window.context().close();
  }
}

// A number for the colors of a name.
const toneOf = (name) => [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 3_600, 7);

// Draws a person before a wall, who moves a little. It is sent to browsers as text.
function drawPerson(context, tone, beginning) {
  const { width, height } = context.canvas;
  const x = width / 2 + Math.sin(Date.now() / 900 + beginning) * width * 0.02;
  const oval = (color, y, wide, high) => {
    context.fillStyle = color;
    context.beginPath();
    context.ellipse(x, y * height, wide * height, high * height, 0, 0, 7);
    context.fill();
  };
  context.fillStyle = `hsl(${tone} 30% 62%)`;
  context.fillRect(0, 0, width, height);
  oval(`hsl(${tone + 40} 45% 35%)`, 1.05, 0.42, 0.4);
  oval(`hsl(${18 + (tone % 20)} 45% ${35 + (tone % 40)}%)`, 0.45, 0.17, 0.22);
}

// A script for a window: its camera shows the person of a name.
export function cameraOf(name) {
  return `{
    ${drawPerson}
    const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (wanted) => {
      if (!wanted.video) return real(wanted);
      const canvas = Object.assign(document.createElement('canvas'), { width: 640, height: 360 });
      const context = canvas.getContext('2d');
      setInterval(() => drawPerson(context, ${toneOf(name)}, 0), 100);
      const stream = canvas.captureStream(10);
      if (wanted.audio) for (const track of (await real({ audio: wanted.audio })).getTracks()) stream.addTrack(track);
      return stream;
    };
  }`;
}

async function publish({ url, tokens, tones, width, height, frames, muted }) {
  const { Room, Track } = LivekitClient;
  const sound = new AudioContext();
  globalThis.voices = [];
  for (const [index, token] of tokens.entries()) {
    const room = new Room();
    await room.connect(url, token, { autoSubscribe: false });
    const canvas = Object.assign(document.createElement('canvas'), { width, height });
    const context = canvas.getContext('2d');
    setInterval(() => {
      drawPerson(context, tones[index], index);
    }, 1_000 / frames);
    const options = { simulcast: false, videoCodec: 'vp8', videoEncoding: { maxBitrate: 12_000 * frames, maxFramerate: frames } };
    await room.localParticipant.publishTrack(canvas.captureStream(frames).getVideoTracks()[0], { source: Track.Source.Camera, ...options });
    const [voice, end] = [new GainNode(sound, { gain: 0 }), sound.createMediaStreamDestination()];
    const tone = new OscillatorNode(sound, { frequency: 300 + index * 20 });
    tone.connect(voice).connect(end);
    tone.start();
    globalThis.voices.push(voice);
    await room.localParticipant.publishTrack(end.stream.getAudioTracks()[0], { source: Track.Source.Microphone, dtx: false });
    if (muted) await room.localParticipant.setMicrophoneEnabled(false);
  }
}
