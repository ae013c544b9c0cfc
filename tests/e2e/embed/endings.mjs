// After a call: its screen, the devices, and the way back. A room that reaches its maximum duration. And a server that is gone for a while.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { Conclave, until } from '../support/server.mjs';
import { embed, enter, eventOf, frameOf, linkTo, submit } from './sites.mjs';

// Keeps the tracks that the page, or a frame, gets from devices.
export const KEEP_TRACKS = () => {
  globalThis.tracks = [];
  const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    const stream = await real(wanted);
    globalThis.tracks.push(...stream.getTracks());
    return stream;
  };
};
export const isReleased = (page) => page.evaluate(() => globalThis.tracks.length > 0 && globalThis.tracks.every(({ readyState }) => readyState === 'ended'));

// Leaving, being removed, and the end of the room: no device stays on, and who may come back can.
export async function screens(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'endings' });
  const window = await openWindow(browser);
  await window.addInitScript(KEEP_TRACKS);
  await enter(window, await linkTo(server, 'endings', 'guest'), 'Ada');
  await window.locator('.tile.own.has-picture').waitFor();
  const microphone = await switchMicrophone(window);
  await window.locator('#microphone').click();
  await window.locator('#microphone[aria-pressed="false"]').waitFor();
  const identity = async () => (await server.call('GET', '/v1/rooms/endings/participants')).participants[0]?.identity;
  const before = await identity();
  await window.locator('#leave').click();
  await ended(window, 'You have left the call.', true);
  // As the same participant, with the devices as they were. The form, which would open devices beside the call's, is not offered
  // meanwhile.
  const answer = await hold(window, () => true);
  await window.locator('#rejoin').click();
  await window.locator('#to-start:disabled').waitFor();
  answer();
  await window.locator('#call').waitFor();
  await window.locator('#camera[aria-pressed="true"]').waitFor();
  assert.equal(await window.locator('#microphone').getAttribute('aria-pressed'), 'false', 'the microphone is on');
  await until(async () => await identity() === before, 'another participant has come back');
  await window.locator('#microphone').click();
  await until(async () => await microphoneOf(window) === microphone, 'another microphone is used after the rejoin');
  await server.call('DELETE', `/v1/rooms/endings/participants/${before}`);
  await ended(window, 'A moderator has removed you.', false);
  await window.locator('#to-start').click();
  await window.locator('#lobby').waitFor();
  await until(() => window.evaluate(() => document.querySelector('#preview').videoWidth > 0), 'there is no picture before the call');
  await enterAgain(window);
  await server.call('DELETE', '/v1/rooms/endings');
  await ended(window, 'The call has ended.', false);
  await window.context().close();
}

// Chooses the last microphone of the list in the call, and returns its id.
async function switchMicrophone(window) {
  await window.locator('#menu-button').click();
  await window.locator('#settings-button').click();
  await window.locator('dialog#settings[open]').waitFor();
  const id = await window.locator('#microphone-now option').last().getAttribute('value');
  await window.locator('#microphone-now').selectOption(id);
  await until(async () => await microphoneOf(window) === id, 'the microphone is not switched');
  await window.locator('#settings [data-close]').click();
  return id;
}

const microphoneOf = (window) => window.evaluate(() => globalThis.tracks.findLast(({ kind, readyState }) => kind === 'audio' && readyState === 'live')?.getSettings().deviceId);

// Keeps the tracks of devices, which open only when `release` is called.
const HOLD_DEVICES = () => {
  Object.assign(globalThis, { tracks: [], requested: 0 });
  const released = new Promise((resolve) => { globalThis.release = resolve; });
  const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    globalThis.requested += 1;
    await released;
    const stream = await real(wanted);
    globalThis.tracks.push(...stream.getTracks());
    return stream;
  };
};

// Devices that open after the user has left are off at once, and no further one is opened. A late response of the server adds no tile.
export async function late(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'late' });
  await lateDevice(await openWindow(browser), await linkTo(server, 'late', 'guest'));
  await lateResponse(await openWindow(browser), await linkTo(server, 'late', 'guest'));
  await noAnswer(await openWindow(browser), await linkTo(server, 'late', 'guest'));
}

// Holds requests for the permissions for which `isHeld` returns true, until the function that this returns is called.
async function hold(window, isHeld) {
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  await window.route('**/call/role', async (route) => {
    if (isHeld()) await held;
    await route.continue();
  });
  return answer;
}

async function lateDevice(window, link) {
  await window.addInitScript(HOLD_DEVICES);
  await enter(window, link, 'Ada');
  // The microphone's preview, and then the microphone for the call.
  await until(() => window.evaluate(() => globalThis.requested === 2), 'the microphone is not requested');
  await window.locator('#leave').click();
  await window.locator('#end').waitFor();
  await window.evaluate(() => globalThis.release());
  await until(() => window.evaluate(() => globalThis.tracks.length === 2), 'the microphone does not open');
  // The client SDK would keep the device for 15 s.
  await until(() => isReleased(window), 'the microphone is on after the end', 5_000);
  await window.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 500); }));
  assert.equal(await window.evaluate(() => globalThis.requested), 2, 'the camera is requested after the end');
  assert.equal(await window.locator('#problem').textContent(), '');
  await window.context().close();
}

// A user who leaves without an answer to the browser's question can join again.
async function noAnswer(window, link) {
  await window.addInitScript(HOLD_DEVICES);
  await enter(window, link, 'Cleo');
  await until(() => window.evaluate(() => globalThis.requested === 2), 'the microphone is not requested');
  await window.locator('#leave').click();
  await window.locator('#to-start').click();
  await window.locator('#join .main:enabled').waitFor();
  await window.context().close();
}

async function lateResponse(window, link) {
  let requests = 0;
  // The first request is for the question before the join.
  const answer = await hold(window, () => {
    requests += 1;
    return requests === 2;
  });
  await enter(window, link, 'Ben');
  await until(() => requests === 2, 'the permissions are not requested');
  await window.locator('#leave').click();
  await window.locator('#end').waitFor();
  const response = window.waitForResponse('**/call/role');
  answer();
  await (await response).finished();
  await window.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 500); }));
  assert.equal(await window.locator('#grid .tile').count(), 0, 'the next call would have a tile of this one');
  await window.context().close();
}

// After a new connection, participants who were there all the time have neither left nor joined, and are listed as they are.
export async function renewed(server, site, browser) {
  await server.call('POST', '/v1/rooms', { name: 'renewed' });
  await server.join('renewed', 'carol', 'guest', [['audio', 'microphone']]);
  const { code } = await server.call('POST', '/v1/rooms/renewed/codes', { role: 'guest' });
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada' });
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
  await frame.evaluate(keepRoomAndNotices);
  await submit(frame);
  await eventOf(window, 'joined');
  await until(async () => await frame.locator('.tile').count() === 2, 'there are not two tiles');
  const togglePeople = () => frame.locator('#people-button').evaluate((button) => button.click());
  await togglePeople();
  await frame.locator('.attendee', { hasText: 'Carol' }).waitFor();
  await togglePeople();
  await frame.evaluate(() => globalThis.room.simulateScenario('full-reconnect'));
  const notices = () => frame.evaluate(() => globalThis.notices);
  await until(async () => (await notices()).includes('The connection is back.'), 'the connection does not come back');
  await server.join('renewed', 'dora', 'guest');
  // Later notices would come with this one.
  await until(async () => (await notices()).some((text) => text.includes('Dora')), 'nobody has joined');
  assert.deepEqual((await notices()).filter((text) => /has joined|has left|have joined|have left/.test(text)), ['Dora Adeyemi has joined.']);
  const joined = (await window.evaluate(() => events)).filter(([name]) => name === 'participant-joined');
  assert.deepEqual(joined.map(([, { identity }]) => identity), ['dora']);
  await togglePeople();
  await frame.locator('.attendee', { hasText: 'Carol' }).waitFor();
  assert.equal(await frame.locator('.attendee', { hasText: 'Carol' }).locator('.muted').count(), 0, 'a participant with a microphone is listed as muted');
  await window.context().close();
}

// Keeps the next call's room of the client SDK, and the texts of all notices.
function keepRoomAndNotices() {
  const { on } = LivekitClient.Room.prototype;
  LivekitClient.Room.prototype.on = function kept(...given) {
    globalThis.room = this;
    return on.apply(this, given);
  };
  globalThis.notices = [];
  const observer = new MutationObserver((records) => {
    for (const { addedNodes } of records) globalThis.notices.push(...[...addedNodes].map(({ textContent }) => textContent));
  });
  observer.observe(document.querySelector('#notice'), { childList: true });
}

// A server that does not come back: the user has not left, and may join again.
export async function lost(browser) {
  const server = await Conclave.start();
  try {
    await server.call('POST', '/v1/rooms', { name: 'lost' });
    const window = await openWindow(browser);
    await window.addInitScript(KEEP_TRACKS);
    await enter(window, await linkTo(server, 'lost', 'guest'), 'Ada');
    await window.locator('.tile.own.has-picture').waitFor();
    server.child.kill('SIGKILL');
    // The client SDK tries for most of a minute.
    await window.locator('#end').waitFor({ timeout: 120_000 });
    await ended(window, 'The connection was lost.', true);
    await window.context().close();
  } finally {
    await server.stop();
  }
}

async function enterAgain(window) {
  await window.locator('#join .main').click();
  await window.locator('#call').waitFor();
  await window.locator('.tile.own.has-picture').waitFor();
}

async function ended(window, words, mayReturn) {
  await window.locator('#end').getByText(words).waitFor();
  assert.equal(await window.locator('#rejoin').isVisible(), mayReturn, words);
  for (const id of ['lobby', 'call']) assert.equal(await window.locator(`#${id}`).isVisible(), false, `${words} ${id} is shown`);
  await until(() => isReleased(window), `${words} A device is still in use.`);
  assert.equal(await window.evaluate(() => document.activeElement.id), 'end-title');
}

// A room with a maximum duration: the notice a minute before its end, or soon after a join that is later; and the end by itself.
export async function duration(server, site, browser) {
  await Promise.all([notified(server, site, browser), endedByItself(server, browser)]);
}

// Three seconds after the join, a minute is left. A participant cannot send such a notice.
async function notified(server, site, browser) {
  const room = 'sixty-three-seconds';
  await server.call('POST', '/v1/rooms', { name: room, max_duration_seconds: 63 });
  const { code } = await server.call('POST', `/v1/rooms/${room}/codes`, { role: 'guest' });
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada' });
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
  await submit(frame);
  const ending = await eventOf(window, 'ending');
  assert.equal(ending.room, room);
  assert.ok(ending.seconds > 55 && ending.seconds <= 60, `${ending.seconds} seconds are left`);
  await frame.locator('#notice[role="status"] p', { hasText: `This call ends in ${ending.seconds} seconds.` }).waitFor();
  const other = await openWindow(browser);
  await other.goto(`${server.api}/call`);
  await other.evaluate(sendNotice, await server.call('POST', '/v1/tokens', { room, identity: 'mallory', name: 'Mallory', role: 'guest' }));
  await frame.locator('#messages', { hasText: 'That was all' }).waitFor({ state: 'attached' });
  await server.call('DELETE', `/v1/rooms/${room}`);
  assert.deepEqual(await eventOf(window, 'left'), { room, reason: 'ended' });
  const names = (await window.evaluate(() => events)).map(([name]) => name);
  assert.equal(names.filter((name) => name === 'ending').length, 1, `${names}`);
  for (const one of [window, other]) await one.context().close();
}

// Joins with the client SDK of the call page, and sends a notice as the server would, and a text.
async function sendNotice({ url, token }) {
  const room = new LivekitClient.Room();
  await room.connect(url, token);
  for (const [topic, text] of [['conclave.room-ending', '{"seconds_left": 5}'], ['chat', 'That was all']]) {
    await room.localParticipant.publishData(new TextEncoder().encode(text), { reliable: true, topic });
  }
}

async function endedByItself(server, browser) {
  const room = 'twelve-seconds';
  await server.call('POST', '/v1/rooms', { name: room, max_duration_seconds: 12 });
  const window = await openWindow(browser);
  await window.addInitScript(KEEP_TRACKS);
  await enter(window, await linkTo(server, room, 'guest'), 'Ben');
  const notice = window.locator('#notice p', { hasText: 'This call ends in' });
  await notice.waitFor();
  const [seconds] = (await notice.innerText()).match(/\d+/);
  assert.ok(seconds > 0 && seconds < 12, `${seconds} seconds are left`);
  await window.locator('#end').getByText('The call has ended.').waitFor();
  assert.equal(await window.locator('#rejoin').isVisible(), false, 'one is offered to join again');
  await until(() => isReleased(window), 'a device is still in use');
  const { status, started_at: start, ended_at: end } = await server.call('GET', `/v1/rooms/${room}`);
  assert.equal(status, 'ended');
  const lasted = Date.parse(end) - Date.parse(start);
  assert.ok(lasted >= 12_000, `the call has lasted ${lasted} ms`);
  await window.context().close();
}

// A server is suspended for ten seconds. The page shows the interruption soon, and then its end.
export async function standstill(browser, folder) {
  const server = await Conclave.start();
  try {
    await server.call('POST', '/v1/rooms', { name: 'standstill' });
    const window = await openWindow(browser);
    await enter(window, await linkTo(server, 'standstill', 'host'), 'Ada');
    const other = await openWindow(browser);
    await enter(other, await linkTo(server, 'standstill', 'guest'), 'Ben');
    await until(() => window.evaluate(() => document.querySelectorAll('.tile.has-picture').length === 2), 'there are not two pictures');
    await quiet(window, other);
    const tag = window.locator('#connection');
    server.child.kill('SIGSTOP');
    const stopped = Date.now();
    try {
      await window.locator('#connection[data-state="reconnecting"]').waitFor({ timeout: 8_000 });
      const after = Date.now() - stopped;
      assert.ok(after > 2_000 && after < 6_000, `the page has said so after ${after} ms`);
      assert.equal(await tag.innerText(), 'reconnecting…');
      assert.match(await window.locator('.tile:not(.own) video').evaluate((video) => getComputedStyle(video).filter), /grayscale/);
      if (folder) await window.screenshot({ path: `${folder}/reconnecting.png` });
      assert.equal(await window.locator('.tile:not(.own) .quality').getAttribute('data-quality'), 'lost');
      await window.waitForTimeout(Math.max(0, 10_000 - (Date.now() - stopped)));
    } finally {
      server.child.kill('SIGCONT');
    }
    await window.locator('#notice', { hasText: 'The connection is back.' }).waitFor();
    assert.equal(await tag.innerText(), 'connected');
    await until(async () => await window.locator('.tile:not(.own) video').evaluate((video) => getComputedStyle(video).filter) === 'none', 'the tiles stay dim');
    for (const one of [window, other]) await one.context().close();
  } finally {
    await server.stop();
  }
}

// Where nobody sends anything, nothing is missing.
async function quiet(...windows) {
  for (const window of windows) {
    for (const id of ['microphone', 'camera']) {
      await window.locator(`#${id}[aria-pressed="true"]`).click();
      await window.locator(`#${id}[aria-pressed="false"]`).waitFor();
    }
  }
  const states = await windows[0].evaluate(async () => {
    const found = new Set();
    for (const end = performance.now() + 7_000; performance.now() < end;) {
      found.add(document.querySelector('#connection').dataset.state);
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
    return [...found];
  });
  assert.deepEqual(states, ['connected']);
  for (const window of windows) await window.locator('#camera').click();
  await until(() => windows[0].evaluate(() => document.querySelectorAll('.tile.has-picture').length === 2), 'the pictures do not come back');
}
