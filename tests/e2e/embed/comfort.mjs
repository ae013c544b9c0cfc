// Conveniences in calls: keys, hints, details on demand, links that invite; and the styles of the page around the call.
import assert from 'node:assert/strict';

import { openWindow } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';
import { embed, enter, eventOf, fillIn, linkTo } from './sites.mjs';

// A microphone that hears a voice, and a clipboard and loudspeakers that can be looked at.
const OBSERVE = () => {
  globalThis.copied = [];
  globalThis.played = [];
  Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { globalThis.copied.push(text); } } });
  const { play } = HTMLMediaElement.prototype;
  HTMLMediaElement.prototype.play = function observed() {
    if (this instanceof Audio || this.tagName === 'AUDIO') globalThis.played.push(this);
    return play.call(this);
  };
  const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    if (!wanted.audio) return real(wanted);
    const sound = new AudioContext();
    const end = sound.createMediaStreamDestination();
    const tone = new OscillatorNode(sound, { frequency: 220 });
    tone.connect(new GainNode(sound, { gain: 0.4 })).connect(end);
    tone.start();
    const stream = new MediaStream(end.stream.getAudioTracks());
    if (wanted.video) for (const track of (await real({ video: wanted.video })).getTracks()) stream.addTrack(track);
    return stream;
  };
};

const pressed = (page, id) => page.locator(`#${id}`).getAttribute('aria-pressed');

export async function helps(server, browser, folder) {
  await server.call('POST', '/v1/rooms', { name: 'helps' });
  const page = await openWindow(browser);
  await page.addInitScript(OBSERVE);
  const link = await linkTo(server, 'helps', 'host');
  await page.goto(link);
  await page.locator('#test-sound-before').click();
  await until(() => page.evaluate(() => globalThis.played.length === 1), 'no sound is played before the call');
  await fillIn(page, 'Ada');
  await page.locator('#microphone[aria-pressed="true"]').waitFor();
  await shortcuts(page, folder);
  await muted(page);
  await details(server, browser, page, folder);
  await sounds(page, folder);
  await page.locator('#invite').click();
  await page.locator('#notice p', { hasText: 'The link is copied.' }).waitFor();
  assert.deepEqual(await page.evaluate(() => globalThis.copied), [link]);
  await page.context().close();
}

async function shortcuts(page, folder) {
  await page.keyboard.press('h');
  await page.locator('#hand[aria-pressed="true"]').waitFor();
  await page.keyboard.press('Control+h');
  assert.equal(await pressed(page, 'hand'), 'true', 'a key of the browser is taken');
  await page.keyboard.press('h');
  await page.locator('#hand[aria-pressed="false"]').waitFor();
  await page.keyboard.press('c');
  await page.locator('#chat').waitFor();
  await page.locator('#send [name=text]').pressSequentially('hmv');
  assert.equal(await pressed(page, 'hand'), 'false', 'what is typed is a shortcut');
  await page.locator('#send [name=text]').fill('');
  await page.locator('#chat-close').click();
  await page.keyboard.press('?');
  await page.locator('dialog#shortcuts[open]').waitFor();
  const keys = await page.locator('#shortcut-list kbd').allInnerTexts();
  for (const key of ['M', 'V', 'H', 'P', 'C', '?']) assert.ok(keys.includes(key), `${key} is not in ${keys}`);
  if (folder) await page.screenshot({ path: `${folder}/shortcuts.png` });
  await page.locator('#use-shortcuts').uncheck();
  await page.keyboard.press('Escape');
  await page.locator('dialog#shortcuts[open]').waitFor({ state: 'detached' });
  await page.locator('#stage').click();
  await page.keyboard.press('h');
  assert.equal(await pressed(page, 'hand'), 'false', 'shortcuts cannot be switched off');
  await page.locator('#menu-button').click();
  await page.locator('#shortcuts-button').click();
  await page.locator('#use-shortcuts').check();
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
}

// Headless Firefox measures no audio on a machine without an audio device.
async function measuresAudio(page) {
  return page.evaluate(async () => {
    const context = new AudioContext();
    await Promise.race([context.resume(), new Promise((resolve) => setTimeout(resolve, 2_000))]);
    const { state } = context;
    await context.close();
    return state === 'running';
  });
}

async function muted(page) {
  if (!await measuresAudio(page)) {
    console.log('        not tried: the hint while muted, since this browser measures no audio here');
    return;
  }
  await page.keyboard.press('m');
  await page.locator('#microphone[aria-pressed="false"]').waitFor();
  await page.locator('#notice p', { hasText: 'your microphone is off' }).waitFor();
}

// The connection's details, once there is another participant.
async function details(server, browser, page, folder) {
  const other = await openWindow(browser);
  await enter(other, await linkTo(server, 'helps', 'guest'), 'Ben');
  await page.locator('.tile:not(.own).has-picture').waitFor();
  await page.locator('#menu-button').click();
  await page.locator('#details-button').click();
  const list = page.locator('#details-list');
  // The list is new every second, and a rate may be none in one of them.
  const patterns = [/Received\s+[1-9]\d* kbit\/s\s+Sent\s+[1-9]\d* kbit\/s/, /Round trip\s+\d+ ms/, /Route\s+(UDP|TCP)/, /Ben: \d+ × \d+, \d+\/s/];
  await until(async () => {
    const found = await list.innerText();
    return patterns.every((pattern) => pattern.test(found));
  }, 'the details lack something', 20_000).catch(async ({ message }) => assert.fail(`${message}: ${await list.innerText()}`));
  if (folder) await page.screenshot({ path: `${folder}/details.png` });
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  assert.equal(await other.evaluate(adviceChanges), 1, 'the advice is read aloud again and again');
  await other.context().close();
}

// Opens the details of a call with a poor connection for three seconds, and counts the changes of the advice.
async function adviceChanges() {
  const { Details } = await import('/call/details.js');
  const details = new Details({ localParticipant: { connectionQuality: 'poor' }, remoteParticipants: new Map() });
  let changes = 0;
  const observer = new MutationObserver((records) => { changes += records.length; });
  observer.observe(document.querySelector('#details-advice'), { childList: true });
  details.open();
  await new Promise((resolve) => { setTimeout(resolve, 3_000); });
  document.querySelector('#details').close();
  observer.disconnect();
  return changes;
}

// The processing of the microphone is chosen in the call, and kept.
async function sounds(page, folder) {
  await page.keyboard.press('m');
  await page.locator('#microphone[aria-pressed="true"]').waitFor();
  await page.locator('#menu-button').click();
  await page.locator('#settings-button').click();
  await page.locator('#noise-suppression').uncheck();
  assert.equal(await page.locator('#blur').isVisible(), false, 'blur is offered without its library');
  if (folder) await page.screenshot({ path: `${folder}/settings.png` });
  assert.deepEqual(await page.evaluate(() => { const { noiseSuppression, echoCancellation } = JSON.parse(localStorage.getItem('conclave-call')); return [noiseSuppression, echoCancellation]; }), [false, undefined]);
  const before = await page.evaluate(() => globalThis.played.length);
  await page.locator('#test-sound').click();
  await until(() => page.evaluate((count) => globalThis.played.length > count, before), 'no sound is played in the call');
  await page.locator('#settings [data-close]').click();
  assert.equal(await pressed(page, 'microphone'), 'true');
}

// The page around the call makes the links, and has its own fonts and shapes.
export async function embedded(server, site, browser) {
  await server.call('POST', '/v1/rooms', { name: 'invites' });
  const { code } = await server.call('POST', '/v1/rooms/invites/codes', { role: 'host' });
  const window = await openWindow(browser);
  await window.addInitScript(OBSERVE);
  await window.goto(`${site.origin}/`);
  const styles = '--conclave-radius: 3px; --conclave-font: Georgia, serif; --conclave-tile: #123456; --conclave-danger: rgb(1 2 3)';
  await embed(window, { code, name: 'Ada', 'skip-lobby': '' }, styles);
  await eventOf(window, 'joined');
  const frame = window.frames().find((one) => one.url().startsWith(`${server.api}/call`));
  assert.equal(await frame.locator('#invite').isVisible(), false, 'a link is offered that nobody makes');
  await window.evaluate(() => { globalThis.call.inviteLink = async ({ room, role, name }) => `https://school.example/${room}?${role}-${name}`; });
  await frame.locator('#invite').waitFor();
  const copy = () => frame.locator('#invite').evaluate((button) => button.click());
  await copy();
  await until(async () => (await frame.evaluate(() => globalThis.copied)).join() === 'https://school.example/invites?host-Ada', 'the link is not copied');
  await window.evaluate(() => { globalThis.call.inviteLink = () => { throw new Error('ask your teacher'); }; });
  await copy();
  await frame.locator('#problem', { hasText: 'ask your teacher' }).waitFor();
  const found = await frame.evaluate(() => {
    const { borderRadius, backgroundColor } = getComputedStyle(document.querySelector('.tile'));
    return [borderRadius, backgroundColor, getComputedStyle(document.querySelector('#leave')).backgroundColor, getComputedStyle(document.body).fontFamily];
  });
  assert.deepEqual(found, ['3px', 'rgb(18, 52, 86)', 'rgb(1, 2, 3)', 'Georgia, serif']);
  await window.evaluate(() => { globalThis.call.setAttribute('style', 'height: 600px; --conclave-radius: 100vw; --conclave-font: url(x); --conclave-tile: 3px'); });
  await until(() => frame.evaluate(() => getComputedStyle(document.querySelector('.tile')).borderRadius === '12px'), 'a radius that is none is used');
  assert.doesNotMatch(await frame.evaluate(() => document.documentElement.style.cssText), /url|vw/);
  await lateLink(window, copy);
  await window.context().close();
}

// A link that is made after the element was removed is for nobody.
async function lateLink(window, copy) {
  const failures = [];
  window.on('pageerror', ({ message }) => failures.push(message));
  await window.evaluate(() => { globalThis.call.inviteLink = () => new Promise((resolve) => { globalThis.give = resolve; }); });
  await copy();
  await until(() => window.evaluate(() => typeof globalThis.give === 'function'), 'no link is requested');
  await window.evaluate(async () => {
    globalThis.call.remove();
    globalThis.give('https://school.example/');
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  });
  assert.deepEqual(failures, []);
}

// Signalling works and media is blocked: the page names media as the cause.
export async function blocked(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'blocked' });
  const window = await openWindow(browser);
  await window.addInitScript(() => {
    globalThis.RTCPeerConnection = class extends RTCPeerConnection {
      constructor(settings) { super({ ...settings, iceTransportPolicy: 'relay', iceServers: [] }); }
      setConfiguration(settings) { super.setConfiguration({ ...settings, iceTransportPolicy: 'relay', iceServers: [] }); }
    };
  });
  await window.goto(await linkTo(server, 'blocked', 'guest'));
  await fillIn(window, 'Ada');
  await window.locator('#join-error', { hasText: /network blocks them/ }).waitFor();
  assert.equal(await window.locator('#join .main').isEnabled(), true);
  await window.context().close();
}

// Browsers that lack WebRTC, and browsers that cannot even read the modules of the page.
export async function old(server, browser) {
  await server.call('POST', '/v1/rooms', { name: 'old' });
  const window = await openWindow(browser);
  // The client SDK would make the one of the other.
  await window.addInitScript(() => { for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection']) delete globalThis[name]; });
  await window.goto(await linkTo(server, 'old', 'guest'));
  await fillIn(window, 'Ada');
  await window.locator('#join-error', { hasText: /too old for calls/ }).waitFor();
  assert.equal(await window.locator('#too-old').isVisible(), false);
  await window.route('**/call/main.js', (route) => route.fulfill({ contentType: 'text/javascript', body: 'syntax of tomorrow' }));
  await window.goto(`${server.api}/call`);
  await window.reload();
  await window.locator('#too-old', { hasText: /update it or use another one/ }).waitFor();
  await window.context().close();
}
