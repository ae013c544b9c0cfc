// Attacks that must fail: pages of other origins, and malicious attributes, messages, names and texts.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { Conclave, until } from '../support/server.mjs';
import { Site, embed, eventOf, frameOf, submit } from './sites.mjs';

const MARKUP = '<img src="x" onerror="globalThis.hacked = true"><style>body { display: none }</style>';
const isUnchanged = () => !globalThis.hacked && !document.querySelector('img, style, iframe, base') && getComputedStyle(document.body).display === 'block';

// A site that is not in the setting gets an error at once and a page that names the setting, and no frame has the call; nor has a listed
// site inside it.
export async function refused(server, site, listed, browser, folder) {
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  await embed(window, { code: 'aaaa-bbbb-cccc' });
  assert.equal((await eventOf(window, 'error')).code, 'not_loaded');
  const notice = window.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  await notice.locator('#refused-text', { hasText: /http\.embed_origins/ }).waitFor();
  assert.match(await notice.locator('#refused-text').innerText(), new RegExp(`${site.origin} is not one of them`));
  assert.equal(await notice.locator('button, input, a').count(), 0);
  if (folder) await window.screenshot({ path: `${folder}/refused.png` });
  const inner = await addFrame(window, `${listed.origin}/`);
  await inner.waitForFunction(() => customElements.get('conclave-call'));
  await embed(inner, { code: 'aaaa-bbbb-cccc' });
  assert.equal((await eventOf(inner, 'error')).code, 'not_loaded');
  for (const frame of window.frames()) assert.equal(await frame.locator('#lobby').count(), 0, `${frame.url()} shows the lobby`);
  await window.context().close();
}

// A server without settings, as `conclave dev` starts it: pages of this machine show the call.
export async function unset(browser) {
  const server = await Conclave.start();
  const site = await Site.start('localhost');
  try {
    site.embeds(server.api);
    await server.call('POST', '/v1/rooms', { name: 'unset' });
    const { code } = await server.call('POST', '/v1/rooms/unset/codes', { role: 'guest' });
    const window = await openWindow(browser);
    await window.goto(`${site.origin}/`);
    await embed(window, { code, name: 'Ada' });
    const frame = await frameOf(window, server.api);
    await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
    await submit(frame);
    assert.equal((await eventOf(window, 'joined')).room, 'unset');
    await window.context().close();
  } finally {
    site.stop();
    await server.stop();
  }
}

// Attributes are texts and colors, whatever they contain.
export async function attributes(server, site, browser) {
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  for (const given of [
    { code: MARKUP, name: MARKUP, language: '../../v1/rooms', layout: 'constructor', chat: MARKUP },
    { token: `a.${Buffer.from(JSON.stringify({ name: MARKUP })).toString('base64')}.c`, url: 'javascript:globalThis.hacked = true' },
    { token: 'a.b.c', url: 'wss://evil.example', language: '__proto__' },
  ]) {
    await embed(window, given, '--conclave-accent: red} body {display: none; --conclave-text: url(https://evil.example/x); --conclave-panel: var(--back)');
    const frame = await frameOf(window, server.api);
    await until(async () => await frame.locator('#join .main').innerText() !== '', 'the page has no texts');
    await submit(frame);
    assert.equal(await frame.evaluate(isUnchanged), true, JSON.stringify(given));
    assert.equal(await frame.locator('#lobby').isVisible(), true);
    assert.deepEqual(await frame.evaluate(() => ['--text', '--panel'].map((name) => document.documentElement.style.getPropertyValue(name))), ['', '']);
    if (given.token) assert.equal((await eventOf(window, 'error')).code, 'connection_failed');
  }
  await window.context().close();
}

// Only the page that has the element speaks with the call, and only by the methods that there are.
export async function messages(server, site, other, browser) {
  const window = await openWindow(browser);
  // No other frame can reach the one of the element; for the check, they can.
  await window.addInitScript(() => {
    const { attachShadow } = Element.prototype;
    Element.prototype.attachShadow = function open(options) { return attachShadow.call(this, { ...options, mode: 'open' }); };
  });
  await window.goto(`${site.origin}/`);
  const { code } = await server.call('POST', '/v1/rooms/hostile/codes', { role: 'guest' });
  await embed(window, { code, name: 'Ada' });
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
  await submit(frame);
  await eventOf(window, 'joined');
  const [stranger, sibling] = [await addFrame(window, `${other.origin}/blank`), await addFrame(window, `${site.origin}/blank`)];
  await stranger.evaluate(() => {
    for (const message of [{ type: 'event', name: 'ended', detail: {} }, { type: 'ready' }]) parent.postMessage({ conclave: 1, ...message }, '*');
  });
  await sibling.evaluate(() => {
    const inner = parent.call.shadowRoot.querySelector('iframe').contentWindow;
    for (const message of [{ type: 'call', id: 1, method: 'leave' }, { type: 'setup', name: 'Eve', language: 'sw' }]) inner.postMessage({ conclave: 1, ...message }, '*');
  });
  const answers = await window.evaluate(async () => {
    const results = [];
    const inner = globalThis.call.shadowRoot.querySelector('iframe').contentWindow;
    addEventListener('message', ({ data }) => { if (data.type === 'result' && data.id > 900) results.push(data.error?.code); });
    for (const [index, method] of ['constructor', '__proto__', 'toString', 'mute'].entries()) {
      inner.postMessage({ conclave: 1, type: 'call', id: 901 + index, method, value: true }, '*');
    }
    for (const wrong of [null, 7, 'x', { conclave: 2 }, { conclave: 1, type: 'call', id: 'x', method: 'leave' }]) inner.postMessage(wrong, '*');
    while (results.length < 4) await new Promise((resolve) => setTimeout(resolve, 50));
    return results;
  });
  assert.deepEqual(answers, ['no_such_method', 'no_such_method', 'no_such_method', undefined]);
  const names = (await window.evaluate(() => events)).map(([name]) => name);
  assert.equal(names.includes('ended') || names.includes('left'), false, `${names}`);
  assert.equal(await frame.locator('html').getAttribute('lang'), 'en');
  await namesAndTexts(server, frame);
  await window.context().close();
}

async function addFrame(window, address) {
  await window.evaluate((src) => document.body.append(Object.assign(document.createElement('iframe'), { src })), address);
  return until(() => window.frames().find((one) => one.url() === address), `${address} is not shown`);
}

// Names and messages of others are text, and links lead to the web only.
async function namesAndTexts(server, frame) {
  const { token } = await server.call('POST', '/v1/tokens', { room: 'hostile', identity: 'eve', name: `${MARKUP}\u202e`, role: 'guest' });
  await server.sandbox('/sandbox/join', { token });
  await frame.locator('.tile', { hasText: '<img' }).waitFor();
  const text = `${MARKUP} javascript:alert(1) https://a.example/"onclick=alert(1) https://b.example/x). end`;
  for (const topic of ['chat', 'conclave.hand']) {
    for (const data of [text, '{"raised": {"toString": 1}}', '[', '']) {
      await server.call('POST', '/v1/rooms/hostile/send-data', { data: Buffer.from(data).toString('base64'), topic });
    }
  }
  await frame.locator('#messages', { hasText: 'end' }).waitFor({ state: 'attached' });
  assert.equal(await frame.evaluate(isUnchanged), true);
  const links = await frame.evaluate(() => [...document.querySelectorAll('#messages a')].map(({ href, rel, target }) => `${href} ${rel} ${target}`));
  const safe = 'noopener noreferrer nofollow _blank';
  assert.deepEqual(links, [`https://a.example/ ${safe}`, `https://b.example/x ${safe}`]);
  await linksInLongTexts(frame);
}

// To look for links takes a time in proportion to the text. With its square, this would take a minute.
async function linksInLongTexts(frame) {
  const milliseconds = await frame.evaluate(async () => {
    const { withLinks } = await import('/call/links.js');
    const begun = performance.now();
    withLinks(`https://a.example/${'.'.repeat(500_000)}x ${'https://a.example/)'.repeat(5_000)}`);
    return performance.now() - begun;
  });
  assert.ok(milliseconds < 1_000, `to look for links took ${milliseconds} ms`);
}
