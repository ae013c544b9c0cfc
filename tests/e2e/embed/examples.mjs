// The examples of docs/embedding.md and of the React component, in a page of a listed site.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { frameOf, submit } from './sites.mjs';

const DOCUMENTED = { server: 'https://meet.example.org', code: 'abcd-efgh-jkmn' };

// The first block of a document in a language, with the server and the code of the check.
function example(path, language, { server, code }) {
  const [, text] = readFileSync(path, 'utf8').match(new RegExp(`\`\`\`${language}\n(.*?)\n\`\`\``, 's'));
  assert.equal(text.includes(DOCUMENTED.server) && text.includes(DOCUMENTED.code), true, `${path} has another server or code`);
  return text.replaceAll(DOCUMENTED.server, server).replaceAll(DOCUMENTED.code, code);
}

async function enter(server, window, joined) {
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
  await submit(frame);
  await window.getByText(joined).waitFor();
  await window.getByRole('button', { name: 'Mute me' }).click();
  await until(async () => await frame.locator('#microphone').getAttribute('aria-pressed') === 'false', 'the button does not mute');
  return frame;
}

async function codeFor(server, room) {
  await server.call('POST', '/v1/rooms', { name: room });
  return (await server.call('POST', `/v1/rooms/${room}/codes`, { role: 'host' })).code;
}

export async function document(server, site, browser) {
  site.pages.set('/example', example('docs/embedding.md', 'html', { server: server.api, code: await codeFor(server, 'document') }));
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/example`);
  const frame = await enter(server, window, 'You are in document as host.');
  await frame.getByRole('button', { name: 'Leave' }).click();
  await frame.getByRole('button', { name: 'Leave', exact: true }).last().click();
  await window.getByText('You have left: left.').waitFor();
  await window.context().close();
}

// Lints the component, and runs the example of its README with the package that the server serves.
export async function react(server, site, browser) {
  const folder = join(dirname(process.env.TOOLS), '..', 'check-embed', 'react');
  const run = async (program, ...options) => (await promisify(execFile)(program, options, { cwd: folder, maxBuffer: 1 << 26 })).stdout;
  mkdirSync(folder, { recursive: true });
  for (const old of ['src', 'dist', 'example']) rmSync(join(folder, old), { recursive: true, force: true });
  cpSync('sdk/react', folder, { recursive: true, filter: (path) => !/node_modules|dist/.test(path) });
  const versions = ['sdk/react', 'sdk/typescript'].map((path) => JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')).version);
  assert.equal(versions[0], versions[1], 'the packages have different versions');
  await run('npm', 'ci', '--silent', '--no-audit', '--no-fund');
  await run('npm', 'run', '--silent', 'lint');
  const project = join(folder, 'example');
  mkdirSync(project);
  const { devDependencies: pinned } = JSON.parse(readFileSync('sdk/react/package.json', 'utf8'));
  const wanted = ['react', 'react-dom', '@types/react', '@types/react-dom'].map((name) => [name, pinned[name]]);
  writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, dependencies: Object.fromEntries(wanted) }));
  const [, command] = readFileSync('sdk/react/README.md', 'utf8').match(/```bash\n(.*?)\n```/s);
  await run('bash', '-euc', `cd example && ${command.replace('http://127.0.0.1:8081', server.admin)}`);
  const text = example('sdk/react/README.md', 'tsx', { server: server.api, code: await codeFor(server, 'react') });
  writeFileSync(join(project, 'page.tsx'), text);
  const strict = ['--strict', '--noEmit', '--jsx', 'react-jsx', '--target', 'es2022', '--module', 'esnext', '--moduleResolution', 'bundler'];
  await run('npx', 'tsc', ...strict, 'example/page.tsx');
  const bundle = await run('npx', 'esbuild', 'example/page.tsx', '--bundle', '--jsx=automatic', '--define:process.env.NODE_ENV="production"');
  site.pages.set('/react.js', bundle);
  site.pages.set('/react', '<!DOCTYPE html><html lang="en"><title>React</title><div id="root"></div><script src="/react.js"></script></html>');
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/react`);
  await enter(server, window, 'in react');
  await server.call('DELETE', '/v1/rooms/react');
  await window.getByText('not in the call: ended').waitFor();
  await window.context().close();
}
