// A client of LiveKit's Node.js SDK, whose main file is the argument. It has the page's actions that the scenarios use: it reads
// commands from standard input, and writes results to standard output.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const sdk = await import(pathToFileURL(process.argv[2]));
const { AudioFrame, AudioSource, LocalAudioTrack, LocalVideoTrack, Room, RoomEvent, TrackKind, TrackPublishOptions, TrackSource } = sdk;
const { VideoBufferType, VideoCodec, VideoFrame, VideoSource, VideoStream } = sdk;

const [WIDTH, HEIGHT, FRAMES_PER_SECOND] = [640, 360, 15];
const [SAMPLES_PER_SECOND, SAMPLES] = [48_000, 480];

let room;
let sending = false;
let sent = 0;
let inbound = {};

const actions = {
  async join({ url, token, single }) {
    await actions.leave();
    [sent, inbound, room] = [0, {}, new Room()];
    room.on(RoomEvent.TrackSubscribed, (track, _publication, participant) => {
      const kind = track.kind === TrackKind.KIND_VIDEO ? 'video' : 'audio';
      const received = { trackSid: track.sid, framesDecoded: 0, freezeCount: 0, frameHeight: 0 };
      inbound[`${participant.identity} ${kind}`] = received;
      if (kind === 'video') count(track, received);
    });
    // The SDK's types lack this option, but its native library has it.
    await room.connect(url, token, { autoSubscribe: true, dynacast: false, singlePeerConnection: single });
    return { sid: room.localParticipant.sid };
  },

  async publish({ codec, simulcast }) {
    const [video, audio] = [new VideoSource(WIDTH, HEIGHT), new AudioSource(SAMPLES_PER_SECOND, 1)];
    const videoCodec = VideoCodec[(codec ?? 'vp8').toUpperCase()];
    const camera = new TrackPublishOptions({ source: TrackSource.SOURCE_CAMERA, simulcast: simulcast ?? false, videoCodec });
    const microphone = new TrackPublishOptions({ source: TrackSource.SOURCE_MICROPHONE });
    await room.localParticipant.publishTrack(LocalVideoTrack.createVideoTrack('camera', video), camera);
    await room.localParticipant.publishTrack(LocalAudioTrack.createAudioTrack('microphone', audio), microphone);
    sending = true;
    film(video);
    speak(audio);
  },

  // Counters of sent frames and of frames received from each participant. The SDK has no counters, so displayed frames are counted.
  async stats() {
    return { inbound, outbound: [{ kind: 'video', rid: null, framesSent: sent }] };
  },

  async leave() {
    sending = false;
    await room?.disconnect();
    room = undefined;
  },
};

async function count(track, received) {
  for await (const { frame } of new VideoStream(track)) {
    received.framesDecoded += 1;
    received.frameHeight = frame.height;
  }
}

// Sends frames that differ from each other.
async function film(source) {
  const begun = performance.now();
  const picture = new Uint8Array(WIDTH * HEIGHT * 4);
  while (sending) {
    const shade = (sent * 5) % 256;
    new Uint32Array(picture.buffer).fill(((255 << 24) | ((255 - shade) << 16) | (128 << 8) | shade) >>> 0);
    source.captureFrame(new VideoFrame(picture, WIDTH, HEIGHT, VideoBufferType.RGBA));
    sent += 1;
    await sleep(begun + (sent * 1000) / FRAMES_PER_SECOND - performance.now());
  }
}

// Sends a square wave of 100 Hz. The SDK accepts it only in real time.
async function speak(source) {
  const wave = Int16Array.from({ length: SAMPLES }, (_, sample) => (sample < SAMPLES / 2 ? 3_000 : -3_000));
  while (sending) await source.captureFrame(new AudioFrame(wave, SAMPLES_PER_SECOND, 1, SAMPLES));
}

function sleep(ms) {
  return new Promise((done) => setTimeout(done, Math.max(0, ms)));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { number, action, options } = JSON.parse(line);
  let result;
  try {
    result = { number, value: (await actions[action](options)) ?? null };
  } catch (error) {
    result = { number, error: `${error.name}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
// The SDK's library does not end by itself.
process.exit();
