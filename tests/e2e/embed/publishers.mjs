// Many participants with small pictures, in one window. One of them at a time can be heard.
import { openWindow } from '../support/browsers.mjs';

export class Publishers {
  // Joins as `count` guests, whose names are `P01` and so on, in this order, with pictures of a size.
  static async join(server, browser, room, count, [width, height] = [160, 90]) {
    const tokens = [];
    for (let number = 1; number <= count; number += 1) {
      const identity = `P${String(number).padStart(2, '0')}`;
      tokens.push((await server.call('POST', '/v1/tokens', { room, identity, name: identity, role: 'guest' })).token);
    }
    const window = await openWindow(browser);
    await window.goto(`${server.api}/call`);
    await window.evaluate(publish, { url: server.api.replace('http', 'ws'), tokens, width, height });
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

async function publish({ url, tokens, width, height }) {
  const { Room, Track } = LivekitClient;
  const sound = new AudioContext();
  globalThis.voices = [];
  for (const [index, token] of tokens.entries()) {
    const room = new Room();
    await room.connect(url, token, { autoSubscribe: false });
    const canvas = Object.assign(document.createElement('canvas'), { width, height });
    const context = canvas.getContext('2d');
    setInterval(() => {
      context.fillStyle = `hsl(${index * 37} 50% ${40 + Math.random() * 20}%)`;
      context.fillRect(0, 0, width, height);
    }, 200);
    const options = { simulcast: false, videoCodec: 'vp8', videoEncoding: { maxBitrate: 60_000, maxFramerate: 5 } };
    await room.localParticipant.publishTrack(canvas.captureStream(5).getVideoTracks()[0], { source: Track.Source.Camera, ...options });
    const [voice, end] = [new GainNode(sound, { gain: 0 }), sound.createMediaStreamDestination()];
    const tone = new OscillatorNode(sound, { frequency: 300 + index * 20 });
    tone.connect(voice).connect(end);
    tone.start();
    globalThis.voices.push(voice);
    await room.localParticipant.publishTrack(end.stream.getAudioTracks()[0], { source: Track.Source.Microphone, dtx: false });
  }
}
