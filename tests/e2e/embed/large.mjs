// Large calls: pages of tiles, where only the current page receives video and speakers move to the first page. Also an embedding page's
// choice of controls, full screen and the small window.
import assert from 'node:assert/strict';

import { launchChromium, openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { Publishers } from './publishers.mjs';
import { embed, enter, eventOf, linkTo } from './sites.mjs';

// Keeps the connections of the page, to see what they receive.
const KEEP_CONNECTIONS = () => {
  globalThis.connections = [];
  globalThis.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(...options) {
      super(...options);
      globalThis.connections.push(this);
    }
  };
};

// How many frames of each video arrive within some seconds.
const framesOf = (page, seconds) => page.evaluate(async (milliseconds) => {
  const frames = async () => {
    const reports = await Promise.all(globalThis.connections.map((one) => one.getStats()));
    const videos = reports.flatMap((report) => [...report.values()]).filter(({ type, kind }) => type === 'inbound-rtp' && kind === 'video');
    return new Map(videos.map(({ id, ssrc, framesReceived = 0 }) => [`${id} ${ssrc}`, framesReceived]));
  };
  const before = await frames();
  await new Promise((resolve) => { setTimeout(resolve, milliseconds); });
  return [...await frames()].map(([key, count]) => count - (before.get(key) ?? 0)).filter((count) => count > 0);
}, seconds * 1_000);
// How many videos arrive within three seconds: long enough for one frame of each on a busy machine.
const arriving = async (page) => (await framesOf(page, 3)).length;
async function arrive(page, wanted) {
  let found;
  await until(async () => { found = await arriving(page); return found === wanted; }, () => `${found} videos arrive instead of ${wanted}`, 150_000);
}
// The driver's mouse does not reach into another site's frame in Firefox.
const press = (page, id) => page.locator(`#${id}`).evaluate((button) => button.click());
const names = (page) => page.evaluate(() => [...document.querySelectorAll('.tile .name')].map(({ textContent }) => textContent));

// A call of 25 with nine tiles at once.
export async function pages(server, site, browser, folder) {
  // Always in Chromium, which takes less of the processor for so many connections.
  const others = await launchChromium();
  try {
    await turnPages(server, site, { browser, others }, folder);
  } finally {
    await others.close();
  }
}

async function turnPages(server, site, { browser, others }, folder) {
  await server.call('POST', '/v1/rooms', { name: 'large' });
  const { code } = await server.call('POST', '/v1/rooms/large/codes', { role: 'host' });
  const publishers = await Publishers.join(server, others, 'large', 24);
  const window = await openWindow(browser);
  await window.addInitScript(KEEP_CONNECTIONS);
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada', 'max-tiles': '9', 'skip-lobby': '' }, 'position: fixed; inset: 0; height: auto');
  await eventOf(window, 'joined');
  const frame = window.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  await until(async () => await frame.locator('#people-total').getAttribute('data-count') === '25', 'not all are there');
  const page = async () => [await frame.locator('#page-number').innerText(), (await names(frame)).length].join();
  await until(async () => await page() === '1 of 3,9', 'the first page does not have nine tiles');
  const first = await names(frame);
  assert.equal(first[0], 'Ada (you)');
  // Also of participants whose tracks arrived while the page was connecting.
  await until(async () => await frame.evaluate(() => document.querySelectorAll('body > audio').length) === 24, 'not all others are heard');
  await arrive(frame, 8);
  if (folder) await window.screenshot({ path: `${folder}/pages-wide.png` });
  assert.equal(await frame.locator('#page-after').getAttribute('aria-keyshortcuts'), 'PageDown');
  // The button loses the focus on the last page, where it cannot be pressed.
  await frame.locator('#page-after').evaluate((button) => button.focus());
  for (const [button, expected, videos] of [['page-after', '2 of 3,9', 9], ['page-after', '3 of 3,7', 7], ['page-before', '2 of 3,9', 9]]) {
    await press(frame, button);
    await until(async () => await page() === expected, `the page is not ${expected}`);
    if (expected.startsWith('3')) assert.equal(await frame.evaluate(() => document.activeElement.id), 'page-before', 'the focus is lost');
    await arrive(frame, videos);
    await until(async () => await frame.locator('.tile.has-picture').count() === videos, 'a tile has no picture');
  }
  await speaker(frame, publishers, first);
  await attributes(window, frame);
  await window.context().close();
}

// While a later page is shown, it stays as it is. On the first, who speaks takes the place of one who has been silent.
async function speaker(frame, publishers, first) {
  const second = await names(frame);
  await publishers.speak(24);
  await press(frame, 'page-before');
  await frame.locator('.tile.speaking', { hasText: 'P24' }).waitFor();
  const now = await names(frame);
  assert.equal(now[0], 'Ada (you)');
  assert.equal(now.filter((name) => first.includes(name)).length, 8, `${now} instead of ${first}`);
  assert.equal(second.includes('P24'), false);
  await publishers.speak(0);
}

// The number of tiles may change, and a phone shows as many as it has room for.
async function attributes(window, frame) {
  await window.evaluate(() => globalThis.call.setAttribute('max-tiles', '4'));
  await until(async () => (await names(frame)).length === 4, 'there are not four tiles');
  await window.evaluate(() => globalThis.call.setAttribute('max-tiles', 'many'));
  await until(async () => (await names(frame)).length === 16, 'there are not sixteen tiles');
  await window.setViewportSize({ width: 360, height: 500 });
  await until(async () => {
    const count = (await names(frame)).length;
    return count >= 4 && count < 16;
  }, 'a small stage has as many tiles');
  const heights = await frame.evaluate(() => [...document.querySelectorAll('.tile')].map((tile) => tile.clientHeight));
  assert.ok(heights.every((height) => height >= 80), `${heights}`);
  assert.equal(await frame.evaluate(() => { const grid = document.querySelector('#grid'); return grid.scrollHeight > grid.clientHeight + 1; }), false, 'the stage scrolls');
}

// With nine tiles at once, the browser decodes a third of the frames and takes less of its processor than with all 25. Half of the time would
// need a graphics chip: without one, the processor draws the stage, which has the same size with both, and that is most of the work.
export async function processor(server, site) {
  await server.call('POST', '/v1/rooms', { name: 'processor' });
  const { code } = await server.call('POST', '/v1/rooms/processor/codes', { role: 'guest' });
  const others = await launchChromium();
  await Publishers.join(server, others, 'processor', 24, { width: 320, height: 180, frames: 10, muted: true });
  const all = await taken(server, site, code, 49);
  const nine = await taken(server, site, code, 9);
  await others.close();
  console.log(`        in 10 s: ${all.frames} frames and ${all.seconds.toFixed(2)} s of the processor with 25 tiles, ${nine.frames} and ${nine.seconds.toFixed(2)} s with 9`);
  assert.ok(nine.frames <= all.frames / 2, `${nine.frames} frames instead of ${all.frames}`);
  assert.ok(nine.seconds < all.seconds, `${nine.seconds} s instead of ${all.seconds} s`);
}

// Returns the frames and the seconds of the processor of a browser that shows at most so many tiles, within ten seconds.
async function taken(server, site, code, most) {
  const browser = await launchChromium();
  const window = await openWindow(browser);
  await window.addInitScript(KEEP_CONNECTIONS);
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada', 'max-tiles': String(most), 'skip-lobby': '', 'start-camera-off': '', 'start-muted': '' }, 'position: fixed; inset: 0; height: auto');
  await eventOf(window, 'joined');
  const frame = window.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  const wanted = Math.min(24, most - 1);
  let found;
  await until(async () => {
    found = await frame.locator('.tile.has-picture').count();
    return found === wanted;
  }, () => `${found} pictures instead of ${wanted}`, 120_000);
  const session = await browser.newBrowserCDPSession();
  const used = async () => (await session.send('SystemInfo.getProcessInfo')).processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
  // The work of joining is over by then.
  await window.waitForTimeout(5_000);
  const before = await used();
  const frames = (await framesOf(frame, 10)).reduce((sum, count) => sum + count, 0);
  const seconds = await used() - before;
  await browser.close();
  return { frames, seconds };
}

// Which controls there are, a clock, full screen and the small window.
export async function controls(server, site, browser) {
  await server.call('POST', '/v1/rooms', { name: 'controls' });
  const { code } = await server.call('POST', '/v1/rooms/controls/codes', { role: 'host' });
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada', controls: 'microphone, camera leave nonsense', 'skip-lobby': '' });
  await eventOf(window, 'joined');
  const frame = window.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  const shown = () => frame.evaluate(() => [...document.querySelectorAll('#call [data-control], #menu-button')].filter((one) => one.checkVisibility()).map(({ id }) => id));
  assert.deepEqual(await shown(), ['microphone', 'camera', 'leave']);
  // Nor does a message open the chat.
  await server.call('POST', '/v1/rooms/controls/send-data', { data: Buffer.from('Good morning').toString('base64'), topic: 'chat' });
  await frame.locator('#notice p', { hasText: 'Good morning' }).waitFor();
  assert.equal(await frame.locator('#chat').isVisible(), false, 'the chat opens without its control');
  await window.evaluate(() => globalThis.call.removeAttribute('controls'));
  await until(async () => (await shown()).includes('people-button'), 'the controls do not come back');
  for (const id of ['menu-button', 'chat-button', 'hand']) assert.equal((await shown()).includes(id), true, id);
  await until(async () => /^0:0[1-9]$/.test(await frame.locator('#time').innerText()), 'the clock does not run');
  await window.context().close();
}

// Full screen, and another participant's video in a small window.
export async function screens(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'screens' });
  const ada = await openWindow(browser);
  await enter(ada, await linkTo(server, 'screens', 'host'), 'Ada');
  const ben = await openWindow(browser);
  await enter(ben, await linkTo(server, 'screens', 'guest'), 'Ben');
  await until(() => ada.evaluate(() => document.querySelectorAll('.tile.has-picture').length === 2), 'there are not two pictures');
  const choose = async (id) => {
    // Firefox gives the screen to the window in front only.
    await ada.bringToFront();
    await ada.locator('#menu-button').click();
    await ada.locator(`#${id}`).click();
  };
  await choose('full-screen');
  await until(() => ada.evaluate(() => document.fullscreenElement === document.documentElement), 'the call does not fill the screen');
  await choose('full-screen');
  await until(() => ada.evaluate(() => document.fullscreenElement === null), 'the call still fills the screen');
  if (await ada.evaluate(() => document.pictureInPictureEnabled)) {
    // A window that the browser refuses keeps no video.
    await ada.evaluate(() => {
      document.querySelector('#floating-picture').requestPictureInPicture = async function once() {
        delete this.requestPictureInPicture;
        throw new Error('not today');
      };
    });
    await choose('floating');
    await ada.locator('#problem', { hasText: 'not today' }).waitFor();
    assert.equal(await ada.locator('#floating-picture').evaluate(({ srcObject }) => srcObject), null, 'the video is still received');
    await choose('floating');
    await until(() => ada.evaluate(() => document.pictureInPictureElement?.videoWidth > 0), 'there is no small window');
    assert.equal(await ada.locator('.tile:not(.own) video').evaluate((video) => video.srcObject.getVideoTracks()[0] === document.pictureInPictureElement.srcObject.getVideoTracks()[0]), true, 'it shows another picture');
    await choose('floating');
    await until(() => ada.evaluate(() => document.pictureInPictureElement === null), 'the small window stays');
    assert.equal(await ada.locator('.tile.has-picture').count(), 2);
  }
  for (const window of [ada, ben]) await window.context().close();
}
