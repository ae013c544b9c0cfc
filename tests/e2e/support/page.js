// A client in a browser, controlled by the check: it fetches commands, runs them, and sends the results back.

const { Room, RoomEvent, Track, VideoPresets, VideoQuality, ConnectionState, supportsAV1, supportsVP9 } = LivekitClient;
const id = new URLSearchParams(location.search).get('id');
const NOISE_FRAMES_PER_SECOND = 15;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

let room;
let received = [];
let events = [];
let drawing = [];
let encoder;
let session;
let dataTracks = {};
let frames = [];
// A codec that the browser refuses to receive, as if it had no decoder for it.
let lacking;

for (const make of ['createOffer', 'createAnswer']) {
  const original = RTCPeerConnection.prototype[make];
  RTCPeerConnection.prototype[make] = function (...options) {
    if (lacking) this.getTransceivers().filter(receivesVideo).forEach(removeLacking);
    return original.apply(this, options);
  };
}

const actions = {
  async join({ url, token, single, adaptive, dynacast, relay, without }) {
    await room?.disconnect();
    lacking = without;
    received = [];
    events = [];
    dataTracks = {};
    frames = [];
    room = new Room({ singlePeerConnection: single, adaptiveStream: adaptive ?? false, dynacast: dynacast ?? false });
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic) => received.push({
      from: participant?.identity ?? null, topic: topic ?? null, length: bytes.length, text: new TextDecoder().decode(bytes.slice(0, 64)),
    }));
    room.on(RoomEvent.DataTrackPublished, readData);
    room.on(RoomEvent.TrackSubscribed, (track) => document.body.append(track.attach()));
    for (const event of [RoomEvent.Reconnecting, RoomEvent.SignalReconnecting, RoomEvent.Reconnected, RoomEvent.Disconnected]) {
      room.on(event, (detail) => events.push([event, String(detail ?? ''), Math.round(performance.now())]));
    }
    const begun = performance.now();
    await room.connect(url, token, relay ? { rtcConfig: { iceTransportPolicy: 'relay' } } : {});
    return { ms: Math.round(performance.now() - begun), sid: room.localParticipant.sid };
  },

  // Publishes the microphone, and the camera or a video that needs its layers' full bitrates.
  async publish({ simulcast, busy, codec, backup, mode }) {
    const me = room.localParticipant;
    await me.setMicrophoneEnabled(true, {}, { dtx: false });
    const options = { simulcast, videoCodec: codec ?? 'vp8', backupCodec: backup ? { codec: backup } : false, degradationPreference: 'maintain-resolution' };
    if (mode) options.scalabilityMode = mode;
    const { resolution } = simulcast ? VideoPresets.h540 : VideoPresets.h360;
    if (busy) {
      await me.publishTrack(noise(resolution), { source: Track.Source.Camera, ...options });
    } else {
      await me.setCameraEnabled(true, { resolution }, options);
    }
    return tracks(me);
  },

  // Returns the scalability modes that the browser can send with a codec.
  async scalabilityModes({ codec, modes }) {
    const { width, height, encoding } = VideoPresets.h540;
    const video = { contentType: `video/${codec}`, width, height, bitrate: encoding.maxBitrate, framerate: encoding.maxFramerate };
    const can = (scalabilityMode) => navigator.mediaCapabilities.encodingInfo({ type: 'webrtc', video: { ...video, scalabilityMode } });
    const infos = await Promise.all(modes.map(can));
    return modes.filter((_, number) => infos[number].supported);
  },

  // Publishes video of one color and a tone.
  async paint({ color, tone }) {
    const media = painted(color, tone);
    const me = room.localParticipant;
    await me.publishTrack(media.getVideoTracks()[0], { source: Track.Source.Camera, simulcast: true, videoCodec: 'vp8' });
    await me.publishTrack(media.getAudioTracks()[0], { source: Track.Source.Microphone, dtx: false });
    return tracks(me);
  },

  // Publishes many small videos and audio tracks at once.
  async publishMany({ count }) {
    const me = room.localParticipant;
    const media = Array.from({ length: count / 2 }, (_, number) => painted(`${number * 10} 128 128`, 200 + number * 20, [64, 36])).flatMap((one) => one.getTracks());
    const options = { simulcast: false, videoCodec: 'vp8', dtx: false };
    await Promise.all(media.map((track, number) => {
      const source = track.kind === 'video' ? Track.Source.Camera : Track.Source.Microphone;
      return me.publishTrack(track, { name: `track ${number}`, source, ...options });
    }));
    return tracks(me);
  },

  // Returns the number of a participant's tracks that arrive.
  async arriving({ identity }) {
    const publications = [...(room.remoteParticipants.get(identity)?.trackPublications.values() ?? [])];
    const received = await Promise.all(publications.map((publication) => (publication.track ? inbound(publication) : {})));
    return received.filter(({ packetsReceived }) => packetsReceived > 0).length;
  },

  // Mutes and unmutes the published tracks, at this rate per second.
  async toggle({ seconds, perSecond }) {
    const publications = [...room.localParticipant.trackPublications.values()];
    const begun = performance.now();
    for (let number = 1; number <= seconds * perSecond; number += 1) {
      await Promise.all(publications.map((one) => (number % 2 ? one.mute() : one.unmute())));
      await sleep(begun + (number * 1000) / perSecond - performance.now());
    }
    await Promise.all(publications.map((one) => one.unmute()));
  },

  // Publishes by WHIP, like an encoder: a color and a tone, or else the fake camera and microphone. A given codec is preferred.
  async whip({ url, codec, color, tone }) {
    const devices = { audio: true, video: { width: 640, height: 360 } };
    const media = color ? painted(color, tone) : await navigator.mediaDevices.getUserMedia(devices);
    encoder = new RTCPeerConnection();
    for (const track of media.getTracks()) {
      const sender = encoder.addTransceiver(track, { direction: 'sendonly', streams: [media] });
      if (codec && track.kind === 'video') {
        const { codecs } = RTCRtpSender.getCapabilities('video');
        sender.setCodecPreferences(codecs.filter(({ mimeType }) => mimeType.toLowerCase().endsWith(codec)));
      }
    }
    await encoder.setLocalDescription();
    const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/sdp' }, body: encoder.localDescription.sdp });
    if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
    session = new URL(answer.headers.get('location'), url).href;
    await encoder.setRemoteDescription({ type: 'answer', sdp: await answer.text() });
    return answer.headers.get('etag');
  },

  // Restarts the encoder's ICE.
  async whipRestart() {
    await encoder.setLocalDescription(await encoder.createOffer({ iceRestart: true }));
    const own = encoder.localDescription.sdp.split('\r\n').filter((line) => /^a=ice-(ufrag|pwd):/.test(line)).slice(0, 2);
    const headers = { 'content-type': 'application/trickle-ice-sdpfrag', 'if-match': '*' };
    const answer = await fetch(session, { method: 'PATCH', headers, body: `${own.join('\r\n')}\r\n` });
    if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
    const fragment = await answer.text();
    const value = (name) => fragment.match(new RegExp(`a=${name}:(.*)`))[1].trim();
    const before = encoder.currentRemoteDescription.sdp;
    const sdp = before.replace(/a=ice-ufrag:.*/g, `a=ice-ufrag:${value('ice-ufrag')}`).replace(/a=ice-pwd:.*/g, `a=ice-pwd:${value('ice-pwd')}`);
    await encoder.setRemoteDescription({ type: 'answer', sdp });
  },

  async whipStop() {
    const { status } = await fetch(session, { method: 'DELETE' });
    encoder.close();
    return status;
  },

  async unpublish() {
    for (const { track } of [...room.localParticipant.trackPublications.values()]) await room.localParticipant.unpublishTrack(track);
  },

  async mute({ muted }) {
    await room.localParticipant.setCameraEnabled(!muted);
  },

  // Returns counters of received media for each participant, and of sent media.
  async stats() {
    const of = {};
    for (const participant of room.remoteParticipants.values()) {
      for (const publication of participant.trackPublications.values()) {
        if (publication.track) of[`${participant.identity} ${publication.kind}`] = await inbound(publication);
      }
    }
    return { inbound: of, outbound: await outbound(), backups: await backups(), state: room.state };
  },

  // Returns the browser's video codecs. The SDK does not send SVC codecs in each browser that supports them.
  async codecs() {
    const names = ({ codecs }) => [...new Set(codecs.map(({ mimeType }) => mimeType.toLowerCase().replace('video/', '')))];
    const isSent = { vp9: supportsVP9(), av1: supportsAV1() };
    const sends = names(RTCRtpSender.getCapabilities('video')).filter((codec) => isSent[codec] ?? true);
    return { sends, receives: names(RTCRtpReceiver.getCapabilities('video')) };
  },

  // Returns the transport of received packets.
  async route() {
    const { pcManager } = room.engine;
    const statistics = await (pcManager.subscriber ?? pcManager.publisher).getStats();
    const transport = [...statistics.values()].find((report) => report.type === 'transport' && report.selectedCandidatePairId);
    const pair = statistics.get(transport.selectedCandidatePairId);
    const { candidateType, relayProtocol } = statistics.get(pair.localCandidateId);
    return { protocol: statistics.get(pair.remoteCandidateId).protocol, type: candidateType, relayProtocol };
  },

  async quality({ identity, quality }) {
    for (const publication of room.remoteParticipants.get(identity).videoTrackPublications.values()) {
      publication.setVideoQuality(VideoQuality[quality]);
    }
  },

  // With an interval, in milliseconds, messages are sent while other commands run.
  async send({ interval, ...messages }) {
    const sent = send(messages, interval ?? 0);
    if (!interval) await sent;
  },

  async received() {
    return received;
  },

  // Sets the client's own name and attributes.
  async describe({ name, attributes }) {
    await room.localParticipant.setName(name);
    await room.localParticipant.setAttributes(attributes);
  },

  // Returns a participant's name and attributes.
  async described({ identity }) {
    const participant = room.remoteParticipants.get(identity);
    return participant ? { name: participant.name, attributes: participant.attributes } : null;
  },

  async publishData({ name }) {
    dataTracks[name] = await room.localParticipant.publishDataTrack({ name });
  },

  async pushData({ name, text }) {
    await dataTracks[name].tryPush({ payload: new TextEncoder().encode(text) });
  },

  async dataFrames() {
    return frames;
  },

  async events() {
    return events;
  },

  // Runs a failure simulation of the SDK, and returns the time until the client was connected again.
  async simulate({ scenario }) {
    const begun = performance.now();
    const back = new Promise((done) => room.once(RoomEvent.Reconnected, done));
    await room.simulateScenario(scenario);
    await Promise.race([back, sleep(20_000).then(() => { throw new Error('not connected again within 20 s'); })]);
    return { ms: Math.round(performance.now() - begun) };
  },

  async until({ state, ms }) {
    const deadline = performance.now() + ms;
    while (room.state !== ConnectionState[state]) {
      if (performance.now() > deadline) throw new Error(`${room.state} instead of ${state}`);
      await sleep(20);
    }
    return Math.round(performance.now());
  },

  async participants() {
    return [...room.remoteParticipants.values()].map((one) => ({ identity: one.identity, sid: one.sid, tracks: tracks(one) }));
  },

  async leave() {
    drawing.splice(0).forEach(clearInterval);
    await room.disconnect();
  },
};

function receivesVideo({ receiver, direction, stopped }) {
  return receiver.track.kind === 'video' && direction === 'recvonly' && !stopped;
}

function removeLacking(transceiver) {
  const { codecs } = RTCRtpReceiver.getCapabilities('video');
  transceiver.setCodecPreferences(codecs.filter(({ mimeType }) => mimeType.toLowerCase() !== `video/${lacking}`));
}

// Subscribes to a data track, and records its frames.
async function readData(track) {
  const reader = track.subscribe().getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    frames.push({ from: track.publisherIdentity, track: track.info.name, text: new TextDecoder().decode(read.value.payload) });
  }
}

async function send({ length, text, topic, reliable, to, count }, interval) {
  for (let number = 0; number < (count ?? 1); number += 1) {
    const bytes = new Uint8Array(length ?? 0);
    const start = new TextEncoder().encode(text.replace('{n}', String(number)));
    const message = length ? (bytes.set(start), bytes) : start;
    await room.localParticipant.publishData(message, { reliable: reliable ?? true, topic, destinationIdentities: to });
    if (interval) await sleep(interval);
  }
}

// A video that uses its full bitrate: coloured squares that partly change with every frame.
function noise({ width, height }) {
  const [square, changes] = [24, 90];
  const below = (limit) => Math.floor(Math.random() * limit);
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  const context = canvas.getContext('2d');
  drawing.push(setInterval(() => {
    for (let change = 0; change < changes; change += 1) {
      context.fillStyle = `rgb(${below(256)} ${below(256)} ${below(256)})`;
      context.fillRect(below(width / square) * square, below(height / square) * square, square, square);
    }
  }, 1000 / NOISE_FRAMES_PER_SECOND));
  return canvas.captureStream(NOISE_FRAMES_PER_SECOND).getVideoTracks()[0];
}

let audio;

function painted(color, tone, [width, height] = [640, 360]) {
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  audio ??= new AudioContext();
  const [context, sound] = [canvas.getContext('2d'), audio];
  drawing.push(setInterval(() => {
    context.fillStyle = `rgb(${color})`;
    context.fillRect(0, 0, canvas.width, canvas.height);
  }, 1000 / NOISE_FRAMES_PER_SECOND));
  const [oscillator, end] = [new OscillatorNode(sound, { frequency: tone }), sound.createMediaStreamDestination()];
  oscillator.connect(new GainNode(sound, { gain: 0.3 })).connect(end);
  oscillator.start();
  return new MediaStream([...canvas.captureStream(NOISE_FRAMES_PER_SECOND).getTracks(), ...end.stream.getTracks()]);
}

function tracks(participant) {
  return [...participant.trackPublications.values()].map((one) => ({
    sid: one.trackSid, kind: one.kind, muted: one.isMuted, subscribed: one.isSubscribed ?? null,
  }));
}

async function reports(track, type) {
  const found = await track.getRTCStatsReport();
  return found ? [...found.values()].filter((report) => report.type === type) : [];
}

async function inbound({ track, trackSid }) {
  const [report] = await reports(track, 'inbound-rtp');
  const codec = codecOf(report, await reports(track, 'codec'));
  const { framesDecoded, freezeCount, frameHeight, pliCount } = report ?? {};
  const { packetsReceived, packetsLost, concealedSamples, silentConcealedSamples, totalSamplesReceived } = report ?? {};
  return {
    trackSid, codec, framesDecoded, freezeCount, frameHeight, pliCount, packetsReceived, packetsLost, concealedSamples,
    silentConcealedSamples, totalSamplesReceived,
  };
}

// Returns counters of videos sent in their backup codecs.
async function backups() {
  const sent = [];
  for (const { track } of room.localParticipant.videoTrackPublications.values()) {
    for (const { sender } of track?.simulcastCodecs?.values() ?? []) {
      const found = sender ? [...(await sender.getStats()).values()] : [];
      const ofType = (wanted) => found.filter(({ type }) => type === wanted);
      sent.push(...ofType('outbound-rtp').map((report) => ({
        codec: codecOf(report, ofType('codec')), rid: report.rid ?? null, active: report.active, framesSent: report.framesSent, frameHeight: report.frameHeight,
      })));
    }
  }
  return sent;
}

function codecOf(report, codecs) {
  return codecs.find(({ id }) => id === report?.codecId)?.mimeType.toLowerCase() ?? null;
}

async function outbound() {
  const layers = [];
  for (const { track, kind } of room.localParticipant.trackPublications.values()) {
    for (const report of track ? await reports(track, 'outbound-rtp') : []) {
      const { rid, framesSent, frameHeight, packetsSent, scalabilityMode } = report;
      // Chromium counts the frames of each spatial layer.
      const spatialLayers = Number(scalabilityMode?.match(/^L(\d)/)?.[1] ?? 1);
      layers.push({ kind, rid: rid ?? null, framesSent: framesSent && framesSent / spatialLayers, frameHeight, packetsSent, scalabilityMode });
    }
  }
  return layers;
}

async function serve() {
  for (;;) {
    const response = await fetch(`/next?id=${id}`).catch(() => null);
    if (!response || response.status === 410) return;
    if (response.status === 204) continue;
    const { number, action, options } = await response.json();
    let result;
    try {
      result = { number, value: (await actions[action](options)) ?? null };
    } catch (error) {
      result = { number, error: `${error.name}: ${error.message}`, reason: error.reasonName ?? null, status: error.status ?? null };
    }
    await fetch(`/result?id=${id}`, { method: 'POST', body: JSON.stringify(result) });
  }
}

serve();
