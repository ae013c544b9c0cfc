// The real server, a webhook receiver, and waiting.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const TOKEN = 'a-token-of-the-check';

// A receiver that accepts only requests to /ok.
export async function startReceiver() {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(request.url === '/ok' ? 204 : 500).end());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

// This check's environment without server settings.
export function environment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('CONCLAVE_')));
}

// Waits until a test returns a true value, and returns that value. `problem` is a text or a function that returns one.
export async function until(test, problem, patience = 60_000) {
  for (const end = Date.now() + patience; ;) {
    const found = await test();
    if (found) return found;
    if (Date.now() > end) throw new Error(typeof problem === 'function' ? problem() : problem);
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
}

export class Conclave {
  // `settings` are further environment variables.
  static async start(settings = {}) {
    const data = mkdtempSync(join(tmpdir(), 'conclave-check-'));
    const variables = {
      ...environment(), RUST_LOG: 'warn', CONCLAVE_ADMIN__TOKEN: TOKEN, CONCLAVE_WEBHOOKS__TICK: '500ms',
      CONCLAVE_LIMITS__REQUESTS_PER_SECOND: '1000', CONCLAVE_LIMITS__BURST: '1000',
      CONCLAVE_WEBHOOKS__RETRY_DELAYS: '1s', ...settings,
    };
    const options = ['--data', data, 'dev', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'];
    const child = spawn(process.env.CONCLAVE_BIN, options, { env: variables, stdio: ['ignore', 'pipe', 'inherit'] });
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

  // Stops the server, unless a check has killed it.
  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = new Promise((resolve) => this.child.once('exit', resolve));
      this.child.kill('SIGTERM');
      await ended;
    }
    rmSync(this.data, { recursive: true, force: true });
  }
}
