// A ban in the panel of participants: the participant is removed, and refused until the ban is lifted.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { KEEP_TRACKS, isReleased } from './endings.mjs';
import { become, open } from './people.mjs';
import { embed, enter, eventOf, frameOf, linkTo, submit } from './sites.mjs';

const ROOM = '/v1/rooms/bans';
const BEN = { identity: 'ben', role: 'guest' };

export async function ban(server, site, browser) {
  await server.call('POST', '/v1/rooms', { name: 'bans' });
  const { token, url } = await server.call('POST', '/v1/tokens', { ...BEN, room: 'bans', name: 'Ben' });
  const { code } = await server.call('POST', `${ROOM}/codes`, BEN);
  const ada = await openWindow(browser);
  await enter(ada, await linkTo(server, 'bans', 'host'), 'Ada');
  const ben = await openWindow(browser);
  await ben.goto(`${site.origin}/`);
  await join(server, ben, { token, url });
  await banBen(ada);
  await isRemoved(ben, server);
  await isRecorded(server);
  // With the token that it has joined with, and with a code for its identity.
  await isRefused(server, ben, { token, url });
  const frame = await isRefused(server, ben, { code, name: 'Ben' });
  await server.call('DELETE', `/ext${ROOM}/bans/ben`);
  await submit(frame);
  assert.equal((await eventOf(ben, 'joined')).identity, 'ben');
  await become(ada, ['Ada (you)', 'Ben']);
  for (const window of [ada, ben]) await window.context().close();
}

// The form of a new element, with the name in it.
async function formOf(server, window, attributes) {
  await embed(window, attributes);
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ben', 'the name is not used');
  return frame;
}

async function join(server, ben, attributes) {
  const frame = await formOf(server, ben, attributes);
  await frame.evaluate(KEEP_TRACKS);
  await submit(frame);
  await eventOf(ben, 'joined');
  await frame.locator('.tile.own.has-picture').waitFor();
}

// By keyboard. Once the row is gone, the focus is in the list that it was in.
async function banBen(ada) {
  // Firefox gives the keyboard to the window in front only.
  await ada.bringToFront();
  await open(ada);
  await become(ada, ['Ada (you)', 'Ben']);
  await ada.locator('.attendee', { hasText: 'Ben' }).locator('button').last().press('Enter');
  await ada.locator('dialog#participant[open] #ban').press('Enter');
  await ada.locator('dialog#question[open]').waitFor();
  assert.match(await ada.locator('#question-text').innerText(), /^Remove Ben from the call and ban/);
  await ada.locator('#question-actions button', { hasText: 'Remove and ban' }).press('Enter');
  await become(ada, ['Ada (you)']);
  assert.equal(await ada.evaluate(() => document.activeElement.matches('#people .scroll')), true, 'the focus is lost');
  assert.equal(await ada.locator('#problem').innerText(), '');
}

async function isRemoved(ben, server) {
  assert.deepEqual(await eventOf(ben, 'left'), { room: 'bans', reason: 'removed' });
  const frame = ben.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  await frame.locator('#end').getByText('A moderator has removed you.').waitFor();
  assert.equal(await frame.locator('#rejoin').isVisible(), false, 'a banned participant is offered to join again');
  await until(() => isReleased(frame), 'a device is still in use');
}

async function isRecorded(server) {
  const { bans } = await server.call('GET', `/ext${ROOM}/bans`);
  assert.deepEqual(bans.map(({ room, identity, until: end }) => [room, identity, end]), [['bans', 'ben', undefined]]);
  await assert.rejects(server.call('POST', '/v1/tokens', { ...BEN, room: 'bans' }), /identity_banned/);
}

// The user reads the reason, and the page around the call gets its code. Returns the frame with the form.
async function isRefused(server, ben, attributes) {
  const frame = await formOf(server, ben, attributes);
  await submit(frame);
  const error = await eventOf(ben, 'error');
  assert.deepEqual(error, { code: 'identity_banned', message: 'You are banned from this call.' });
  await frame.locator('#join-error', { hasText: error.message }).waitFor();
  await until(() => frame.locator('#join .main').isEnabled(), 'one cannot try again');
  return frame;
}
