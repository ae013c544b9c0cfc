// The call page: a lobby, then a call. One module for each subject:
//
// - `lobby`, `devices`: before the call
// - `call`, `controls`: the call, and the buttons below it
// - `stage`, `tile`, `layout`: the visible tiles and their sizes
// - `order`, `pages`: the tiles of large calls
// - `screen`, `timer`: full screen and a small window; the time in the call
// - `panels`, `people`: the panels beside the tiles; the list of participants
// - `liveness`: whether the server still answers
// - `ending`, `end`: the notice before a room reaches its maximum duration; after the call
// - `chat`, `links`, `hands`, `reactions`: data messages
// - `blur`: the background of the camera
// - `recording`: whether the call is recorded or broadcast
// - `details`, `talking`: how good the connection is; whether a muted user talks
// - `shortcuts`, `sound`: keys; a speaker test
// - `moderation`, `dialogs`: the actions that a role permits on others
// - `server`, `errors`: requests to this server, and why they fail
// - `parent`, `styles`: the page that shows this one in a frame
// - `texts`, `names`, `icons`, `notices`, `arrivals`, `memory`, `dom`
// - `old`: a message for browsers that cannot load these modules

import { Call } from './call.js';
import { ask, bindDialogs } from './dialogs.js';
import { element, make } from './dom.js';
import { End } from './end.js';
import { CallError } from './errors.js';
import { fillIcons } from './icons.js';
import { Lobby } from './lobby.js';
import { remember, remembered } from './memory.js';
import { cleanName, identityOf, isSpent } from './names.js';
import { notice, problem } from './notices.js';
import { Parent } from './parent.js';
import { kindsOf, startedText } from './recording.js';
import { abilities, exchange, openRoom } from './server.js';
import { bindShortcuts } from './shortcuts.js';
import { useStyles } from './styles.js';
import { LANGUAGES, onLanguage, speak, text } from './texts.js';

const LAYOUTS = ['grid', 'speaker'];
// How many tiles are shown at once.
const TILES = { usual: 16, most: 49 };
const MOST_IDENTITIES = 3;
const CODE = /^[a-hjkm-z2-9]{4}(-[a-hjkm-z2-9]{4}){2}$/;
const wishes = { layout: LAYOUTS.includes(remembered().layout) ? remembered().layout : 'grid', chat: true, title: '', mostTiles: TILES.usual, controls: [] };
let call = null;
// The most recent call: the form's entry, the devices, and the token with its URL.
let last = null;
let admitted = '';
let isSetUp = false;

const lobby = new Lobby({ isDev: document.body.dataset.dev === 'true', join });
const end = new End({ rejoin, start: toLobby });
const parent = new Parent({
  setUp,
  methods: {
    mute: (isMuted) => running().controls.tryTo('microphone', !isMuted),
    muteCamera: (isMuted) => running().controls.tryTo('camera', !isMuted),
    share: (isShared) => running().controls.tryTo('screen', isShared),
    leave: () => running().leave(),
  },
});

function running() {
  if (!call?.controls) throw Object.assign(new Error('there is no call'), { code: 'no_call' });
  return call;
}

// Joins with an entry of the form and the chosen devices. `granted` is a token from an earlier exchange for the entry. Returns `false` if
// the user declines because the call is recorded.
async function join(entry, devices, granted = null) {
  try {
    // The client SDK's test fails without WebRTC, which policies and extensions can turn off.
    if (typeof RTCPeerConnection !== 'function' || !LivekitClient.isBrowserSupported()) throw new CallError('browser_unsupported');
    const known = granted ?? await admit(entry);
    if (!granted && !await consents(known.token)) return false;
    call = new Call(known, { ...wishes, ...devices }, { emit: (event, detail) => parent.emit(event, detail), onEnd });
    offerInvite(known.code);
    last = { entry, devices, granted: known };
    await call.join();
    return true;
  } catch (error) {
    call = null;
    const shown = CallError.ofConnection(error);
    parent.emit('error', { code: shown.code, message: shown.message });
    throw shown;
  }
}

// Offers a button that copies an invitation: a link with the code, or the embedding page's own link.
function offerInvite(code) {
  element('invite').hidden = parent.decides ? !parent.invites : !code;
  element('invite').onclick = async () => {
    try {
      const link = parent.decides ? await parent.ask('invite-link', call.self()) : `${location.origin}/call#code=${code}`;
      await navigator.clipboard.writeText(link);
      notice(text('link-copied'));
    } catch (error) {
      problem(text('link-failed', { reason: error.message }));
    }
  };
}

// Asks whether the user joins although the call is recorded or broadcast. Other calls, and calls of another server, need no question.
async function consents(token) {
  const { running = [] } = await abilities(token).catch(() => ({}));
  if (running.length === 0) return true;
  return await ask(startedText(kindsOf(running)), { join: { key: 'join-anyway', kind: 'main' } }) !== '';
}

// Returns a room token with its URL, and the code that was exchanged for it.
async function admit({ token, url, code, room, role, name }) {
  // A server that carries the media itself has the address of this page.
  if (token) return { token, url: url || location.origin.replace(/^http/, 'ws') };
  if (code && !CODE.test(code)) throw new CallError('invalid_code');
  const wait = (seconds) => (element('end').hidden ? lobby.wait(seconds) : end.wait(seconds));
  const used = code || (await openRoom(room, role, wait)).code;
  return { ...await exchanged(used, cleanName(name), wait), code: used };
}

// Another participant may have the identity by chance. Users see only the name, so another identity does as well.
async function exchanged(code, name, wait) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await exchange(code, { identity: identityOf(name), name }, wait);
    } catch (error) {
      if (error.code !== 'identity_taken' || tries === MOST_IDENTITIES) throw error;
    }
  }
}

function onEnd(reason, { token, devices }) {
  call = null;
  last.granted = { ...last.granted, token };
  last.devices = { ...last.devices, ...devices };
  end.show(reason, { canStart: !parent.decides });
}

// Joins again as the same participant, or with the code if that takes too long.
async function rejoin() {
  const { entry, devices, granted } = last;
  end.setJoining(true);
  try {
    await join(entry, devices, isSpent(granted.token) ? null : granted);
  } catch (error) {
    if (error.code === 'room_ended') {
      end.show('ended', { canStart: !parent.decides });
      return;
    }
    end.hide();
    lobby.fail(error);
  }
}

function toLobby() {
  end.hide();
  lobby.show();
}

// Applies the embedding page's settings, which it sends again when an attribute changes.
async function setUp({ code, token, url, name, title = '', layout, chat, language, styles, 'max-tiles': tiles = '', controls = '', ...switches }) {
  await started;
  useStyles(styles);
  if (language) speak([language]);
  if (LAYOUTS.includes(layout) && layout !== wishes.layout) {
    wishes.layout = layout;
    call?.setLayout(layout);
  }
  wishes.title = title;
  call?.setTitle(title);
  if ((chat !== 'off') !== wishes.chat) {
    wishes.chat = chat !== 'off';
    call?.chat.offer(wishes.chat);
  }
  wishes.mostTiles = /^[1-9]\d*$/.test(tiles) ? Math.min(Number(tiles), TILES.most) : TILES.usual;
  call?.stage?.setMost(wishes.mostTiles);
  wishes.controls = controls.split(/[\s,]+/).filter(Boolean);
  call?.offer(wishes.controls);
  offerInvite('');
  const isFirst = !isSetUp;
  isSetUp = true;
  // Without what the form asks for, it is shown all the same.
  const skipsLobby = isFirst && switches.skipsLobby && (Boolean(token) || (Boolean(name) && CODE.test(code)));
  if (isFirst && switches.startsMuted) lobby.startWithout('microphone');
  if (isFirst && switches.startsWithoutCamera) lobby.startWithout('camera');
  if (isFirst && !skipsLobby) lobby.show();
  if (!call) expect({ code, token, url, name });
  if (skipsLobby) lobby.skip();
}

// Prepares the form for the values that are given beforehand. Changed values lead back to the form.
function expect({ code = '', token = '', url = '', name = '' }) {
  lobby.admit({ code, token, url, name });
  const given = JSON.stringify([code, token, url]);
  if (given === admitted) return;
  admitted = given;
  if (!element('end').hidden) toLobby();
  if (token || !code || CODE.test(code)) return;
  const error = new CallError('invalid_code');
  lobby.refuse(error);
  parent.emit('error', { code: error.code, message: error.message });
}

// A link to a call has its code in the fragment, which browsers do not send to servers.
function expectFragment() {
  expect({ code: new URLSearchParams(location.hash.slice(1)).get('code') ?? '' });
}

function offerLanguages() {
  const select = element('language');
  select.append(...Object.entries(LANGUAGES).map(([value, name]) => make('option', { value, textContent: name, lang: value })));
  onLanguage((language) => { select.value = language; });
  select.onchange = async () => {
    remember({ language: select.value });
    await speak([select.value]);
  };
}

addEventListener('hashchange', () => { if (!parent.decides && !call) expectFragment(); });
addEventListener('pagehide', () => call?.room.disconnect());
fillIcons(document);
bindDialogs();
bindShortcuts();
offerLanguages();
const started = speak([remembered().language, ...navigator.languages]).then(() => {
  // Otherwise the page around this one decides.
  if (parent.decides) return;
  lobby.show();
  expectFragment();
});
parent.ready();
document.body.dataset.started = 'true';
