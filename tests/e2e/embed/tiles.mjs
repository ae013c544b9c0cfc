// The tiles of a call: their shapes, and their content before the first frame. The element's height, and calls in very small frames.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { embed, enter, eventOf, frameOf, linkTo, submit } from './sites.mjs';

const LANDSCAPE = 16 / 9;
const PORTRAIT = 3 / 4;

// The boxes of the stage and of its tiles, and the sizes of their videos.
const measure = (page) => page.evaluate(() => {
  const box = (element) => {
    const { left, top, right, bottom, width, height } = element.getBoundingClientRect();
    return { left, top, right, bottom, width, height };
  };
  const tiles = [...document.querySelectorAll('.tile')].map((tile) => {
    const video = tile.querySelector('video');
    return { ...box(tile), picture: video && { width: video.videoWidth, height: video.videoHeight }, name: tile.getAttribute('aria-label') };
  });
  return { stage: box(document.querySelector('#stage')), tiles };
});

const isAbout = (found, expected, most = 0.02) => Math.abs(found / expected - 1) <= most;

function assertInside({ stage, tiles }, where) {
  for (const tile of tiles) {
    const isInside = tile.left >= stage.left - 1 && tile.right <= stage.right + 1 && tile.top >= stage.top - 1 && tile.bottom <= stage.bottom + 1;
    assert.ok(isInside, `${where}: ${tile.name} is outside of the stage`);
  }
}

// Calls of two, three and five, with the chat and without, on the screens that the page is for.
export async function shapes(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'shapes' });
  const window = await openWindow(browser);
  await enter(window, await linkTo(server, 'shapes', 'host'), 'Ada');
  const other = await openWindow(browser);
  await enter(other, await linkTo(server, 'shapes', 'guest'), 'Ben');
  await until(() => window.evaluate(() => document.querySelectorAll('.tile.has-picture').length === 2), 'there are not two pictures');
  await pair(window);
  await server.join('shapes', 'carol', 'guest', [['audio', 'microphone']]);
  await equals(window, 3);
  for (const identity of ['dora', 'emil']) await server.join('shapes', identity, 'guest', [['audio', 'microphone']]);
  await equals(window, 5);
  for (const one of [window, other]) await one.context().close();
}

async function onScreens(window, check) {
  for (const [width, height] of [[1280, 800], [360, 740], [740, 360]]) {
    for (const chat of width > 1_000 ? ['open', 'closed'] : ['closed']) {
      await window.setViewportSize({ width, height });
      await window.evaluate((isOpen) => {
        const button = document.querySelector('#chat-button');
        if ((button.getAttribute('aria-expanded') === 'true') !== isOpen) button.click();
      }, chat === 'open');
      await window.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      const found = await measure(window);
      assertInside(found, `${width} × ${height}`);
      check(found, `${width} × ${height}, chat ${chat}`);
    }
  }
}

// Two participants: the other's video as large as the stage allows, the user's own in the corner, and nothing of either cut off.
async function pair(window) {
  await onScreens(window, ({ stage, tiles }, where) => {
    const [own, other] = tiles;
    for (const tile of tiles) assert.ok(isAbout(tile.width / tile.height, LANDSCAPE), `${where}: a tile of ${tile.width} × ${tile.height}`);
    assert.ok(isAbout(other.width, Math.min(stage.width, stage.height * LANDSCAPE)), `${where}: the other is ${other.width} wide in ${stage.width} × ${stage.height}`);
    assert.ok(own.width < 0.4 * other.width, `${where}: the own picture is ${own.width} wide`);
  });
}

// Tiles of the same size, and a last row in the middle.
async function equals(window, count) {
  await until(() => window.evaluate((wanted) => document.querySelectorAll('.tile').length === wanted, count), `there are not ${count} tiles`);
  await onScreens(window, ({ stage, tiles }, where) => {
    const last = tiles.filter(({ top }) => Math.abs(top - tiles.at(-1).top) < 2);
    const [left, right] = [last[0].left - stage.left, stage.right - last.at(-1).right];
    assert.ok(Math.abs(left - right) <= 2, `${where}: the last row of ${count} has ${left} before it and ${right} behind it`);
    for (const tile of tiles) {
      assert.ok(isAbout(tile.width / tile.height, LANDSCAPE), `${where}: one of ${count} has ${tile.width} × ${tile.height}`);
      assert.ok(isAbout(tile.width, tiles[0].width), `${where}: ${count} tiles have different sizes`);
    }
  });
}

// A camera in portrait orientation has an upright tile. Every third of its video in height is visible.
export async function portrait(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'portrait' });
  const window = await openWindow(browser);
  await enter(window, await linkTo(server, 'portrait', 'host'), 'Ada');
  const phone = await openWindow(browser, { size: { width: 360, height: 740 } });
  await phone.addInitScript(() => {
    const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (wanted) => {
      if (!wanted.video) return real(wanted);
      const canvas = Object.assign(document.createElement('canvas'), { width: 480, height: 640 });
      setInterval(() => canvas.getContext('2d').fillRect(Math.random() * 480, 0, 9, 640), 50);
      const stream = canvas.captureStream(20);
      if (wanted.audio) for (const track of (await real({ audio: wanted.audio })).getTracks()) stream.addTrack(track);
      return stream;
    };
  });
  await enter(phone, await linkTo(server, 'portrait', 'guest'), 'Ben');
  await until(async () => (await measure(window)).tiles[1]?.picture?.height > 0, 'there is no upright picture');
  await until(async () => {
    const { tiles } = await measure(window);
    return isAbout(tiles[1].width / tiles[1].height, PORTRAIT);
  }, 'the tile of an upright camera is not upright');
  const { tiles: [own, other] } = await measure(window);
  assert.ok(isAbout(other.picture.width / other.picture.height, PORTRAIT, 0.05), `${other.picture.width} × ${other.picture.height}`);
  assert.ok(isAbout(own.width / own.height, LANDSCAPE), `${own.width} × ${own.height}`);
  for (const one of [window, phone]) await one.context().close();
}

// Initials until the first frame, and no black area.
export async function firstFrame(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'first-frame' });
  const window = await openWindow(browser);
  await window.addInitScript(() => {
    globalThis.seen = [];
    const note = (video) => {
      const initials = video.closest('.tile').querySelector('.initials');
      globalThis.seen.push({ width: video.videoWidth, opacity: getComputedStyle(video).opacity, initials: getComputedStyle(initials).visibility, text: initials.textContent });
    };
    new MutationObserver((changes) => {
      for (const { addedNodes } of changes) for (const node of addedNodes) if (node.matches?.('.tile video')) note(node);
    }).observe(document, { childList: true, subtree: true });
  });
  await enter(window, await linkTo(server, 'first-frame', 'host'), 'Ada Lovelace');
  const tile = window.locator('.tile.own.has-picture');
  await tile.waitFor();
  const [first] = await window.evaluate(() => globalThis.seen);
  assert.deepEqual(first, { width: 0, opacity: '0', initials: 'visible', text: 'AL' });
  assert.deepEqual(await tile.evaluate((one) => ['video', '.initials'].map((name) => {
    const { opacity, visibility } = getComputedStyle(one.querySelector(name));
    return [opacity, visibility];
  })), [['1', 'visible'], ['1', 'hidden']]);
  await window.locator('#camera').click();
  await until(() => window.evaluate(() => !document.querySelector('.tile.own').classList.contains('has-picture')), 'the picture stays after the camera');
  await window.context().close();
}

// Any height that the page sets is the one of the element and of the frame in it.
export async function heights(server, site, browser) {
  const window = await openWindow(browser);
  await window.addInitScript(() => {
    const { attachShadow } = Element.prototype;
    Element.prototype.attachShadow = function open(options) { return attachShadow.call(this, { ...options, mode: 'open' }); };
  });
  await window.goto(`${site.origin}/`);
  for (const [style, height] of [
    ['', 480], ['height: 220px', 220], ['height: 900px', 900], ['max-height: 200px', 200], ['min-height: 600px', 600],
    ['width: 640px; aspect-ratio: 16 / 9', 360], ['position: fixed; inset: 100px 0 auto; height: 50vh', 400],
  ]) {
    await embed(window, { code: 'aaaa-bbbb-cccc' });
    const found = await window.evaluate((given) => {
      globalThis.call.setAttribute('style', given);
      const frame = globalThis.call.shadowRoot.querySelector('iframe');
      return [globalThis.call.getBoundingClientRect().height, frame.getBoundingClientRect().height];
    }, style);
    assert.deepEqual(found, [height, height], `“${style}”`);
  }
  const flexed = await window.evaluate(() => {
    const parent = Object.assign(document.createElement('div'), { style: 'display: flex; flex-direction: column; width: 300px; height: 240px' });
    globalThis.call.setAttribute('style', 'flex: 1');
    parent.append(Object.assign(document.createElement('h2'), { textContent: 'Lesson', style: 'height: 40px; margin: 0' }), globalThis.call);
    document.body.append(parent);
    return globalThis.call.getBoundingClientRect().height;
  });
  assert.equal(flexed, 200, 'in a flex container');
  await window.context().close();
}

// In small frames, and on phones on their side, a video and the buttons are in sight, including the leave button.
export async function small(server, site, browser, folder) {
  await server.call('POST', '/v1/rooms', { name: 'small' });
  await server.join('small', 'carol', 'guest', [['audio', 'microphone']]);
  const { code } = await server.call('POST', '/v1/rooms/small/codes', { role: 'guest' });
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  await embed(window, { code, name: 'Ada' }, 'position: fixed; inset: 0 auto auto 0; width: 280px; height: 180px');
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
  const join = await frame.locator('#join .main').boundingBox();
  assert.ok(join.y + join.height <= 180, 'the button that joins is below the frame');
  await submit(frame);
  await eventOf(window, 'joined');
  for (const [width, height] of [[280, 180], [320, 240], [740, 360], [667, 320], [360, 640]]) {
    await window.evaluate((style) => globalThis.call.setAttribute('style', style), `position: fixed; inset: 0 auto auto 0; width: ${width}px; height: ${height}px`);
    await until(() => frame.evaluate((wanted) => innerHeight === wanted, height), 'the frame has another height');
    await frame.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    if (folder) await window.screenshot({ path: `${folder}/small-${width}.png`, clip: { x: 0, y: 0, width, height } });
    for (const id of ['leave', 'microphone', 'camera']) {
      // Whether a click in the middle of the button reaches it.
      const isReached = await frame.evaluate((wanted) => {
        const { left, top, width: wide, height: high } = document.getElementById(wanted).getBoundingClientRect();
        return document.elementFromPoint(left + wide / 2, top + high / 2)?.closest('button')?.id === wanted && left >= 0 && top >= 0 && left + wide <= innerWidth && top + high <= innerHeight;
      }, id);
      assert.ok(isReached, `the button ${id} is not in sight at ${width} × ${height}`);
    }
    const { stage, tiles } = await measure(frame);
    assert.ok(stage.height >= 0.5 * height, `the stage is ${stage.height} high at ${width} × ${height}`);
    assert.equal(tiles.length, 2);
  }
  // Playwright's clicks do not reach frames of other origins in Firefox.
  await frame.locator('#leave').evaluate((button) => button.click());
  await eventOf(window, 'left');
  await window.context().close();
}
