// The chat, short messages above the tiles, and reactions.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { enter, linkTo } from './sites.mjs';

const PHONE = { size: { width: 390, height: 844 } };

async function write(page, text) {
  if (await page.locator('#chat').isHidden()) await page.locator('#chat-button').click();
  await page.locator('#send [name=text]').fill(text);
  await page.locator('#send [name=text]').press('Enter');
  await page.locator('#messages p', { hasText: text }).waitFor();
}

const messages = (page) => page.evaluate(() => [...document.querySelectorAll('#messages li')].map((item) => [
  item.querySelector('.from')?.textContent ?? '', item.querySelector('p').textContent,
]));

export async function chat(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'chat' });
  const ada = await openWindow(browser);
  await enter(ada, await linkTo(server, 'chat', 'host'), 'Ada');
  const ben = await openWindow(browser);
  await enter(ben, await linkTo(server, 'chat', 'guest'), 'Ben');
  const phone = await openWindow(browser, PHONE);
  await enter(phone, await linkTo(server, 'chat', 'guest'), 'أحمد');
  await ada.locator('#notice p', { hasText: 'Ben has joined.' }).waitFor();
  const direction = ada.locator('#notice p', { hasText: 'أحمد has joined.' }).evaluate((shown) => getComputedStyle(shown).direction);
  assert.equal(await direction, 'ltr', 'an English sentence is written from right to left');
  for (const window of [ada, ben, phone]) assert.equal(await window.locator('#chat').isVisible(), false, 'the chat is open before anybody writes');
  await write(ben, 'Good morning');
  await write(ben, 'Shall we begin?');
  // On a wide screen it opens; on a phone it would cover the video.
  await ada.locator('#chat').waitFor();
  await ada.locator('#messages p', { hasText: 'Shall we begin?' }).waitFor();
  assert.deepEqual(await messages(ada), [['Ben', 'Good morning'], ['', 'Shall we begin?']]);
  assert.match(await ada.locator('#messages time').innerText(), /^\d{1,2}:\d\d/);
  assert.ok(Math.abs(Date.now() - Date.parse(await ada.locator('#messages time').getAttribute('datetime'))) < 60_000);
  assert.equal(await phone.locator('#chat').isVisible(), false, 'the chat covers a phone');
  await until(async () => await phone.locator('#unread').getAttribute('data-count') === '2', 'a phone counts no messages');
  await phone.locator('#notice p', { hasText: 'Ben: Shall we begin?' }).waitFor();
  await unread(ada, ben, phone);
  await directions(phone, ada);
  await twice(ben, ada);
  await leaving(ada, phone);
  await reactions(ada, ben);
  for (const window of [ada, ben]) await window.context().close();
}

// Once it has been closed, it stays so, and the button counts.
async function unread(ada, ben, phone) {
  await write(ada, 'Yes');
  await ada.locator('#chat-close').click();
  await write(ben, 'The slides are ready');
  await until(async () => await ada.locator('#unread').getAttribute('data-count') === '1', 'the message is not counted');
  assert.equal(await ada.locator('#chat').isVisible(), false, 'the chat opens again');
  await ada.locator('#notice p', { hasText: 'Ben: The slides are ready' }).waitFor();
  await ada.locator('#people-button').click();
  await ada.locator('#chat-button').click();
  assert.equal(await ada.locator('#people').isVisible(), false, 'two panels are open');
  assert.equal(await ada.locator('#unread').getAttribute('data-count'), '');
  assert.deepEqual((await messages(ada)).slice(2), [['you', 'Yes'], ['Ben', 'The slides are ready']]);
  await phone.locator('#chat-button').click();
  await until(async () => await phone.locator('#unread').getAttribute('data-count') === '', 'the count stays');
}

// A text that is written from right to left is shown so, whatever the language of the page.
async function directions(phone, ada) {
  await write(phone, 'مرحبا بكم 123');
  await ada.locator('#messages p', { hasText: 'مرحبا' }).waitFor();
  const found = await ada.evaluate(() => ['#messages li:last-child p', '#messages li:last-child .from', '#messages li:first-child p']
    .map((selector) => getComputedStyle(document.querySelector(selector)).direction));
  assert.deepEqual(found, ['rtl', 'rtl', 'ltr']);
}

// A key that is pressed twice sends the message once.
async function twice(ben, ada) {
  await ben.locator('#send').evaluate((form) => {
    form.text.value = 'Only once';
    form.requestSubmit();
    form.requestSubmit();
  });
  await write(ben, 'And on');
  await ada.locator('#messages p', { hasText: 'And on' }).waitFor({ state: 'attached' });
  assert.equal((await messages(ada)).filter(([, text]) => text === 'Only once').length, 1);
}

// Joining and leaving add no line to the chat, and who leaves is no longer heard.
async function leaving(ada, phone) {
  const heard = () => ada.evaluate(() => document.querySelectorAll('body > audio').length);
  await until(async () => await heard() === 2, 'not both others are heard');
  const count = (await messages(ada)).length;
  await phone.context().close();
  await ada.locator('#notice p', { hasText: 'أحمد has left.' }).waitFor();
  assert.equal((await messages(ada)).length, count);
  await until(async () => await heard() === 1, 'the audio of a participant that has left is kept');
}

async function reactions(ada, ben) {
  await ben.locator('#react').click();
  await ben.getByRole('button', { name: 'Applause' }).click();
  await ada.locator('.tile:not(.own) .reaction', { hasText: '👏' }).waitFor();
  await ben.locator('.tile.own .reaction', { hasText: '👏' }).waitFor();
  assert.equal(await ada.locator('#said').innerText(), 'Ben: Applause');
  assert.equal(await ben.locator('#reactions').isVisible(), false, 'the choice stays open');
  await until(async () => await ada.locator('.reaction').count() === 0, 'the reaction stays');
}
