// The panel of participants: names and roles, hands in the order of raising, and a role's actions on others.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { enter, linkTo } from './sites.mjs';

// The rows of the panel, in order: name, role, whether the hand is raised, and whether the microphone is on.
const listed = (page) => page.evaluate(() => [...document.querySelectorAll('.attendee')].map((row) => [
  row.querySelector('.name').textContent, row.querySelector('.role').textContent,
  !row.querySelector('.hand').hidden, !row.querySelector('.muted'),
]));
const names = async (page) => (await listed(page)).map(([name]) => name);

export async function open(page) {
  await page.locator('#people-button').click();
  await page.locator('#people').waitFor();
}

export async function become(page, expected) {
  const found = async () => JSON.stringify(await names(page));
  await until(async () => await found() === JSON.stringify(expected), `not ${expected}`).catch(async ({ message }) => assert.fail(`${message}, but ${await found()}`));
}

export async function panel(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'people', metadata: { title: 'Algebra' } });
  const [ada, ben, cleo] = await Promise.all(['host', 'guest', 'guest'].map(async (role, index) => {
    const window = await openWindow(browser);
    await enter(window, await linkTo(server, 'people', role), ['Ada', 'Ben', 'Cléo'][index]);
    return window;
  }));
  for (const identity of ['emil', 'dora']) await server.join('people', identity, 'guest', [['audio', 'microphone']]);
  await open(ada);
  await become(ada, ['Ada (you)', 'Ben', 'Cléo', 'Dora Adeyemi', 'Emil Adeyemi']);
  assert.equal(await ada.locator('#people-count').innerText(), '5');
  assert.deepEqual((await listed(ada)).map(([, role]) => role), ['host', 'guest', 'guest', 'guest', 'guest']);
  assert.equal(await ada.locator('.tile .role').count(), 0, 'tiles show roles');
  await hands(server, browser, { ada, ben, cleo });
  await search(ada);
  await moderation(server, { ada, ben });
  await interrupted(server, ada);
  for (const window of [ada, ben, cleo]) await window.context().close();
}

// Hands are listed in the order of raising, also for participants who join later.
async function hands(server, browser, { ada, ben, cleo }) {
  await cleo.locator('#hand').click();
  await become(ada, ['Cléo', 'Ada (you)', 'Ben', 'Dora Adeyemi', 'Emil Adeyemi']);
  await ben.locator('#hand').click();
  await become(ada, ['Cléo', 'Ben', 'Ada (you)', 'Dora Adeyemi', 'Emil Adeyemi']);
  const late = await openWindow(browser);
  await enter(late, await linkTo(server, 'people', 'guest'), 'Zoe');
  await open(late);
  await become(late, ['Cléo', 'Ben', 'Zoe (you)', 'Ada', 'Dora Adeyemi', 'Emil Adeyemi']);
  await late.context().close();
  await cleo.locator('#hand').click();
  await become(ada, ['Ben', 'Ada (you)', 'Cléo', 'Dora Adeyemi', 'Emil Adeyemi']);
  await ben.locator('#hand').click();
  await become(ada, ['Ada (you)', 'Ben', 'Cléo', 'Dora Adeyemi', 'Emil Adeyemi']);
}

// Without accents and in any case, by name and by role.
async function search(ada) {
  for (const [wanted, found] of [['CLEO', ['Cléo']], ['host', ['Ada (you)']], ['nobody like this', []], ['', ['Ada (you)', 'Ben', 'Cléo', 'Dora Adeyemi', 'Emil Adeyemi']]]) {
    await ada.locator('#people-search').fill(wanted);
    await become(ada, found);
    assert.equal(await ada.locator('#people-none').isVisible(), found.length === 0);
  }
}

// A request for the permissions that fails takes nothing away.
async function interrupted(server, ada) {
  await ada.route('**/call/role', (route) => route.fulfill({ status: 503, contentType: 'application/json', body: '{}' }));
  const { participants } = await server.call('GET', '/v1/rooms/people/participants');
  const { identity } = participants.find(({ name }) => name === 'Ada');
  const response = ada.waitForResponse('**/call/role');
  await server.call('POST', `/v1/rooms/people/participants/${identity}/role`, { role: 'guest' });
  await (await response).finished();
  await ada.locator('#notice p', { hasText: 'Your role is now: guest' }).waitFor();
  await ada.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 200); }));
  assert.equal(await ada.locator('#room-name').innerText(), 'Algebra');
}

async function moderation(server, { ada, ben }) {
  const muted = async () => {
    const { participants } = await server.call('GET', '/v1/rooms/people/participants');
    return participants.filter(({ tracks }) => tracks.some(({ source, muted: isMuted }) => source === 'microphone' && isMuted)).map(({ name }) => name).sort();
  };
  assert.deepEqual(await muted(), []);
  const dora = ada.locator('.attendee', { hasText: 'Dora' });
  // By keyboard: the button loses the focus when it can no longer be pressed.
  await dora.locator('button').first().evaluate((button) => { button.focus(); button.click(); });
  await until(async () => (await muted()).join() === 'Dora Adeyemi', 'one microphone is not muted');
  await until(() => dora.locator('.muted').isVisible(), 'the panel does not show it');
  assert.equal(await dora.locator('button').last().evaluate((button) => button === document.activeElement), true, 'the focus is lost');
  await ada.locator('#mute-all').click();
  await ada.locator('#question-actions button').first().click();
  await until(async () => (await muted()).join() === 'Ben,Cléo,Dora Adeyemi,Emil Adeyemi', 'not all others are muted');
  await ben.locator('#microphone[aria-pressed="false"]').waitFor();
  await ada.locator('#mute-all:disabled').waitFor();
  await ada.locator('.attendee', { hasText: 'Emil' }).locator('button').last().click();
  await ada.locator('dialog#participant[open] #remove').click();
  await ada.locator('#question-actions button').first().click();
  await become(ada, ['Ada (you)', 'Ben', 'Cléo', 'Dora Adeyemi']);
  // A guest sees the same, and is offered nothing of it.
  await open(ben);
  await become(ben, ['Ben (you)', 'Ada', 'Cléo', 'Dora Adeyemi']);
  assert.equal(await ben.locator('#mute-all').isVisible(), false);
  assert.equal(await ben.locator('.attendee button:enabled:visible').count(), 0);
}
