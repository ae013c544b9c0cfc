// After a call: its screen, the devices, and the way back. And a server that is gone for a while.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { Conclave, until } from '../support/server.mjs';
import { enter, linkTo } from './sites.mjs';

// Keeps the tracks that the page has got from devices.
const KEEP_TRACKS = () => {
  globalThis.tracks = [];
  const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    const stream = await real(wanted);
    globalThis.tracks.push(...stream.getTracks());
    return stream;
  };
};
const isReleased = (page) => page.evaluate(() => globalThis.tracks.length > 0 && globalThis.tracks.every(({ readyState }) => readyState === 'ended'));

// Leaving, being removed, and the end of the room: no device stays on, and who may come back can.
export async function screens(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'endings' });
  const window = await openWindow(browser);
  await window.addInitScript(KEEP_TRACKS);
  await enter(window, await linkTo(server, 'endings', 'guest'), 'Ada');
  await window.locator('.tile.own.has-picture').waitFor();
  await window.locator('#microphone').click();
  await window.locator('#microphone[aria-pressed="false"]').waitFor();
  const identity = async () => (await server.call('GET', '/v1/rooms/endings/participants')).participants[0]?.identity;
  const before = await identity();
  await window.locator('#leave').click();
  await ended(window, 'You have left the call.', true);
  // As the same participant, with the devices as they were.
  await window.locator('#rejoin').click();
  await window.locator('#call').waitFor();
  await window.locator('#camera[aria-pressed="true"]').waitFor();
  assert.equal(await window.locator('#microphone').getAttribute('aria-pressed'), 'false', 'the microphone is on');
  await until(async () => await identity() === before, 'another participant has come back');
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
