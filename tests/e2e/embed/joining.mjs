// Joining: how others see a name, and how a user and the embedding page learn of an obstacle.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { openWindow } from '../support/browsers.mjs';
import { Conclave, until } from '../support/server.mjs';
import { embed, enter, eventOf, fillIn, frameOf, linkTo, submit } from './sites.mjs';

// Names keep every letter, for everyone and in the API. Identities are short and plain.
export async function names(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'names' });
  const window = await openWindow(browser);
  await enter(window, await linkTo(server, 'names', 'host'), 'François-Noël Müller');
  const windows = [window];
  for (const name of ['李雷', '  Ann‮  Lee ', 'أحمد']) {
    const other = await openWindow(browser);
    await enter(other, await linkTo(server, 'names', 'guest'), name);
    windows.push(other);
  }
  const shown = () => windows.at(-1).evaluate(() => [...document.querySelectorAll('.tile .name')].map(({ textContent }) => textContent).sort());
  const expected = ['François-Noël Müller', '李雷', 'Ann Lee', 'أحمد (you)'].sort();
  await until(async () => (await shown()).length === expected.length, 'there are not four tiles');
  assert.deepEqual(await shown(), expected);
  const { participants } = await server.call('GET', '/v1/rooms/names/participants');
  const identities = Object.fromEntries(participants.map(({ name, identity }) => [name, identity]));
  assert.deepEqual(Object.keys(identities).sort(), ['François-Noël Müller', '李雷', 'Ann Lee', 'أحمد'].sort());
  assert.match(identities['François-Noël Müller'], /^Francois-Noel-Muller-[a-z0-9]{6}$/);
  assert.match(identities['Ann Lee'], /^Ann-Lee-[a-z0-9]{6}$/);
  for (const name of ['李雷', 'أحمد']) assert.match(identities[name], /^guest-[a-z0-9]{6}$/);
  for (const one of windows) await one.context().close();
}

// Every cause in words, and its code for the page around the call.
export async function errors(server, site, browser, folder) {
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  const full = await templateWithFullRole(server);
  await server.call('POST', '/v1/rooms', { name: 'errors' });
  await server.call('POST', '/v1/rooms', { name: 'one-only', max_participants: 1 });
  const token = async (body) => (await server.call('POST', '/v1/tokens', { identity: 'ada', name: 'Ada', role: 'guest', ...body })).token;
  const tokens = { full: await token({ room: full.room }), crowded: await token({ room: 'one-only' }), ended: await token({ room: 'errors' }) };
  await server.join(full.room, 'carol', 'guest');
  await server.join('one-only', 'carol', 'guest');
  await server.call('DELETE', '/v1/rooms/errors');
  const url = server.api.replace('http', 'ws');
  const [head, , signature] = tokens.full.split('.');
  for (const [attributes, code, words] of [
    [{ code: 'aaaa-bbbb-cccc', name: 'Ada' }, 'code_not_found', /not valid/],
    [{ token: 'a.b.c', url }, 'token_invalid', /invitation is not valid/],
    [{ token: `${head}.${Buffer.from('{}').toString('base64url')}.${signature}` }, 'token_invalid', /invitation is not valid/],
    [{ token: tokens.full, url }, 'role_full', /of your role/],
    [{ token: tokens.crowded, url }, 'room_full', /is full/],
    [{ token: tokens.ended, url }, 'room_ended', /has ended/],
    [{ token: tokens.full, url: 'ws://127.0.0.1:9' }, 'connection_failed', /Check your network/],
  ]) {
    await embed(window, attributes);
    const frame = await frameOf(window, server.api);
    if (attributes.name) await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
    else await until(async () => await frame.locator('[name=name]').getAttribute('readonly') !== null, 'the token is not used');
    await submit(frame);
    const error = await eventOf(window, 'error').catch(() => assert.fail(`no error ${code}`));
    assert.equal(error.code, code, JSON.stringify(attributes).slice(0, 80));
    assert.match(error.message, words);
    assert.equal(await frame.locator('#join-error').innerText(), error.message);
    if (folder && code === 'code_not_found') await window.screenshot({ path: `${folder}/error.png` });
    assert.equal(await frame.locator('#join .main').isEnabled(), true, 'one cannot try again');
  }
  await nonsense(server, window);
  await window.context().close();
}

// A text that is no code is refused at once, and can be replaced by one.
async function nonsense(server, window) {
  await embed(window, { code: 'nonsense', name: 'Ada' });
  const error = await eventOf(window, 'error');
  assert.equal(error.code, 'invalid_code');
  const frame = await frameOf(window, server.api);
  assert.match(await frame.locator('#join-error').innerText(), /no room code/);
  await submit(frame);
  await until(async () => (await window.evaluate(() => events)).filter(([, detail]) => detail.code === 'invalid_code').length === 2, 'the form does nothing');
  await server.call('POST', '/v1/rooms', { name: 'nonsense' });
  const { code } = await server.call('POST', '/v1/rooms/nonsense/codes', { role: 'guest' });
  await frame.locator('[name=code]').evaluate((input, value) => { input.value = value; }, ` ${code.toUpperCase()} `);
  await submit(frame);
  const joined = await eventOf(window, 'joined').catch(async () => assert.fail(await frame.locator('#join-error').innerText()));
  assert.equal(joined.name, 'Ada');
}

async function templateWithFullRole(server) {
  const roles = { guest: { max_peer_count: 1 } };
  const { id } = await server.call('POST', '/v1/templates', { name: 'one-guest', roles });
  await server.call('POST', '/v1/rooms', { name: 'one-guest', template_id: id });
  return { room: 'one-guest' };
}

// Without the form, and with devices that are off until the user turns them on.
export async function direct(server, site, browser) {
  await server.call('POST', '/v1/rooms', { name: 'direct' });
  const { code } = await server.call('POST', '/v1/rooms/direct/codes', { role: 'guest' });
  const window = await openWindow(browser);
  // The focus is in the page around the call.
  await window.addInitScript(() => { if (globalThis !== globalThis.top) document.hasFocus = () => false; });
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada', 'skip-lobby': '', 'start-muted': '', 'start-camera-off': '' });
  assert.equal((await eventOf(window, 'joined')).name, 'Ada');
  const frame = window.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  assert.equal(await frame.evaluate(() => document.activeElement === document.body), true, 'the call takes the focus');
  const pressed = (id) => frame.locator(`#${id}`).getAttribute('aria-pressed');
  assert.deepEqual([await pressed('microphone'), await pressed('camera')], ['false', 'false']);
  // The embedding page's settings do not replace the user's choice.
  await embed(window, { code, name: 'Ada', 'start-muted': '' });
  const form = await frameOf(window, server.api);
  await form.locator('#microphone-before[aria-pressed="false"]').waitFor();
  await form.locator('#camera-before[aria-pressed="true"]').waitFor();
  await submit(form);
  await eventOf(window, 'joined');
  await embed(window, { code: 'aaaa-bbbb-cccc', name: 'Ada', 'skip-lobby': '' });
  assert.equal((await eventOf(window, 'error')).code, 'code_not_found');
  await (await frameOf(window, server.api)).locator('#microphone-before[aria-pressed="true"]').waitFor();
  await embed(window, { code, 'skip-lobby': '' });
  await frameOf(window, server.api);
  await window.context().close();
}

// A token that has expired, as the server would have signed it an hour ago.
export async function expired(server, site, browser) {
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  await server.call('POST', '/v1/rooms', { name: 'expired' });
  const { token, url } = await server.call('POST', '/v1/tokens', { room: 'expired', identity: 'ada', role: 'guest' });
  await embed(window, { token: anHourOld(server, token), url });
  await submit(await frameOf(window, server.api));
  const error = await eventOf(window, 'error');
  assert.equal(error.code, 'token_expired');
  assert.match(error.message, /has expired/);
  await window.context().close();
}

function anHourOld(server, token) {
  const [head, payload] = token.split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url'));
  for (const time of ['nbf', 'exp']) claims[time] -= 3_700;
  const signed = `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  const secret = readFileSync(join(server.data, 'media.key'), 'utf8').trim().split('\n')[1];
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

// A request without an answer ends, and the user can try again.
export async function unanswered(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'unanswered' });
  const window = await openWindow(browser);
  await window.addInitScript(() => {
    const { timeout } = AbortSignal;
    AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, milliseconds === 30_000 ? 500 : milliseconds);
  });
  await window.route('**/exchange', () => {}, { times: 1 });
  await window.goto(await linkTo(server, 'unanswered', 'guest'));
  await until(async () => await window.locator('#join .main').innerText() !== '', 'the page has no texts');
  await fillIn(window, 'Ada');
  await window.locator('#join-error', { hasText: /Check your network/ }).waitFor({ timeout: 10_000 });
  await window.locator('#join .main:enabled').click();
  await window.locator('#call').waitFor();
  await window.context().close();
}

// The server's rate limit refuses a request: the page shows the wait, waits for as long as the response states, and joins.
export async function tooMany(browser) {
  const server = await Conclave.start({ CONCLAVE_LIMITS__EXCHANGE_PER_SECOND: '1', CONCLAVE_LIMITS__EXCHANGE_BURST: '1' });
  try {
    await server.call('POST', '/v1/rooms', { name: 'too-many' });
    const link = await linkTo(server, 'too-many', 'guest');
    const window = await openWindow(browser);
    await window.goto(link);
    await until(async () => await window.locator('#join .main').innerText() !== '', 'the page has no texts');
    const waits = [];
    window.on('response', async (response) => {
      if (response.url().endsWith('/exchange')) waits.push([response.status(), Number(response.headers()['retry-after'] ?? 0), Date.now()]);
    });
    await fetch(`${server.api}/v1/codes/aaaa-bbbb-cccc/exchange`, { method: 'POST' });
    const refusal = { status: 429, headers: { 'retry-after': '4' }, contentType: 'application/json', body: '{}' };
    await window.route('**/call/role', (route) => route.fulfill(refusal), { times: 1 });
    await fillIn(window, 'Ada');
    await window.locator('#join-status', { hasText: /next try/ }).waitFor();
    // The request for the permissions may be refused as well.
    await window.locator('#join-status', { hasText: /in 4 s/ }).waitFor();
    await window.locator('#call').waitFor();
    const [[first, seconds, refusedAt], [second, , joinedAt]] = waits;
    assert.deepEqual([first, second], [429, 201]);
    assert.ok(joinedAt - refusedAt >= seconds * 1_000 - 50, `the page has waited ${joinedAt - refusedAt} ms instead of ${seconds} s`);
    await window.context().close();
  } finally {
    await server.stop();
  }
}
