// The real server with something of every kind in it, and a receiver of webhooks.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const TOKEN = 'a-token-of-the-check';

// A receiver that accepts what is sent to /ok, and nothing else.
export async function startReceiver() {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(request.url === '/ok' ? 204 : 500).end());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

export class Conclave {
  // `settings` are further environment variables.
  static async start(settings = {}) {
    const data = mkdtempSync(join(tmpdir(), 'check-console-'));
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith('CONCLAVE_'));
    const environment = {
      ...Object.fromEntries(others), RUST_LOG: 'warn', CONCLAVE_ADMIN__TOKEN: TOKEN, CONCLAVE_WEBHOOKS__TICK: '500ms',
      CONCLAVE_LIMITS__REQUESTS_PER_SECOND: '1000', CONCLAVE_LIMITS__BURST: '1000',
      CONCLAVE_WEBHOOKS__RETRY_DELAYS: '1s', ...settings,
    };
    const options = ['--data', data, 'dev', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'];
    const child = spawn(process.env.CONCLAVE_BIN, options, { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
    const line = await new Promise((resolve, reject) => {
      createInterface({ input: child.stdout }).once('line', resolve);
      child.once('exit', (code) => reject(new Error(`the server has ended with ${code}`)));
    });
    return Object.assign(new Conclave(), { ...JSON.parse(line), data, child });
  }

  async call(method, path, body, expected) {
    const headers = { authorization: `Bearer ${this.api_key}`, 'content-type': 'application/json' };
    return this.request(this.api + path, method, headers, body, expected);
  }

  async sandbox(path, body) {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    return this.request(this.admin + path, 'POST', headers, body);
  }

  async request(url, method, headers, body) {
    const response = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : {};
  }

  async join(room, identity, role, tracks = []) {
    const body = { room, identity, name: `${identity[0].toUpperCase()}${identity.slice(1)} Adeyemi`, role };
    const { token } = await this.call('POST', '/v1/tokens', body);
    const { sid } = await this.sandbox('/sandbox/join', { token });
    for (const [kind, source] of tracks) await this.sandbox(`/sandbox/participants/${sid}/tracks`, { kind, source });
    return sid;
  }

  leave(sid) {
    return this.sandbox(`/sandbox/participants/${sid}/leave`, { clean: true });
  }

  async fill(receiver) {
    for (const path of ['/ok', '/broken']) await this.call('POST', '/v1/webhook-endpoints', { url: receiver.url + path });
    const video = [['video', 'camera'], ['audio', 'microphone']];
    for (const name of ['standup', 'design-review', 'all-hands', 'retro']) {
      await this.call('POST', '/v1/rooms', { name, metadata: { team: 'blue', agenda: ['news', 'plans'] } });
    }
    const left = await this.join('standup', 'dora', 'guest', video);
    await this.join('standup', 'alice', 'host', [...video, ['video', 'screen_share']]);
    await this.join('standup', 'bob', 'guest', video);
    await this.join('standup', 'carol', 'guest', [['audio', 'microphone']]);
    await this.join('all-hands', 'erin', 'host', video);
    await this.leave(left);
    await this.call('DELETE', '/v1/rooms/retro');
    await this.record('standup', 'monday.mp4');
    await this.call('POST', '/v1/rooms/standup/recordings', { type: 'room_composite' });
    await this.call('POST', '/v1/rooms/standup/broadcasts', { urls: ['rtmp://127.0.0.1/live/key'] });
    const ingress = { input_type: 'rtmp', participant_identity: 'stage', participant_name: 'Stage camera' };
    await this.call('POST', '/v1/rooms/all-hands/ingress', ingress);
    await this.call('POST', '/v1/rooms/standup/codes', { role: 'guest', max_uses: 10 });
    const roles = { teacher: { permissions: { end_room: true, mute_others: true, remove_others: true } }, pupil: {} };
    const template = await this.call('POST', '/v1/templates', { name: 'lesson', roles });
    const destination = { name: 'stage', kind: 'rtmp', config: { urls: ['rtmp://127.0.0.1/live/key'] } };
    await this.call('POST', `/v1/templates/${template.id}/destinations`, destination);
    this.template = template.id;
  }

  // A recording that is complete, with a file.
  async record(room, filepath) {
    const recording = await this.call('POST', `/v1/rooms/${room}/recordings`, { type: 'room_composite', filepath });
    await this.sandbox(`/sandbox/egress/${recording.egress_id}`, { status: 'complete' });
    const folder = join(this.data, 'recordings', this.project_id);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, filepath), 'not really a film');
    this.recording = recording.egress_id;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await ended;
    rmSync(this.data, { recursive: true, force: true });
  }
}
