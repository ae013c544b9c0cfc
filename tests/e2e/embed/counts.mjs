// Calls of 2, 5, 9 and 25 participants on the screens of computers and phones, light and dark, from left to right and from right to left.
import assert from 'node:assert/strict';

import { AXE, openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { Publishers, cameraOf } from './publishers.mjs';
import { enter, linkTo } from './sites.mjs';

const SCREENS = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 }, side: { width: 844, height: 390 } };
const SCHEMES = ['light', 'dark'];
const NAMES = [
  'Ben Okri', 'Chidi Anagonye', 'Dora Maar', 'Emil Nolde', 'François-Noël Müller', '李雷', 'Grace Hopper', 'Hana Kimura', 'Ibrahim Diallo', 'Julia Gonçalves',
  'Katherine Johnson', 'Linus Sjöberg', 'María José Rodríguez de la Fuente', 'Noor Inayat Khan', 'Olu Adeyemi', 'Priya Natarajan', 'Quentin Blake', 'Rosa Parks',
  'Søren Aabye', 'Tove Jansson', 'Uma Thapa', 'Victor Ionescu', 'Wanjiru Kamau',
];
// So many of them have a camera: more would take the time of the check's machine.
const CAMERAS = 5;

// Returns the current problems of the page: from axe, and from the positions of tiles and buttons.
async function problemsOf(page) {
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  const found = violations.map(({ id, nodes }) => `axe ${id}: ${nodes[0].html}`);
  return [...found, ...await page.evaluate(() => {
    const problems = [];
    const box = (one) => one.getBoundingClientRect();
    const isIn = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
    const meet = (one, other) => one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1;
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) problems.push(`the page is ${scrollWidth - clientWidth} pixels too wide`);
    const stage = box(document.querySelector('#stage'));
    const tiles = [...document.querySelectorAll('.tile')];
    for (const tile of tiles) {
      if (!isIn(box(tile), stage)) problems.push(`${tile.ariaLabel} is outside of the stage`);
      const [label, initials] = ['.label', '.initials'].map((name) => tile.querySelector(name));
      if (initials.checkVisibility({ visibilityProperty: true }) && meet(box(label), box(initials))) problems.push(`the name covers the initials of ${tile.ariaLabel}`);
      for (const part of [label, initials]) {
        if (part.checkVisibility() && !isIn(box(part), box(tile))) problems.push(`${part.className} of ${tile.ariaLabel} is cut off`);
      }
    }
    const inRows = tiles.filter((tile) => !tile.matches('.in-corner'));
    inRows.forEach((one, index) => inRows.slice(index + 1).forEach((other) => {
      if (meet(box(one), box(other))) problems.push(`${one.ariaLabel} covers ${other.ariaLabel}`);
    }));
    const screen = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    for (const id of ['microphone', 'camera', 'leave']) {
      if (!isIn(box(document.getElementById(id)), screen)) problems.push(`the button ${id} is not in sight`);
    }
    return problems;
  })];
}

// Two windows are two of the participants: one in English, one in Arabic.
export async function counts(server, browser, folder) {
  await server.call('POST', '/v1/rooms', { name: 'counts', metadata: { title: 'Algebra, lesson 4' } });
  const windows = {};
  for (const [language, locale, name] of [['english', 'en-US', 'Ada Lovelace'], ['arabic', 'ar-EG', 'ليلى العلمي']]) {
    windows[language] = await openWindow(browser, { locale });
    await windows[language].context().addInitScript({ path: AXE });
    await windows[language].addInitScript(cameraOf(name));
    await enter(windows[language], await linkTo(server, 'counts', 'host'), name);
  }
  const problems = [];
  const publishers = [];
  let others = 0;
  for (const count of [2, 5, 9, 25]) {
    const added = NAMES.slice(others, count - 2);
    const withCamera = added.slice(0, Math.max(0, CAMERAS - others));
    if (withCamera.length > 0) publishers.push(await Publishers.join(server, browser, 'counts', withCamera, { width: 320, height: 180 }));
    for (const [index, name] of added.slice(withCamera.length).entries()) {
      const { token } = await server.call('POST', '/v1/tokens', { room: 'counts', identity: `seat-${others + index}`, name, role: 'guest' });
      const { sid } = await server.sandbox('/sandbox/join', { token });
      await server.sandbox(`/sandbox/participants/${sid}/tracks`, { kind: 'audio', source: 'microphone' });
    }
    others = count - 2;
    for (const [language, page] of Object.entries(windows)) {
      await until(async () => await page.locator('#people-total').getAttribute('data-count') === String(count), `there are not ${count} participants`);
      for (const [screen, size] of Object.entries(SCREENS)) {
        await page.setViewportSize(size);
        const pictures = Math.min(count, CAMERAS + 2, await page.locator('.tile').count());
        await until(async () => await page.locator('.tile.has-picture').count() >= pictures, `not ${pictures} pictures of ${count}`);
        for (const colorScheme of SCHEMES) {
          await page.emulateMedia({ colorScheme });
          // Buttons change their colors in a moment, and who joined is announced.
          await page.evaluate(() => { 
            document.querySelector('#notice').replaceChildren();
            document.activeElement.blur();
          });
          await page.waitForTimeout(200);
          if (folder) await page.screenshot({ path: `${folder}/call-${count}-${screen}-${colorScheme}-${language}.png` });
          problems.push(...(await problemsOf(page)).map((problem) => `${count} ${screen} ${colorScheme} ${language}: ${problem}`));
        }
      }
    }
  }
  for (const one of publishers) await one.leave();
  for (const page of Object.values(windows)) await page.context().close();
  return problems;
}
