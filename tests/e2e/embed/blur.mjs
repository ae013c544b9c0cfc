// Background blur, with the library that scripts/effects writes: off by default, loaded only when it is chosen, kept for the next call.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { openWindow } from '../support/browsers.mjs';
import { Conclave, until } from '../support/server.mjs';
import { enter, linkTo } from './sites.mjs';

// A small image of stripes: browsers without a graphics processor take long for each frame.
const STRIPES = () => {
  const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    if (!wanted.video) return real(wanted);
    const canvas = Object.assign(document.createElement('canvas'), { width: 320, height: 180 });
    const context = canvas.getContext('2d');
    setInterval(() => {
      for (let x = 0; x < 320; x += 8) {
        context.fillStyle = (x / 8) % 2 ? '#fff' : '#246';
        context.fillRect(x, 0, 8, 180);
      }
    }, 200);
    const stream = canvas.captureStream(5);
    if (wanted.audio) for (const track of (await real({ audio: wanted.audio })).getTracks()) stream.addTrack(track);
    return stream;
  };
};

// Measures how much adjacent pixels of the user's own video differ.
const sharpness = (page) => page.locator('.tile.own video').evaluate((video) => {
  const [width, height] = [320, 180];
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  const context = canvas.getContext('2d');
  context.drawImage(video, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  let sum = 0;
  for (let at = 4; at < data.length; at += 4) sum += Math.abs(data[at] - data[at - 4]);
  return sum / (width * height);
});

async function turn(page, isOn) {
  await page.locator('#menu-button').click();
  await page.locator('#settings-button').click();
  // Not `setChecked`, which looks afterwards: a failure resets the box at once.
  if (await page.locator('#blur').isChecked() !== isOn) await page.locator('#blur').click();
  await page.locator('#blur:enabled').waitFor();
}

const close = (page) => page.locator('#settings [data-close]').click();

export async function blur(browser, folder) {
  const effects = join(dirname(process.env.TOOLS), '..', 'check-embed', 'effects');
  if (!existsSync(join(effects, 'selfie_segmenter.tflite'))) execFileSync('scripts/effects', [effects], { stdio: 'inherit' });
  const server = await Conclave.start({ CONCLAVE_HTTP__CALL_EFFECTS: effects });
  try {
    await server.call('POST', '/v1/rooms', { name: 'blur' });
    const complaints = [];
    const page = await openWindow(browser, { size: { width: 900, height: 700 } });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.addInitScript(STRIPES);
    const loaded = [];
    page.on('request', (request) => { if (request.url().includes('/effects/')) loaded.push(request.url().split('/').at(-1)); });
    const link = await linkTo(server, 'blur', 'guest');
    await enter(page, link, 'Ada');
    await page.locator('.tile.own.has-picture').waitFor();
    const sharp = await sharpness(page);
    assert.deepEqual(loaded, [], 'the library is loaded before it is chosen');
    await turn(page, true);
    assert.equal(await page.locator('#blur').isChecked(), true, await page.locator('#problem').innerText());
    await until(async () => await sharpness(page) < sharp * 0.6, 'the picture is not blurred');
    if (folder) await page.screenshot({ path: `${folder}/blur.png` });
    await close(page);
    for (const name of ['track-processors.js', 'vision_wasm_internal.wasm', 'selfie_segmenter.tflite']) assert.ok(loaded.includes(name), `${name} is not loaded`);
    // In the next call no frame is sent without blur.
    await page.locator('#leave').click();
    await page.locator('#rejoin').click();
    await page.locator('.tile.own.has-picture').waitFor();
    assert.ok(await sharpness(page) < sharp * 0.6, 'the next call begins without blur');
    await turn(page, false);
    await until(async () => await sharpness(page) > sharp * 0.8, 'the picture stays blurred');
    await close(page);
    await failing(page);
    assert.deepEqual(complaints, []);
    await page.context().close();
  } finally {
    await server.stop();
  }
}

// If the library cannot be loaded, the page shows the problem. A camera with blur stays off, and a camera that is already on stays as it
// is.
async function failing(page) {
  await page.route('**/call/effects/*', (route) => route.abort());
  await page.reload();
  await page.locator('#join .main', { hasText: 'Join' }).waitFor();
  await page.locator('#join .main').click();
  await page.locator('.tile.own.has-picture').waitFor();
  await turn(page, true);
  await page.locator('#problem', { hasText: 'cannot be blurred' }).waitFor();
  assert.equal(await page.locator('#blur').isChecked(), false);
  assert.equal(await page.locator('.tile.own.has-picture').count(), 1);
  await page.evaluate(() => localStorage.setItem('conclave-call', JSON.stringify({ ...JSON.parse(localStorage.getItem('conclave-call')), blur: true })));
  await page.reload();
  await page.locator('#join .main', { hasText: 'Join' }).waitFor();
  await page.locator('#join .main').click();
  await page.locator('#problem', { hasText: 'cannot be blurred' }).waitFor();
  assert.equal(await page.locator('#camera').getAttribute('aria-pressed'), 'false');
}
