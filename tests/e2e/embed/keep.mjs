// The screenshots that docs/embedding keeps, of some of the states that the check goes through.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { openWindow } from '../support/browsers.mjs';

const FOLDER = 'docs/embedding/states';
const KEPT = [
  'lobby-wide-light', 'lobby-phone-dark', 'lobby-arabic-phone', 'recorded-before',
  'call-2-wide-light-english', 'call-2-phone-dark-english', 'call-2-side-light-english',
  'call-5-wide-dark-english', 'call-5-phone-light-arabic',
  'call-9-wide-light-arabic', 'call-9-side-dark-english',
  'call-25-wide-light-english', 'call-25-phone-dark-english', 'call-25-side-light-english',
  'speaker-wide-light', 'chat-phone-dark', 'people-arabic-wide', 'participant-side-light', 'question-wide-light', 'menu-phone-dark', 'settings',
  'shortcuts', 'details', 'blur', 'reconnecting', 'small-280', 'end-wide-light', 'error', 'refused',
];

// Converts PNG to WebP in a browser, which needs no other program.
async function toWebp(page, png) {
  const url = await page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.85);
  }, png.toString('base64'));
  return Buffer.from(url.split(',')[1], 'base64');
}

export async function keep(browser, folder) {
  mkdirSync(FOLDER, { recursive: true });
  const page = await openWindow(browser);
  const missing = KEPT.filter((name) => !existsSync(join(folder, `${name}.png`)));
  for (const name of KEPT) {
    if (!missing.includes(name)) writeFileSync(join(FOLDER, `${name}.webp`), await toWebp(page, readFileSync(join(folder, `${name}.png`))));
  }
  await page.context().close();
  return missing.map((name) => `there is no screenshot ${name}`);
}
