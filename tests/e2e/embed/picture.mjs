// The screenshot of docs/embedding.md: a lesson in a page of a site, with calm camera images.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { cameras } from '../guide/cameras.mjs';
import { launchChromium, openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { enter, fillIn, frameOf } from './sites.mjs';

const FOLDER = 'docs/embedding';
const SIZE = { width: 1080, height: 700 };

function page(server, code) {
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Algebra</title><script src="${server}/embed.js"></script>
    <style>
      body { margin: 0 auto; padding: 1rem 2rem; background: #faf7f2; color: #2b2233; font: 16px/1.5 system-ui, sans-serif; }
      header { display: flex; align-items: baseline; gap: 1rem; } h1 { margin: 0; font-size: 1.5rem; } p { margin: 0 0 1rem; color: #6d6277; }
      conclave-call { height: 560px; overflow: hidden; border: 1px solid #e3dbea; border-radius: 16px;
        --conclave-accent: #7a3fd0; --conclave-background: #ffffff; }
    </style></head>
    <body><header><h1>Algebra, lesson 4</h1><span>Maple School</span></header><p>Linear equations with Ben Okri, today at 10:00.</p>
    <conclave-call code="${code}" name="Ada Lovelace"></conclave-call></body></html>`;
}

export async function shoot(server, site) {
  mkdirSync(FOLDER, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), 'check-embed-'));
  const browsers = await Promise.all(cameras(folder).map((camera) => launchChromium({ camera })));
  try {
    await server.call('POST', '/v1/rooms', { name: 'algebra-4' });
    const code = async (role) => (await server.call('POST', '/v1/rooms/algebra-4/codes', { role })).code;
    site.pages.set('/lesson', page(server.api, await code('guest')));
    const [ada, ben] = await Promise.all(browsers.map((browser) => openWindow(browser, { size: SIZE, colorScheme: 'light' })));
    await ada.goto(`${site.origin}/lesson`);
    const frame = await frameOf(ada, server.api);
    await until(() => frame.evaluate(() => document.querySelector('#preview').videoWidth > 0 && document.querySelector('#speaker-list').value), 'there is no picture before the call');
    // The name of a fake camera is the path of its file.
    await frame.evaluate(() => { document.querySelector('#camera-list').selectedOptions[0].textContent = 'Built-in camera'; });
    await ada.waitForTimeout(500);
    await ada.screenshot({ path: join(FOLDER, 'lobby.png') });
    await fillIn(frame, 'Ada Lovelace');
    await frame.locator('#call').waitFor();
    await enter(ben, `${server.api}/call#code=${await code('host')}`, 'Ben Okri');
    await ben.locator('#chat-button').click();
    await ben.locator('#send [name=text]').fill('The slides: https://example.org/algebra-4');
    await ben.locator('#send [name=text]').press('Enter');
    await frame.locator('#messages a').waitFor();
    await ben.locator('#hand').click();
    await until(() => frame.evaluate(() => [...document.querySelectorAll('.tile video')].filter((one) => one.videoWidth > 0).length === 2), 'there are not two pictures');
    await ada.waitForTimeout(2_500);
    await ada.screenshot({ path: join(FOLDER, 'call.png') });
  } finally {
    for (const browser of browsers) await browser.close();
    rmSync(folder, { recursive: true });
  }
}
