// Details of the connection, on demand: bit rates, losses, the network path, and advice if the quality is poor.

import { open } from './dialogs.js';
import { element, make } from './dom.js';
import { nameOf } from './names.js';
import { text } from './texts.js';

const EVERY_MS = 1_000;
const UNKNOWN = '–';

export class Details {
  constructor(room) {
    this.room = room;
    element('details-button').onclick = () => this.open();
  }

  async open() {
    this.before = null;
    await this.show();
    const timer = setInterval(() => this.show(), EVERY_MS);
    await open(element('details'));
    clearInterval(timer);
  }

  async show() {
    const now = await measure(this.room);
    const rows = this.rows(now, this.before);
    this.before = now;
    element('details-list').replaceChildren(...rows.flatMap(([key, value]) => [
      make('dt', { textContent: text(key) }), make('dd', {}, ...[value].flat().map((line) => make('div', { dir: 'auto', textContent: line }))),
    ]));
    const { connectionQuality: quality } = this.room.localParticipant;
    const advice = ['poor', 'lost'].includes(quality) ? text('details-advice') : '';
    // The same text again would be read aloud again.
    if (element('details-advice').textContent !== advice) element('details-advice').textContent = advice;
  }

  rows(now, before) {
    const { connectionQuality: quality } = this.room.localParticipant;
    const rate = (key) => (before ? `${Math.max(0, Math.round(((now[key] - before[key]) * 8) / (now.at - before.at)))} kbit/s` : UNKNOWN);
    const [lost, received] = before ? [now.lost - before.lost, now.packets - before.packets] : [0, 0];
    const percent = Math.max(0, lost) / Math.max(1, Math.max(0, lost) + received);
    return [
      ['details-quality', quality === 'unknown' ? UNKNOWN : text(`quality-${quality}`)],
      ['details-round-trip', now.roundTrip === undefined ? UNKNOWN : `${Math.round(now.roundTrip * 1_000)} ms`],
      ['details-received', rate('received')],
      ['details-sent', rate('sent')],
      ['details-lost', new Intl.NumberFormat(document.documentElement.lang, { style: 'percent', maximumFractionDigits: 1 }).format(percent)],
      ['details-route', now.routes.length > 0 ? now.routes.join(', ') : UNKNOWN],
      ['details-pictures', now.pictures.length > 0 ? now.pictures : UNKNOWN],
    ];
  }
}

async function reportsOf(connection) {
  const report = await connection?.getStats?.().catch(() => undefined);
  return [...(report?.values() ?? [])];
}

// Reads the connections' statistics: totals since their start, and current values.
async function measure(room) {
  const { publisher, subscriber } = room.engine?.pcManager ?? {};
  const reports = await Promise.all([publisher, subscriber].map(reportsOf));
  const all = reports.flat();
  const sum = (list, key) => list.reduce((total, one) => total + (one[key] ?? 0), 0);
  const inbound = all.filter(({ type }) => type === 'inbound-rtp');
  const pairs = reports.map(pairInUse).filter(Boolean);
  return {
    at: performance.now(),
    received: sum(pairs, 'bytesReceived'), sent: sum(pairs, 'bytesSent'), roundTrip: pairs[0]?.currentRoundTripTime,
    packets: sum(inbound, 'packetsReceived'), lost: sum(inbound, 'packetsLost'),
    routes: [...new Set(pairs.map((pair) => routeOf(pair, all)))],
    pictures: inbound.filter(({ kind, framesPerSecond }) => kind === 'video' && framesPerSecond > 0).map((one) => describe(one, room)),
  };
}

function pairInUse(reports) {
  const { selectedCandidatePairId: id } = reports.find(({ type, selectedCandidatePairId }) => type === 'transport' && selectedCandidatePairId) ?? {};
  const pairs = reports.filter(({ type }) => type === 'candidate-pair');
  return pairs.find((pair) => (id ? pair.id === id : pair.nominated && pair.state === 'succeeded'));
}

function routeOf({ localCandidateId, remoteCandidateId }, reports) {
  const [local, remote] = [localCandidateId, remoteCandidateId].map((id) => reports.find((one) => one.id === id));
  const protocol = (local?.relayProtocol ?? remote?.protocol ?? local?.protocol ?? '').toUpperCase();
  return local?.candidateType === 'relay' ? `TURN ${protocol}` : protocol || UNKNOWN;
}

function describe({ trackIdentifier, frameWidth, frameHeight, framesPerSecond }, room) {
  const isTheirs = ({ track }) => track?.mediaStreamTrack?.id === trackIdentifier;
  const sender = [...room.remoteParticipants.values()].find((one) => [...one.videoTrackPublications.values()].some(isTheirs));
  return `${sender ? `${nameOf(sender)}: ` : ''}${frameWidth} × ${frameHeight}, ${Math.round(framesPerSecond)}/s`;
}
