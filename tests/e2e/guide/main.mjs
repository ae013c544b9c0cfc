// Follows docs/guide.md in order: runs every command against a real server on free ports, compares the output with
// the guide, joins with two Chromium windows, records them, and runs each webhook receiver.
//
//   scripts/check guide                  the check
//   scripts/check guide --screenshots    also writes docs/guide/call.png
//
// Needs Node.js 20 with npm, Chromium, ffmpeg, curl and script (Debian: bsdutils). Parts in a language that is not installed are skipped
// with a line. Exits 0 only if all holds, and 77 if something is missing and cannot be installed.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

import { environment as withoutSettings } from '../support/server.mjs';
import { Windows } from './browser.mjs';
import { cameras } from './cameras.mjs';
import { isPrinted, steps } from './document.mjs';
import { Shell, Terminal } from './terminals.mjs';

const PICTURE = 'docs/guide/call.png';
// The programs of languages, and the options that print their versions.
const LANGUAGES = { node: '--version', python3: '--version', go: 'version' };
// Settings that shorten waits.
const FASTER = { CONCLAVE_WEBHOOKS__TICK: '500ms', CONCLAVE_WEBHOOKS__RETRY_DELAYS: '1s,1s,1s,1s' };

class Reader {
  static async start(withPicture) {
    const home = mkdtempSync(join(tmpdir(), 'check-guide-'));
    const ports = { 9000: await freePort(), 9080: await freePort(), 9081: await freePort() };
    const env = environment(home);
    return Object.assign(new Reader(), {
      home, ports, env, withPicture, terminals: {}, printed: '', done: 0,
      shell: new Shell({ cwd: home, env }), windows: new Windows(withPicture ? cameras(home) : []),
    });
  }

  async follow(step) {
    await this[step.kind](step);
    this.done += 1;
  }

  async commands({ text }) {
    if (text.startsWith('cargo install')) return this.isBuilt(text);
    this.skips = isMissing(text);
    if (this.skips) return null;
    this.printed = this.asShown(await this.shell.run(this.onFreePorts(text)));
    return console.log(`ok      ${title(text)}`);
  }

  isBuilt(text) {
    console.log(`skipped ${title(text)}: the program is built already`);
  }

  file({ name, text }) {
    writeFileSync(join(this.home, 'first-hour', name), text);
  }

  // Each receiver gets the events that the reader causes; the server keeps running.
  async terminal({ name, text }) {
    this.skips = false;
    if (isMissing(text)) return null;
    await this.terminals[name]?.stop();
    this.terminals[name] = new Terminal(this.onFreePorts(text), { cwd: this.home, env: this.variables(name) });
    await this[`${name}Runs`](this.terminals[name]);
    return console.log(`ok      ${title(text)}`);
  }

  variables(name) {
    const listen = (api, admin) => ({ CONCLAVE_HTTP__LISTEN: `127.0.0.1:${api}`, CONCLAVE_ADMIN__LISTEN: `127.0.0.1:${admin}` });
    if (name === 'server') return { ...this.env, ...FASTER, ...listen(0, 0) };
    return { ...this.env, PORT: `${this.ports[9000]}` };
  }

  async serverRuns(terminal) {
    await terminal.prints((text) => text.includes('call page') && text.includes('"ready":true'), 'the ready line and the call page');
    const ready = JSON.parse(terminal.printed.match(/^\{"ready":true.*\}$/m)[0]);
    this.project = ready.project_id;
    this.real = { [ready.api]: 'http://127.0.0.1:8080', [ready.admin]: 'http://127.0.0.1:8081', [ready.media_url]: 'ws://127.0.0.1:8080' };
    this.printed = this.asShown(terminal.printed);
  }

  async receiverRuns(terminal) {
    await terminal.does(() => isOpen(this.ports[9000]), 'the receiver does not listen');
    this.tried = [...(this.tried ?? []), terminal];
    await this.sendTestEvent(terminal);
    await this.leaveAndJoin(terminal);
  }

  // Presses the console's button.
  async sendTestEvent(terminal) {
    const [, admin] = Object.keys(this.real);
    const [, csrf] = (await (await fetch(`${admin}/projects`)).text()).match(/name="csrf" value="([^"]+)"/);
    const { id } = JSON.parse(readFileSync(join(this.home, 'first-hour', 'webhook.json'), 'utf8'));
    const button = `${admin}/projects/${this.project}/webhooks/${id}/test`;
    await fetch(button, { method: 'POST', body: new URLSearchParams({ csrf }) });
    await terminal.prints((text) => text.includes('webhook.test'), 'the test event');
  }

  async leaveAndJoin(terminal) {
    const before = terminal.printed.length;
    await this.windows.leaveAndJoin();
    await terminal.prints((text) => text.slice(before).includes('participant.joined'), 'who has joined');
    this.printed = terminal.printed.slice(before);
  }

  async productionRuns(terminal) {
    await terminal.prints((text) => text.includes('"ready":true'), 'the ready line');
    const { status } = await fetch(`http://127.0.0.1:${this.ports[9081]}/readyz`);
    if (status !== 200) throw new Error(`the server for production answers ${status}`);
  }

  async browser({ name }) {
    if (name === 'try') await this.tryCallPage();
    if (name === 'join') await this.windows.join(this.shown());
    if (name === 'join' && this.withPicture) await this.windows.shoot(PICTURE);
    // Each receiver was tried with this step when it was started.
    if (name === 'leave and join' && !this.tried) throw new Error('no receiver was tried');
    if (name === 'ended') await this.hasEnded();
    console.log(`ok      browser: ${name}`);
  }

  // Joins on the call page with two windows, with only a name each.
  async tryCallPage() {
    const windows = new Windows();
    const [api] = Object.keys(this.real);
    try {
      for (const name of ['Ada', 'Ben']) await windows.open(`${api}/call`, name);
      await windows.see();
    } finally {
      await windows.close();
    }
  }

  async hasEnded() {
    await this.windows.haveEnded();
    await this.terminals.receiver.prints((text) => text.includes('room.finished algebra-1'), 'the end of the room');
  }

  output({ text }) {
    if (this.skips) return;
    if (!isPrinted(text, this.printed)) throw new Error(`the guide shows:\n${text}\nbut this was printed:\n${this.printed}`);
    console.log('ok      prints what the guide shows');
  }

  // Replaces the guide's ports with free ones, and the reverse in the output.
  onFreePorts(text) {
    return Object.entries(this.ports).reduce((all, [shown, free]) => all.replaceAll(`127.0.0.1:${shown}`, `127.0.0.1:${free}`), text);
  }

  asShown(text) {
    const ports = Object.entries(this.ports).map(([shown, free]) => [`127.0.0.1:${free}`, `127.0.0.1:${shown}`]);
    return [...Object.entries(this.real ?? {}), ...ports].reduce((all, [free, shown]) => all.replaceAll(free, shown), text);
  }

  shown() {
    const free = Object.fromEntries(Object.entries(this.real).map(([real, shown]) => [shown, real]));
    return Object.entries(free).reduce((all, [shown, real]) => all.replaceAll(shown, real), this.printed);
  }

  async stop() {
    await this.windows.close();
    for (const terminal of Object.values(this.terminals)) await terminal.stop();
    await this.shell.stop();
    rmSync(this.home, { recursive: true, force: true });
  }
}

// Returns whether the commands' language is not installed, and prints a line then.
function isMissing(text) {
  const program = Object.keys(LANGUAGES).find((language) => new RegExp(`(^| )${language} `, 'm').test(text));
  const missing = program !== undefined && spawnSync(program, [LANGUAGES[program]]).status !== 0;
  if (missing) console.log(`skipped ${title(text)}: ${program} is not installed`);
  return missing;
}

// A separate home, with the program in the path, and an empty module cache: this version of the SDK differs each time.
function environment(home) {
  const programs = join(home, 'bin');
  mkdirSync(programs);
  writeFileSync(join(programs, 'conclave'), `#!/bin/sh\nexec '${process.env.CONCLAVE_BIN}' "$@"\n`);
  chmodSync(join(programs, 'conclave'), 0o755);
  const caches = { GOCACHE: join(homedir(), '.cache', 'go-build'), GOMODCACHE: join(home, 'modules'), GOFLAGS: '-modcacherw' };
  return { ...withoutSettings(), ...caches, HOME: home, PATH: `${programs}:${process.env.PATH}`, RUST_LOG: 'warn' };
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function isOpen(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false)).on('connect', () => socket.destroy());
  });
}

function title(text) {
  const lines = text.split('\n').filter((line) => !line.startsWith('cd ') && !line.startsWith('mkdir '));
  return lines[0] + (lines.length > 1 ? ' …' : '');
}

async function main() {
  const reader = await Reader.start(process.argv.includes('--screenshots'));
  const started = Date.now();
  let problem = null;
  try {
    for (const step of steps(readFileSync('docs/guide.md', 'utf8'))) await reader.follow(step);
  } catch (error) {
    problem = error;
  }
  await reader.stop();
  if (problem) console.log(`FAILED  ${problem.message}\n${problem.stack}`);
  else console.log(`the guide holds: ${reader.done} steps in ${Math.round((Date.now() - started) / 1000)} s`);
  process.exit(problem ? 1 : 0);
}

await main();
