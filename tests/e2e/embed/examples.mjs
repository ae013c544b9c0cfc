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
  await follows(server, site, window, async (page) => {
    writeFileSync(join(project, 'follows.tsx'), page);
    await run('npx', 'tsc', ...strict, 'example/follows.tsx');
    return run('npx', 'esbuild', 'example/follows.tsx', '--bundle', '--jsx=automatic', '--define:process.env.NODE_ENV="production"');
  });
  await window.context().close();
}

// A value of each property, with the attribute that it is; and the same, changed.
const PROPERTIES = [
  ['code', 'abcd-efgh-jkmn', 'bbcd-efgh-jkmn'], ['token', 'a.b.c', 'a.b.d'], ['url', 'wss://a.example', 'wss://b.example'], ['name', 'Ada', 'Ben'],
  ['layout', 'speaker', 'grid'], ['language', 'fr', 'ar'], ['title', 'Algebra', 'Biology'],
  ['chat', false, true, 'chat', 'off', null], ['maxTiles', 9, 4, 'max-tiles', '9', '4'],
  ['controls', ['microphone', 'leave'], ['leave'], 'controls', 'microphone leave', 'leave'],
  ...[['skipLobby', 'skip-lobby'], ['startMuted', 'start-muted'], ['startCameraOff', 'start-camera-off']].map(([key, attribute]) => [key, true, false, attribute, '', null]),
];

// Every attribute and every event of the element has a property, which may change or go at any time.
async function follows(server, site, window, bundle) {
  const element = await (await fetch(`${server.api}/embed.js`)).text();
  const listed = (name) => [...element.match(new RegExp(`${name} = \\[(.*?)\\]`, 's'))[1].matchAll(/'(.*?)'/g)].map(([, one]) => one);
  const rows = PROPERTIES.map(([key, first, second, attribute = key, was = first, is = second]) => ({ key, first, second, attribute, was, is }));
  assert.deepEqual(rows.map(({ attribute }) => attribute).sort(), [...listed('ATTRIBUTES'), ...listed('SWITCHES')].sort());
  const events = listed('EVENTS');
  const handlers = events.map((name) => `on${name.split('-').map((part) => part[0].toUpperCase() + part.slice(1)).join('')}`);
  const given = (which) => rows.map((row) => `${row.key}: ${JSON.stringify(row[which])}`).join(', ');
  const page = `import { createRef, StrictMode } from "react";
    import { createRoot } from "react-dom/client";
    import { ConclaveCall, type ConclaveCallElement, type ConclaveCallProps } from "conclave-react";
    const root = createRoot(document.getElementById("root")!);
    const ref = createRef<ConclaveCallElement>();
    const states: Partial<ConclaveCallProps>[] = [{ ${given('first')} }, { ${given('second')} }, {}];
    const seen: [string, number, unknown][] = [];
    const show = (at: number) => root.render(<StrictMode><ConclaveCall ref={ref} server=${JSON.stringify(server.api)} className={\`c\${at}\`} style={{ height: 300 + at }}
      inviteLink={at === 2 ? undefined : () => \`link \${at}\`} {...states[at]}
      ${handlers.map((name) => `${name}={(detail) => seen.push(["${name}", at, detail])}`).join(' ')} /></StrictMode>);
    Object.assign(globalThis, { show, seen, ref });
    show(0);`;
  site.pages.set('/follows.js', await bundle(page));
  site.pages.set('/follows', '<!DOCTYPE html><html lang="en"><title>React</title><div id="root"></div><script src="/follows.js"></script></html>');
  await window.goto(`${site.origin}/follows`);
  await window.waitForFunction(() => typeof globalThis.ref.current?.mute === 'function');
  for (const [at, expected] of [['was', 0], ['is', 1], [null, 2]].map(([which, index]) => [index, rows.map((row) => (which ? row[which] : null))])) {
    await window.evaluate((index) => globalThis.show(index), at);
    await window.waitForFunction((name) => globalThis.ref.current.className === name, `c${at}`);
    const found = await window.evaluate(async ([attributes, names]) => {
      const call = globalThis.ref.current;
      await new Promise((resolve) => { setTimeout(resolve, 50); });
      globalThis.seen.length = 0;
      for (const [index, name] of names.entries()) call.dispatchEvent(new CustomEvent(name, { detail: { index } }));
      return { attributes: attributes.map((name) => call.getAttribute(name)), height: call.style.height, seen: globalThis.seen, link: await call.inviteLink?.({}) };
    }, [rows.map(({ attribute }) => attribute), events]);
    assert.deepEqual(found.attributes, expected, `attributes ${at}`);
    assert.equal(found.height, `${300 + at}px`);
    // Each event once, with the handler of the newest properties.
    assert.deepEqual(found.seen, handlers.map((name, index) => [name, at, { index }]));
    assert.equal(found.link, at === 2 ? undefined : `link ${at}`);
  }
}
