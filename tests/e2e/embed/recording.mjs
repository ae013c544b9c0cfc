// Recordings and broadcasts: everybody knows of them, before joining and in the call, and roles that may start and stop them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { embed, enter, eventOf, fillIn, frameOf, linkTo, submit } from './sites.mjs';

export async function known(server, site, browser, folder) {
  await server.call('POST', '/v1/rooms', { name: 'recorded' });
  await server.join('recorded', 'carol', 'guest', [['audio', 'microphone']]);
  // In a room of the sandbox alone, it is simulated.
  const { egress_id: id } = await server.call('POST', '/v1/rooms/recorded/recordings', { type: 'room_composite' });
  await before(server, site, browser, folder);
  await during(server, browser, id);
  if (spawnSync('ffmpeg', ['-version']).status === 0) await byRole(server, browser);
  else console.log('skipped starting a recording, since ffmpeg is not installed');
}

// A user who declines to be recorded stays in the lobby, also with a code that has one use, and on the screen of the end.
async function before(server, site, browser, folder) {
  const window = await openWindow(browser);
  await window.goto(`${site.origin}/`);
  const { code } = await server.call('POST', '/v1/rooms/recorded/codes', { role: 'guest', max_uses: 1 });
  await embed(window, { code, name: 'Ada' });
  const frame = await frameOf(window, server.api);
  await until(async () => await frame.locator('[name=name]').inputValue() === 'Ada', 'the name is not used');
  const question = frame.locator('dialog#question[open]');
  const answer = (index) => frame.locator('#question-actions button').nth(index).evaluate((button) => button.click());
  await submit(frame);
  await question.waitFor();
  assert.equal(await frame.locator('#question-text').innerText(), 'This call is being recorded.');
  if (folder) await window.screenshot({ path: `${folder}/recorded-before.png` });
  await answer(1);
  await until(() => frame.locator('#join .main').isEnabled(), 'one cannot try again');
  assert.equal(await frame.locator('#lobby').isVisible(), true);
  assert.deepEqual((await window.evaluate(() => events)).map(([name]) => name), []);
  await submit(frame);
  await question.waitFor();
  await answer(0);
  await eventOf(window, 'joined');
  assert.deepEqual(await eventOf(window, 'recording-changed'), { recording: true, broadcast: false });
  await frame.locator('#recording-tag').waitFor();
  await frame.locator('#leave').evaluate((button) => button.click());
  await frame.locator('#end').waitFor();
  for (const index of [1, 0]) {
    await until(() => frame.locator('#rejoin').isEnabled(), 'one cannot join again');
    await frame.locator('#rejoin').evaluate((button) => button.click());
    await question.waitFor();
    await answer(index);
  }
  await until(async () => (await window.evaluate(() => events)).filter(([name]) => name === 'joined').length === 2, 'the user is not back');
  await window.context().close();
}

// The end of a recording is shown and announced, and a broadcast has another badge.
async function during(server, browser, id) {
  const window = await openWindow(browser);
  await window.goto(await linkTo(server, 'recorded', 'guest'));
  await fillIn(window, 'Ben');
  await window.locator('#question-actions button').first().click();
  await window.locator('#call').waitFor();
  await window.locator('#recording-tag').waitFor();
  await window.locator('#notice p', { hasText: 'This call is being recorded.' }).waitFor();
  assert.equal(await window.locator('#notice').getAttribute('role'), 'status');
  await server.call('POST', `/v1/recordings/${id}/stop`);
  await window.locator('#recording-tag').waitFor({ state: 'hidden' });
  await window.locator('#notice p', { hasText: 'The recording has ended.' }).waitFor();
  await window.context().close();
}

// A host starts and stops it; a guest is shown it.
async function byRole(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'by-role' });
  const host = await openWindow(browser);
  await enter(host, await linkTo(server, 'by-role', 'host'), 'Ada');
  const guest = await openWindow(browser);
  await enter(guest, await linkTo(server, 'by-role', 'guest'), 'Ben');
  await host.locator('.tile:not(.own).has-picture').waitFor();
  await guest.locator('#menu-button').click();
  assert.equal(await guest.locator('#record').isVisible(), false, 'a guest may record');
  await guest.locator('#menu [data-close]').click();
  const choose = async (id, text) => {
    await host.locator('#menu-button').click();
    await host.locator(`#${id}`, { hasText: text }).click();
  };
  await choose('record', 'Record the call');
  for (const window of [host, guest]) {
    await window.locator('#recording-tag').waitFor();
    await window.locator('#notice p', { hasText: 'This call is being recorded.' }).waitFor();
    assert.equal(await window.locator('#broadcast-tag').isVisible(), false);
  }
  await until(async () => (await server.call('GET', '/v1/rooms/by-role/recordings')).recordings[0].status === 'active', 'the recording is not active');
  await choose('record', 'Stop the recording');
  for (const window of [host, guest]) await window.locator('#recording-tag').waitFor({ state: 'hidden' });
  await until(async () => (await server.call('GET', '/v1/rooms/by-role/recordings')).recordings[0].status === 'complete', 'the recording is not complete');
  await choose('broadcast', 'Broadcast the call');
  await host.locator('#new-broadcast [name=address]').fill('https://example.org/');
  await host.locator('#new-broadcast button').click();
  assert.equal(await host.locator('dialog#broadcast-dialog[open]').isVisible(), true, 'an address that is none is taken');
  await host.locator('#broadcast-dialog [data-close]').click();
  // A broadcast that is refused leaves no stream key in the page.
  await host.route('**/broadcasts', (route) => route.fulfill({ status: 422, contentType: 'application/json', body: '{"error": {"code": "x", "message": "not there"}}' }));
  await choose('broadcast', 'Broadcast the call');
  await host.locator('#new-broadcast [name=address]').fill('rtmps://live.example.org/app/key');
  await host.locator('#new-broadcast button').click();
  await host.locator('#problem', { hasText: 'not there' }).waitFor();
  assert.equal(await host.locator('#new-broadcast [name=address]').inputValue(), '');
  assert.equal((await server.call('GET', '/v1/broadcasts?room=by-role')).broadcasts.length, 0);
  for (const window of [host, guest]) await window.context().close();
}
