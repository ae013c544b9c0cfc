// The languages of the page: right-to-left scripts, and whether texts have room.
import assert from 'node:assert/strict';

import { AXE, openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { fillIn, linkTo } from './sites.mjs';

const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

const box = (page, selector) => page.locator(selector).first().evaluate((one) => {
  const { left, right } = one.getBoundingClientRect();
  return { left, right, middle: (left + right) / 2 };
});

async function check(page, where, folder) {
  await page.waitForTimeout(150);
  if (folder) await page.screenshot({ path: `${folder}/${where}.png` });
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], where);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth), false, `${where} is too wide`);
}

async function open(server, browser, room, locale, size) {
  const page = await openWindow(browser, { size: SIZES[size], locale });
  await page.context().addInitScript({ path: AXE });
  await page.goto(await linkTo(server, room, 'host'));
  await page.locator('#lobby').waitFor();
  return page;
}

// Everything is mirrored except video.
export async function rightToLeft(server, browser, folder) {
  await server.call('POST', '/v1/rooms', { name: 'from-right' });
  for (const identity of ['carol', 'dora', 'emil']) await server.join('from-right', identity, 'guest', [['audio', 'microphone']]);
  for (const size of Object.keys(SIZES)) {
    const page = await open(server, browser, 'from-right', 'ar-EG', size);
    await page.getByRole('heading', { name: 'الانضمام إلى مكالمة' }).waitFor();
    assert.deepEqual(await page.evaluate(() => [document.documentElement.lang, document.documentElement.dir]), ['ar', 'rtl']);
    await check(page, `lobby-arabic-${size}`, folder);
    await fillIn(page, 'ليلى');
    await page.locator('#call').waitFor();
    await until(async () => await page.locator('.tile').count() === 4, 'there are not four tiles');
    const [tile, label] = [await box(page, '.tile'), await box(page, '.tile .label')];
    assert.ok(Math.abs(tile.right - label.right) < 20, 'a name is not on the right');
    await page.locator('.tile').nth(1).hover();
    await page.locator('.tile').nth(1).locator('.actions button').first().click();
    await page.locator('.tile.large').waitFor();
    await check(page, `large-arabic-${size}`, folder);
    await page.locator('#people-button').click();
    await page.locator('.attendee').nth(3).waitFor();
    if (size === 'wide') assert.ok((await box(page, '#people')).right <= (await box(page, '#stage')).left + 1, 'the panel is not on the left');
    await check(page, `people-arabic-${size}`, folder);
    await page.context().close();
  }
}

// The lobby and the call on a phone, in each language.
export async function all(server, browser, folder) {
  await server.call('POST', '/v1/rooms', { name: 'languages' });
  for (const language of ['de', 'es', 'fr', 'pt', 'sw']) {
    const page = await open(server, browser, 'languages', language, 'phone');
    await until(async () => await page.locator('html').getAttribute('lang') === language, `the page is not in ${language}`);
    assert.equal(await page.locator('html').getAttribute('dir'), 'ltr');
    await check(page, `lobby-${language}`, folder);
    await fillIn(page, 'Ada');
    await page.locator('#call').waitFor();
    await page.locator('#menu-button').click();
    await page.locator('dialog#menu[open]').waitFor();
    await check(page, `menu-${language}`, folder);
    await page.context().close();
  }
}
