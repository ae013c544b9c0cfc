// A client in a browser that does what the check tells it: it fetches commands, runs them, and sends the results back.

const { Room, RoomEvent, Track, VideoPresets, VideoQuality, ConnectionState } = LivekitClient;
const id = new URLSearchParams(location.search).get('id');
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

let room;
let received = [];
let events = [];

const actions = {
  async join({ url, token, single, adaptive, dynacast }) {
    received = [];
    events = [];
    room = new Room({ singlePeerConnection: single, adaptiveStream: adaptive ?? false, dynacast: dynacast ?? false });
    room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic) => received.push({
      from: participant?.identity ?? null, topic: topic ?? null, length: bytes.length, text: new TextDecoder().decode(bytes.slice(0, 64)),
    }));
    room.on(RoomEvent.TrackSubscribed, (track) => document.body.append(track.attach()));
    for (const event of [RoomEvent.Reconnecting, RoomEvent.SignalReconnecting, RoomEvent.Reconnected, RoomEvent.Disconnected]) {
      room.on(event, (detail) => events.push([event, String(detail ?? ''), Math.round(performance.now())]));
    }
    const begun = performance.now();
    await room.connect(url, token);
    return { ms: Math.round(performance.now() - begun), sid: room.localParticipant.sid };
  },

  async publish({ simulcast, codec }) {
    const me = room.localParticipant;
    const resolution = simulcast ? VideoPresets.h720.resolution : VideoPresets.h360.resolution;
    await me.setMicrophoneEnabled(true);
    await me.setCameraEnabled(true, { resolution }, { simulcast, videoCodec: codec ?? 'vp8' });
    return tracks(me);
  },

  async unpublish() {
    for (const { track } of [...room.localParticipant.trackPublications.values()]) await room.localParticipant.unpublishTrack(track);
  },

  async mute({ muted }) {
    await room.localParticipant.setCameraEnabled(!muted);
  },

  // The sum of what is received of each participant, and of what is sent.
  async stats() {
    const of = {};
    for (const participant of room.remoteParticipants.values()) {
      for (const publication of participant.trackPublications.values()) {
        if (publication.track) of[`${participant.identity} ${publication.kind}`] = await inbound(publication.track);
      }
    }
    return { inbound: of, outbound: await outbound(), state: room.state };
  },

  async quality({ identity, quality }) {
    for (const publication of room.remoteParticipants.get(identity).videoTrackPublications.values()) {
      publication.setVideoQuality(VideoQuality[quality]);
    }
  },

  async send({ length, text, topic, reliable, to, count }) {
    for (let number = 0; number < (count ?? 1); number += 1) {
      const bytes = new Uint8Array(length ?? 0);
      const start = new TextEncoder().encode(text.replace('{n}', String(number)));
      const message = length ? (bytes.set(start), bytes) : start;
      await room.localParticipant.publishData(message, { reliable: reliable ?? true, topic, destinationIdentities: to });
    }
  },

  async received() {
    return received;
  },

  async events() {
    return events;
  },

  // A drill of the SDK, and how long it took until the client was connected again.
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
    await room.disconnect();
  },
};

function tracks(participant) {
  return [...participant.trackPublications.values()].map((one) => ({
    sid: one.trackSid, kind: one.kind, muted: one.isMuted, subscribed: one.isSubscribed ?? null,
  }));
}

async function reports(track, type) {
  const found = await track.getRTCStatsReport();
  return found ? [...found.values()].filter((report) => report.type === type) : [];
}

async function inbound(track) {
  const [report] = await reports(track, 'inbound-rtp');
  const { framesDecoded, freezeCount, frameHeight, pliCount } = report ?? {};
  const { packetsReceived, packetsLost, concealedSamples, totalSamplesReceived } = report ?? {};
  return { framesDecoded, freezeCount, frameHeight, pliCount, packetsReceived, packetsLost, concealedSamples, totalSamplesReceived };
}

async function outbound() {
  const layers = [];
  for (const { track, kind } of room.localParticipant.trackPublications.values()) {
    for (const report of track ? await reports(track, 'outbound-rtp') : []) {
      const { rid, framesSent, frameHeight, packetsSent } = report;
      layers.push({ kind, rid: rid ?? null, framesSent, frameHeight, packetsSent });
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
