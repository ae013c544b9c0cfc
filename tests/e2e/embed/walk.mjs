// The call page itself: by keyboard alone, on several screens, and with axe-core in each of its states.
import assert from 'node:assert/strict';

import { Keyboard } from '../console/keyboard.mjs';
import { AXE, openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';

// Computers and phones, upright and on their side.
export const SCREENS = [
  { name: 'phone-dark', size: { width: 390, height: 844 }, colorScheme: 'dark' },
  { name: 'wide-light', size: { width: 1280, height: 800 }, colorScheme: 'light' },
  { name: 'side-light', size: { width: 844, height: 390 }, colorScheme: 'light' },
  { name: 'narrow-dark', size: { width: 320, height: 640 }, colorScheme: 'dark' },
];

// A window at the page, with axe-core in it.
async function openPage(browser, url, screen, complaints) {
  const page = await openWindow(browser, { complaints, ...screen });
  await page.context().addInitScript({ path: AXE });
  await page.goto(url);
  await page.locator('#lobby').waitFor();
  return page;
}

export class Walk {
  constructor(server, browser, screen) {
    Object.assign(this, { server, browser, screen, problems: [], complaints: [], room: `walk-${screen.name}` });
  }

  async link(role) {
    const { code } = await this.server.call('POST', `/v1/rooms/${this.room}/codes`, { role });
    return `${this.server.api}/call#code=${code}`;
  }

  // Checks the page with axe-core, and that everything fits on the screen.
  async check(where) {
    await this.page.waitForTimeout(150);
    const { page, screen } = this;
    const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
    for (const { id, help, nodes } of violations) {
      this.problems.push(`${where} (${screen.name}): axe ${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html).join(' ')}`);
    }
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wider > 0) this.problems.push(`${where} (${screen.name}) is ${wider} pixels too wide`);
    if (this.folder) await page.screenshot({ path: `${this.folder}/${where}-${screen.name}.png` });
  }

  async run() {
    await this.server.call('POST', '/v1/rooms', { name: this.room });
    await this.lobby();
    await this.call();
    await this.moderate();
    await this.end();
    await this.page.context().close();
    return [...this.problems, ...this.complaints];
  }

  async lobby() {
    this.page = await openPage(this.browser, await this.link('host'), this.screen, this.complaints);
    const { page } = this;
    this.keyboard = new Keyboard(page);
    await until(() => page.evaluate(() => document.querySelector('#preview').videoWidth > 0), 'there is no picture before the call');
    await until(() => page.evaluate(() => document.querySelector('#level').value > 0), 'there is no level of the microphone');
    assert.equal(await page.locator('#microphone-list option').count() > 0, true, 'no microphone is listed');
    await this.keyboard.toggle('#camera-before');
    await page.getByText('The camera is off').waitFor();
    await this.check('lobby');
    await this.keyboard.toggle('#camera-before');
    for (const [language, title] of [['Fran', 'Rejoindre un appel'], ['Kiswahili', 'Jiunge na simu'], ['English', 'Join a call']]) {
      await this.keyboard.choose('#language', language);
      await page.getByRole('heading', { name: title }).waitFor();
      // Until then, a list appends typed characters to the earlier ones.
      await page.waitForTimeout(1_100);
    }
    await this.keyboard.type('[name=name]', 'Ada Lovelace');
    await page.keyboard.press('Enter');
    await page.locator('#call').waitFor();
    assert.equal(await page.evaluate(() => JSON.parse(localStorage.getItem('conclave-call')).name), 'Ada Lovelace');
  }

  // An earlier participant raises a hand, and a later participant sees it.
  async call() {
    const { page, keyboard, server } = this;
    await keyboard.toggle('#hand');
    this.late = await openPage(this.browser, await this.link('guest'), SCREENS[1]);
    await this.late.locator('[name=name]').fill('Ben Okri');
    await this.late.locator('[name=name]').press('Enter');
    await this.late.locator('.tile[aria-label*="hand raised"]').waitFor();
    this.sid = await server.join(this.room, 'carol', 'guest', [['audio', 'microphone']]);
    await until(() => page.evaluate(() => document.querySelectorAll('.tile').length === 3), 'there are not three tiles');
    await until(() => page.evaluate(() => [...document.querySelectorAll('.tile video')].filter((one) => one.videoWidth > 0).length === 2), 'there are not two pictures');
    await this.check('grid');
    await keyboard.press('#layout');
    await page.locator('#stage.has-large').waitFor();
    await keyboard.press('.tile:nth-child(3) .actions button');
    await page.locator('.tile.large[aria-label^="Carol"]').waitFor();
    await this.check('speaker');
    await this.chat();
  }

  async chat() {
    const { page, keyboard } = this;
    if (await page.locator('#chat').isHidden()) await keyboard.press('#chat-button');
    await this.late.locator('#chat-button').click();
    await this.late.locator('#send [name=text]').fill('The plan is at https://example.org/plan.');
    await this.late.locator('#send [name=text]').press('Enter');
    await page.locator('#messages a[href="https://example.org/plan"]').waitFor();
    await keyboard.type('#send [name=text]', 'Thanks');
    await page.keyboard.press('Enter');
    await this.late.locator('#messages', { hasText: 'Thanks' }).waitFor();
    await this.check('chat');
    await keyboard.press('#chat-close');
  }

  async moderate() {
    const { page, keyboard, server } = this;
    await keyboard.press('.tile:nth-child(3) .actions button:nth-child(2)');
    await page.locator('dialog#participant[open]').waitFor();
    await this.check('participant');
    await page.keyboard.press('Escape');
    await page.locator('dialog#participant[open]').waitFor({ state: 'detached' });
    const participant = () => server.call('GET', `/v1/rooms/${this.room}/participants/carol`);
    await keyboard.press('.tile:nth-child(3) .actions button:nth-child(2)');
    await keyboard.press('#participant-tracks button');
    await until(async () => (await participant()).tracks[0].muted, 'the microphone is not muted');
    await page.locator('.tile[aria-label="Carol Adeyemi, muted"]').waitFor();
    await keyboard.press('.tile:nth-child(3) .actions button:nth-child(2)');
    await keyboard.choose('#new-role', 'host');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await until(async () => (await participant()).attributes['svc.role'] === 'host', 'the role is not changed');
    await keyboard.press('.tile:nth-child(3) .actions button:nth-child(2)');
    await keyboard.press('#remove');
    await page.locator('dialog#question[open]').waitFor();
    await this.check('question');
    await keyboard.press('#question-actions button');
    await until(() => page.evaluate(() => document.querySelectorAll('.tile').length === 2), 'the participant is not removed');
    // A guest is offered nothing of it.
    assert.equal(await this.late.locator('.actions button[aria-label^="Moderate"]:visible').count(), 0);
  }

  async end() {
    const { page, keyboard } = this;
    await keyboard.press('#menu-button');
    await page.locator('dialog#menu[open]').waitFor();
    await this.check('menu');
    await keyboard.press('#settings-button');
    await page.locator('dialog#settings[open]').waitFor();
    await this.check('settings');
    await page.keyboard.press('Escape');
    await keyboard.toggle('#microphone');
    await this.late.locator('.tile[aria-label*="Ada Lovelace, muted"]').waitFor();
    await keyboard.press('#leave');
    await keyboard.press('#question-actions .dangerous');
    for (const one of [page, this.late]) await one.getByText('The call has ended.').waitFor();
    await this.check('end');
    await this.late.context().close();
  }
}

// The browser refuses the devices: the page shows advice, and joins without them.
export async function withoutDevices(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'without-devices' });
  const { code } = await server.call('POST', '/v1/rooms/without-devices/codes', { role: 'guest' });
  const complaints = [];
  const page = await openPage(browser, `${server.api}/call#code=${code}`, SCREENS[0], complaints);
  const problem = page.locator('#device-problem');
  await until(async () => (await problem.innerText()).includes('does not allow the camera and the microphone'), 'nothing is said of the devices');
  // Once, for both.
  assert.equal((await problem.innerText()).match(/does not allow/g).length, 1);
  assert.equal((await page.locator('body').innerText()).match(/does not allow/g).length, 1);
  await page.locator('[name=name]').fill('Ada');
  await page.locator('[name=name]').press('Enter');
  await page.locator('.tile[aria-label="Ada (you), muted"]').waitFor();
  await page.locator('#microphone').click();
  await page.locator('#problem', { hasText: 'does not allow the microphone' }).waitFor();
  // The next call tries them again.
  assert.deepEqual(await page.evaluate(() => { const { microphone, camera } = JSON.parse(localStorage.getItem('conclave-call')); return [microphone, camera]; }), [undefined, undefined]);
  await page.context().close();
  assert.deepEqual(complaints, []);
}
