// A short tone sequence, so that users hear whether their speaker works.

const TONES_HZ = [523, 659, 784];
const TONE_SECONDS = 0.22;
const VOLUME = 0.25;

// Plays three tones on a loudspeaker; without an id, on the one of the system. Resolves when they have ended.
export async function playTestSound(deviceId) {
  const context = new AudioContext();
  const end = context.createMediaStreamDestination();
  TONES_HZ.forEach((frequency, index) => {
    const begin = context.currentTime + 0.1 + index * TONE_SECONDS;
    const volume = new GainNode(context, { gain: 0 });
    // Without a rise and a fall, tones click.
    volume.gain.setValueAtTime(0, begin);
    volume.gain.linearRampToValueAtTime(VOLUME, begin + 0.02);
    volume.gain.linearRampToValueAtTime(0, begin + TONE_SECONDS);
    const tone = new OscillatorNode(context, { frequency });
    tone.connect(volume).connect(end);
    tone.start(begin);
    tone.stop(begin + TONE_SECONDS);
  });
  const audio = new Audio();
  audio.srcObject = end.stream;
  try {
    if (deviceId && audio.setSinkId) await audio.setSinkId(deviceId);
    await audio.play();
    await new Promise((resolve) => { setTimeout(resolve, (0.3 + TONES_HZ.length * TONE_SECONDS) * 1_000); });
  } finally {
    audio.srcObject = null;
    await context.close();
  }
}
