// Whether anything still comes from the server. A connection whose server or network is gone stays open for a quarter of a minute, in which
// video freezes and the client SDK reports nothing.

const SECOND = 1_000;
// The user is warned after this time without any data.
const LONGEST_SILENCE = 3 * SECOND;
// Silence of media is no sign, as where everyone is muted: after this time the server is asked for an answer.
const SILENCE_OF_MEDIA = SECOND;

export class Liveness {
  // `onChange` gets whether the call is cut off.
  constructor(room, onChange) {
    Object.assign(this, { room, onChange, bytes: 0, isCutOff: false });
  }

  start() {
    this.heard = performance.now();
    this.checked = this.heard;
    this.next(SECOND);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  next(pause) {
    this.timer = setTimeout(() => this.check(), pause);
  }

  async check() {
    const bytes = await this.bytesReceived();
    if (this.timer === null) return;
    const now = performance.now();
    // The page itself stood still, as in a laptop that was closed.
    const hasSlept = now - this.checked > LONGEST_SILENCE;
    this.checked = now;
    if (bytes !== this.bytes || this.hasAnswer() || hasSlept) this.heard = now;
    this.bytes = bytes;
    const silence = now - this.heard;
    if (silence >= SILENCE_OF_MEDIA && !(now - this.asked < SECOND)) this.ask(now);
    this.set(silence >= LONGEST_SILENCE);
    this.next(silence > 0 ? SECOND / 4 : SECOND);
  }

  set(isCutOff) {
    if (isCutOff === this.isCutOff) return;
    this.isCutOff = isCutOff;
    this.onChange(isCutOff);
  }

  // The bytes of media, of messages and of reports about media.
  async bytesReceived() {
    const { publisher, subscriber } = this.room.engine?.pcManager ?? {};
    const reports = await Promise.all([publisher, subscriber].map((one) => one?.getStats?.().catch(() => undefined)));
    const pairs = reports.flatMap((report) => [...(report?.values() ?? [])]).filter(({ type }) => type === 'candidate-pair');
    return pairs.reduce((sum, { bytesReceived = 0 }) => sum + bytesReceived, 0);
  }

  // The client SDK writes the time that the answer took over what is written here.
  ask(now) {
    const { client } = this.room.engine ?? {};
    if (!client?.sendPing) return;
    this.asked = now;
    client.rtt = -1;
    client.sendPing().catch(() => {});
  }

  hasAnswer() {
    if (this.asked === undefined || !(this.room.engine?.client?.rtt >= 0)) return false;
    this.asked = undefined;
    return true;
  }
}
