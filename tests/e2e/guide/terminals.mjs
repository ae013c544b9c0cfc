// The terminals of the guide's reader.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';

import { until } from '../support/server.mjs';

const PATIENCE = 90_000;

// A shell that runs commands in sequence, and ends the check if they fail.
export class Shell {
  constructor(options) {
    this.printed = '';
    this.child = spawn('bash', ['-euo', 'pipefail'], { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout, this.child.stderr]) stream.setEncoding('utf8').on('data', (text) => { this.printed += text; });
    this.ended = new Promise((resolve) => this.child.once('exit', (code) => resolve(`bash has ended with ${code}`)));
  }

  // Runs commands, and returns their output.
  async run(commands) {
    const end = randomUUID();
    this.printed = '';
    this.child.stdin.write(`${commands}\necho ${end}\n`);
    const finished = until(() => this.printed.includes(end), 'the commands do not end', PATIENCE).then(() => null);
    const problem = await Promise.race([finished, this.ended]).catch((error) => error.message);
    if (problem) throw new Error(`${problem}:\n${commands}\nprinted:\n${this.printed}`);
    return this.printed.replace(`${end}\n`, '');
  }

  stop() {
    this.child.stdin.end();
    return this.ended;
  }
}

// A terminal in which one program runs until Ctrl-C.
export class Terminal {
  constructor(commands, options) {
    this.printed = '';
    const command = `bash -euo pipefail -c ${quoted(commands)}`;
    this.child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], { ...options, stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdout.setEncoding('utf8').on('data', (text) => { this.printed += text.replaceAll('\r', ''); });
    this.ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.ended.then(() => { this.hasEnded = true; });
  }

  prints(test, what) {
    return this.does(() => test(this.printed), () => `the terminal does not show ${what}, but:\n${this.printed}`);
  }

  // Waits for an effect of the program, which must not end before.
  does(test, problem) {
    return until(async () => {
      if (await test()) return true;
      if (this.hasEnded) throw new Error(`the program has ended, and printed: ${this.printed}`);
      return false;
    }, problem, PATIENCE);
  }

  async stop() {
    if (!this.hasEnded) this.child.stdin.write('\x03');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), PATIENCE);
    await this.ended;
    clearTimeout(timer);
  }
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
