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
// Errors after which the same token may do.
const PASSING = ['connection_failed', 'media_blocked', 'role_full', 'room_full'];
const CODE = /^[a-hjkm-z2-9]{4}(-[a-hjkm-z2-9]{4}){2}$/;
const wishes = { layout: LAYOUTS.includes(remembered().layout) ? remembered().layout : 'grid', chat: true, title: '', mostTiles: TILES.usual, controls: [] };
let call = null;
// The most recent call: the form's entry, the devices, and the token with its URL.
let last = null;
// The token of an exchange that has led to no call yet, with its code and name. A code may have one use only.
let unused = null;
// The values given for the next call, and the form's, as texts.
let given = {};
let expected = '';
let admitted = '';
let isJoining = false;
let isSetUp = false;

// An entry of the form keeps the values for which it was filled in.
const lobby = new Lobby({ isDev: document.body.dataset.dev === 'true', join: (entry, devices) => join({ ...entry, admitted }, devices) });
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
  isJoining = true;
  try {
    // The client SDK's test fails without WebRTC, which policies and extensions can turn off.
    if (typeof RTCPeerConnection !== 'function' || !LivekitClient.isBrowserSupported()) throw new CallError('browser_unsupported');
    const known = granted ?? await admit(entry);
    if (!await consents(known.token)) return false;
    call = new Call(known, { ...wishes, ...devices }, { emit: (event, detail) => parent.emit(event, detail), onEnd });
    offerInvite(known.code);
    last = { entry, devices, granted: known };
    await call.join();
    unused = null;
    return true;
  } catch (error) {
    call = null;
    const shown = CallError.ofConnection(error);
    if (!PASSING.includes(shown.code)) unused = null;
    parent.emit('error', { code: shown.code, message: shown.message });
    throw shown;
  } finally {
    isJoining = false;
    if (!call) expect(given);
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
  const { running = [] } = await abilities(token, showWait).catch(() => ({}));
  if (running.length === 0) return true;
  return await ask(startedText(kindsOf(running)), { join: { key: 'join-anyway', kind: 'main' } }) !== '';
}

// Returns a room token with its URL, and the code that was exchanged for it.
async function admit({ token, url, code, room, role, name }) {
  // A server that carries the media itself has the address of this page.
  if (token) return { token, url: url || location.origin.replace(/^http/, 'ws') };
  if (code && !CODE.test(code)) throw new CallError('invalid_code');
  if (code && unused?.code === code && unused.name === name && !isSpent(unused.token)) return unused;
  const used = code || (await openRoom(room, role, showWait)).code;
  unused = { ...await exchanged(used, cleanName(name)), code: used, name };
  return unused;
}

// Shows the wait after the server's rate limit has refused a request.
function showWait(seconds) {
  if (element('end').hidden) lobby.wait(seconds);
  else end.wait(seconds);
}

// Another participant may have the identity by chance. Users see only the name, so another identity does as well.
async function exchanged(code, name) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await exchange(code, { identity: identityOf(name), name }, showWait);
    } catch (error) {
      if (error.code !== 'identity_taken' || tries === MOST_IDENTITIES) throw error;
    }
  }
}

function onEnd(reason, { token, devices }) {
  call = null;
  last.granted = { ...last.granted, token };
  last.devices = { ...last.devices, ...devices };
  expect(given);
  showEnd(reason);
}

// An embedding page decides what is joined: the form is for values that it has changed since.
function showEnd(reason) {
  end.show(reason, { canStart: !parent.decides || admitted !== last.entry.admitted });
}

// Joins again as the same participant, or with the code if that takes too long.
async function rejoin() {
  const { entry, devices, granted } = last;
  end.setJoining(true);
  try {
    if (!await join(entry, devices, isSpent(granted.token) ? null : granted)) end.setJoining(false);
  } catch (error) {
    // Values that changed meanwhile have led to the form for another call.
    if (element('end').hidden) return;
    if (error.code === 'room_ended') {
      showEnd('ended');
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
  // The user may have chosen another language since.
  if (language && language !== wishes.language) speak([language]);
  wishes.language = language;
  if (LAYOUTS.includes(layout) && layout !== wishes.layout) {
    wishes.layout = layout;
    call?.setLayout(layout);
  }
  wishes.title = title;
  call?.setTitle(title);
  if ((chat !== 'off') !== wishes.chat) {
    wishes.chat = chat !== 'off';
    call?.offerChat(wishes.chat);
  }
  wishes.mostTiles = /^[1-9]\d*$/.test(tiles) ? Math.min(Number(tiles), TILES.most) : TILES.usual;
  call?.setMost(wishes.mostTiles);
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
  give({ code, token, url, name });
  if (skipsLobby) lobby.skip();
}

// Stores the values for the next call. While the user joins, and in a call, they wait for its end.
function give(values) {
  given = values;
  if (!call && !isJoining) expect(given);
}

// Prepares the form for the values that are given beforehand. Changed values lead back to the form; the same values leave it as the user
// has filled it in.
function expect({ code = '', token = '', url = '', name = '' }) {
  const values = JSON.stringify([code, token, url, name]);
  if (values === expected) return;
  expected = values;
  lobby.admit({ code, token, url, name });
  const wanted = JSON.stringify([code, token, url]);
  if (wanted === admitted) return;
  admitted = wanted;
  if (!element('end').hidden) toLobby();
  if (token || !code || CODE.test(code)) return;
  const error = new CallError('invalid_code');
  lobby.refuse(error);
  parent.emit('error', { code: error.code, message: error.message });
}

// A link to a call has its code in the fragment, which browsers do not send to servers.
function expectFragment() {
  give({ code: new URLSearchParams(location.hash.slice(1)).get('code') ?? '' });
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

addEventListener('hashchange', () => { if (!parent.decides) expectFragment(); });
addEventListener('pagehide', () => call?.room.disconnect());
fillIcons(document);
bindDialogs();
bindShortcuts();
offerLanguages();
onLanguage(() => call?.translate());
const started = speak([remembered().language, ...navigator.languages]).then(() => {
  // Otherwise the page around this one decides.
  if (parent.decides) return;
  lobby.show();
  expectFragment();
});
parent.ready();
document.body.dataset.started = 'true';
