// Notices that the user talks while the microphone is muted. A muted microphone stays open, as browsers need a moment to open one; what it
// hears is measured here and goes nowhere.

import { notice } from './notices.js';
import { text } from './texts.js';

const { RoomEvent, Track } = LivekitClient;
const MEASURED_MS = 100;
// The root mean square of the samples of a voice near the microphone.
const LOUD = 0.03;
// So many measurements of the last ones have to be loud: a cough is no speech.
const [LAST, MOST_LOUD] = [15, 8];
const BETWEEN_MS = 30_000;

export class Talking {
  constructor(room) {
    Object.assign(this, { room, said: -Infinity });
    const isMicrophone = (publication, participant) => participant.isLocal && publication.source === Track.Source.Microphone;
    room.on(RoomEvent.TrackMuted, (...one) => { if (isMicrophone(...one)) this.listen(); });
    room.on(RoomEvent.TrackUnmuted, (...one) => { if (isMicrophone(...one)) this.stop(); });
    room.on(RoomEvent.LocalTrackUnpublished, (...one) => { if (isMicrophone(...one)) this.stop(); });
    room.on(RoomEvent.Disconnected, () => this.stop());
  }

  listen() {
    this.stop();
    const microphone = this.room.localParticipant.getTrackPublication(Track.Source.Microphone)?.track?.mediaStreamTrack;
    if (!microphone || microphone.readyState === 'ended') return;
    this.track = microphone.clone();
    // Muted is the original.
    this.track.enabled = true;
    this.context = new AudioContext();
    const analyser = this.context.createAnalyser();
    this.context.createMediaStreamSource(new MediaStream([this.track])).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const measured = [];
    this.timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
      measured.push(Math.sqrt(power) > LOUD);
      if (measured.length > LAST) measured.shift();
      if (measured.filter(Boolean).length >= MOST_LOUD) this.say();
    }, MEASURED_MS);
  }

  say() {
    if (performance.now() - this.said < BETWEEN_MS) return;
    this.said = performance.now();
    notice(text('talking-muted'));
  }

  stop() {
    clearInterval(this.timer);
    this.track?.stop();
    this.context?.close();
    this.track = null;
    this.context = null;
  }
}
