// How much the page loads, and how soon something is seen.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';

import { openWindow } from '../support/browsers.mjs';
import { linkTo } from './sites.mjs';

const MOST_BYTES = 250_000;
const MOST_MS = 300;
// The fastest of these counts: what else the machine does is not the page's.
const TRIES = 5;

export async function weight(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'weight' });
  const link = await linkTo(server, 'weight', 'guest');
  const [paints, forms] = [[], []];
  const sizes = new Map();
  for (let tries = 0; tries < TRIES; tries += 1) {
    const window = await openWindow(browser);
    const bodies = [];
    window.on('response', (response) => {
      if (response.url().startsWith(server.api)) bodies.push(response.body().then((body) => sizes.set(response.url(), gzipSync(body).length), () => {}));
    });
    await window.goto(link);
    await window.locator('#join .main', { hasText: /\w/ }).waitFor();
    forms.push(await window.evaluate(() => performance.now()));
    paints.push(await window.evaluate(() => new Promise((resolve) => {
      new PerformanceObserver((list) => {
        for (const { name, startTime } of list.getEntries()) if (name === 'first-contentful-paint') resolve(startTime);
      }).observe({ type: 'paint', buffered: true });
    })));
    await Promise.all(bodies);
    await window.context().close();
  }
  const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  console.log(`        ${Math.round(bytes / 1_000)} kB compressed in ${sizes.size} files; first paint after ${Math.round(Math.min(...paints))} ms, the form after ${Math.round(Math.min(...forms))} ms`);
  assert.ok(sizes.size > 40, `only ${sizes.size} files are counted`);
  assert.ok(bytes < MOST_BYTES, `the page loads ${bytes} bytes`);
  assert.ok(Math.min(...paints) < MOST_MS, `the first paint is after ${paints} ms`);
}
