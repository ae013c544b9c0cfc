// A call in a page of another origin: attributes, events and methods.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { embed, eventOf, frameOf, submit } from './sites.mjs';

const pressed = (frame, id) => frame.locator(`#${id}`).getAttribute('aria-pressed');
const call = (window, method, ...values) => window.evaluate(([name, given]) => globalThis.call[name](...given).then(() => 'done', (error) => error.code), [method, values]);

export class Embedding {
  constructor(server, site, browser) {
    Object.assign(this, { server, site, browser, complaints: [] });
  }

  async open() {
    this.window = await openWindow(this.browser, { complaints: this.complaints });
    await this.window.goto(`${this.site.origin}/`);
  }

  async code(room, role) {
    return (await this.server.call('POST', `/v1/rooms/${room}/codes`, { role })).code;
  }

  async isPressed(frame, id, value) {
    await until(async () => await pressed(frame, id) === value, `${id} is not ${value === 'true' ? 'on' : 'off'}`);
  }

  // Every attribute and color is used.
  async attributes(room) {
    const attributes = { code: await this.code(room, 'guest'), name: 'Ada', layout: 'speaker', chat: 'off', language: 'fr' };
    await embed(this.window, attributes, '--conclave-accent: #c2185b; --conclave-background: oklch(0.99 0 0)');
    const frame = await frameOf(this.window, this.server.api);
    await frame.getByText('Rejoindre un appel').waitFor();
    await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
    assert.equal(await frame.locator('#by-code').isVisible(), false, 'the code is asked for');
    // Colors change gradually.
    const accent = () => frame.evaluate(() => getComputedStyle(document.querySelector('#join .main')).backgroundColor);
    await until(async () => await accent() === 'rgb(194, 24, 91)', 'the color is not used');
    assert.equal(await frame.evaluate(() => document.documentElement.dataset.scheme), 'light');
    // Typed text stays when another attribute changes.
    await frame.locator('[name=name]').evaluate((input) => { input.value = 'Ada B'; });
    await this.language(frame, 'de');
    await this.window.evaluate(() => globalThis.call.style.setProperty('--conclave-accent', '#1a237e'));
    await until(async () => await accent() === 'rgb(26, 35, 126)', 'the changed color is not used');
    assert.equal(await frame.locator('[name=name]').inputValue(), 'Ada B');
    await frame.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 500); }));
    assert.equal(await frame.locator('html').getAttribute('lang'), 'de', 'the language before is back');
    await this.language(frame, 'fr');
    return frame;
  }

  // The user chooses another language.
  async language(frame, language) {
    await frame.locator('#language').selectOption(language);
    await until(async () => await frame.locator('html').getAttribute('lang') === language, `the language is not ${language}`);
  }

  // From joining to leaving, with an event for each change and a method for each button.
  async call(room) {
    const { window, server } = this;
    const frame = await this.attributes(room);
    assert.equal(await call(window, 'mute'), 'no_call');
    await submit(frame);
    const joined = await eventOf(window, 'joined');
    assert.equal(joined.room, room);
    assert.equal(joined.role, 'guest');
    assert.match(joined.identity, /^Ada-B-/);
    assert.equal(await frame.locator('#chat-button').isVisible(), false, 'there is a chat');
    assert.equal(await frame.locator('#layout').getAttribute('data-other'), 'grid');
    const other = await server.join(room, 'bob', 'guest', [['audio', 'microphone']]);
    assert.deepEqual(await eventOf(window, 'participant-joined'), { identity: 'bob', name: 'Bob Adeyemi', role: 'guest' });
    await server.call('POST', `/v1/rooms/${room}/participants/${joined.identity}/role`, { role: 'host' });
    assert.equal((await eventOf(window, 'role-changed')).role, 'host');
    await this.methods(frame);
    await this.changes(frame);
    // A code that is given in the call is for the next one.
    const next = await this.code(room, 'guest');
    await window.evaluate((code) => globalThis.call.setAttribute('code', code), next);
    assert.equal(await call(window, 'leave'), 'done');
    assert.deepEqual(await eventOf(window, 'left'), { room, reason: 'left' });
    await frame.locator('#to-start').waitFor();
    await frame.locator('#to-start').evaluate((button) => button.click());
    await frame.locator('#lobby').waitFor();
    assert.equal(await frame.locator('[name=code]').inputValue(), next);
    await server.leave(other);
  }

  async methods(frame) {
    const { window } = this;
    for (const [method, id] of [['mute', 'microphone'], ['muteCamera', 'camera']]) {
      await this.isPressed(frame, id, 'true');
      assert.equal(await call(window, method), 'done');
      await this.isPressed(frame, id, 'false');
      assert.equal(await call(window, method, false), 'done');
      await this.isPressed(frame, id, 'true');
    }
    await this.share(frame);
  }

  // A browser that cannot delegate a click to the frame needs one inside it, and the page shows that. It also shows a problem if the
  // machine has no screen.
  async share(frame) {
    const { window } = this;
    await window.evaluate(() => document.querySelector('#go').addEventListener('click', () => {
      globalThis.shared = call.share().then(() => 'done', ({ message }) => message);
    }, { once: true }));
    await window.locator('#go').click();
    const result = await window.evaluate(() => globalThis.shared);
    if (result !== 'done') {
      assert.match(await frame.locator('#problem').innerText(), /Partager l’écran|aucun écran à partager/, result);
      return;
    }
    await this.isPressed(frame, 'screen', 'true');
    assert.equal(await call(window, 'share', false), 'done');
    await this.isPressed(frame, 'screen', 'false');
  }

  // Changes attributes during the call. Texts of the previous language, which arrive after the new language's texts, change nothing.
  async changes(frame) {
    const { window } = this;
    const [late, wanted] = ['es', 'sw'].map((language) => window.waitForResponse(`**/call/${language}.json`));
    await window.route('**/call/es.json', async (route) => { await wanted; await route.continue(); });
    await window.evaluate(() => {
      globalThis.call.setAttribute('layout', 'grid');
      globalThis.call.setAttribute('chat', 'on');
      for (const language of ['es', 'sw']) globalThis.call.setAttribute('language', language);
      globalThis.call.setAttribute('title', 'Somo');
    });
    assert.equal(await (await frame.frameElement()).getAttribute('title'), 'Somo', 'the title of the frame stays');
    await until(async () => await frame.locator('#room-name').innerText() === 'Somo', 'the title of the call stays');
    await until(async () => await frame.locator('#layout').getAttribute('data-other') === 'speaker', 'the layout stays');
    await until(() => frame.locator('#chat-button').isVisible(), 'there is no chat');
    await until(async () => await frame.locator('html').getAttribute('lang') === 'sw', 'the language stays');
    await (await late).finished();
    await frame.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    assert.equal(await frame.locator('html').getAttribute('lang'), 'sw', 'the language before is back');
    const named = await frame.evaluate(() => [
      document.querySelector('.tile.own .name').textContent,
      ...['.tile:not(.own) .actions button', '#people-button'].map((selector) => document.querySelector(selector).getAttribute('aria-label')),
    ]);
    for (const [index, pattern] of [/^Ada B \(wewe\)$/, /: Bob Adeyemi$/, /\(2\)$/].entries()) assert.match(named[index], pattern);
  }

  // Attributes that change while the call connects are used in it.
  async connecting(room) {
    const { server } = this;
    const window = await openWindow(this.browser, { complaints: this.complaints });
    // The server's messages, which the page gets later.
    let held = [];
    await window.routeWebSocket(/\/rtc/, (page) => {
      page.connectToServer().onMessage((message) => (held ? held.push(() => page.send(message)) : page.send(message)));
    });
    await window.goto(`${this.site.origin}/`);
    const others = await Promise.all(['bob', 'dan'].map((identity) => server.join(room, identity, 'guest')));
    await embed(window, { code: await this.code(room, 'guest'), name: 'Ada' });
    const frame = await frameOf(window, server.api);
    await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
    await submit(frame);
    await until(() => held.length > 0, 'the call does not connect');
    await window.evaluate(() => {
      for (const [name, value] of [['layout', 'speaker'], ['chat', 'off'], ['max-tiles', '1'], ['title', 'Somo']]) globalThis.call.setAttribute(name, value);
    });
    // The response comes after the attributes.
    assert.equal(await call(window, 'mute'), 'no_call');
    for (const pass of held) pass();
    held = null;
    await eventOf(window, 'joined');
    assert.equal(await frame.locator('#room-name').innerText(), 'Somo');
    assert.equal(await frame.locator('#chat-button').isVisible(), false, 'there is a chat');
    assert.equal(await frame.locator('#layout').getAttribute('data-other'), 'grid');
    // The large one and one beside it.
    assert.equal(await frame.locator('.tile').count(), 2);
    for (const sid of others) await server.leave(sid);
    await window.context().close();
  }

  // With a room token nothing is asked; the end of the room is an event; what admits to nothing is an error.
  async end(room) {
    const { window, server } = this;
    const { token, url } = await server.call('POST', '/v1/tokens', { room, identity: 'carol', name: 'Carol', role: 'host' });
    await embed(window, { token, url });
    const frame = await frameOf(window, server.api);
    await until(async () => await frame.locator('[name=name]').inputValue() === 'Carol', 'the name of the token is not shown');
    await submit(frame);
    assert.equal((await eventOf(window, 'joined')).identity, 'carol');
    await server.call('DELETE', `/v1/rooms/${room}`);
    assert.deepEqual(await eventOf(window, 'ended'), { room });
    assert.deepEqual(await eventOf(window, 'left'), { room, reason: 'ended' });
    await embed(window, { code: 'aaaa-bbbb-cccc', name: 'Dan' });
    const other = await frameOf(window, server.api);
    await until(async () => await other.locator('[name=name]').inputValue() === 'Dan', 'the name is not used');
    await submit(other);
    assert.equal((await eventOf(window, 'error')).code, 'code_not_found');
  }

  async close() {
    await this.window.context().close();
  }
}
