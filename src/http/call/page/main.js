// The call page: a lobby, then a call. One module for each subject:
//
// lobby, devices       before the call
// call, controls       the call, and the buttons below it
// stage, tile          who is to be seen, and how large
// chat, links, hands   data messages
// moderation, dialogs  what a role may do to others
// server               requests to this server
// parent, colors       the page that shows this one in a frame
// texts, names, icons, notices, memory, dom

import { Call } from './call.js';
import { useColors } from './colors.js';
import { bindDialogs } from './dialogs.js';
import { element, make } from './dom.js';
import { fillIcons } from './icons.js';
import { Lobby } from './lobby.js';
import { remember, remembered } from './memory.js';
import { identityOf } from './names.js';
import { notice } from './notices.js';
import { Parent } from './parent.js';
import { ServerError, exchange, openRoom } from './server.js';
import { LANGUAGES, isText, onLanguage, speak, text } from './texts.js';

const LAYOUTS = ['grid', 'speaker'];
const MOST_IDENTITIES = 3;
const wishes = { layout: LAYOUTS.includes(remembered().layout) ? remembered().layout : 'grid', chat: true };
let call = null;

const lobby = new Lobby({ isDev: document.body.dataset.dev === 'true', join });
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

async function join({ token, url, code, room, role, name }, devices) {
  try {
    const used = token || code || (await openRoom(room, role)).code;
    const granted = token ? { token, url } : await admitted(used, name);
    call = new Call(granted, { ...wishes, ...devices }, { emit: (event, detail) => parent.emit(event, detail), onEnd });
    element('invite').hidden = Boolean(token) || parent.decides;
    element('invite').onclick = () => copyLink(used);
    await call.join();
  } catch (error) {
    call = null;
    const shown = error instanceof ServerError ? error : new ServerError(0, { code: 'connection', message: error.message });
    parent.emit('error', { code: shown.code, message: shown.message });
    throw shown;
  }
}

// A participant of the same name may have the identity by chance. The name is what users see, so another identity does as well.
async function admitted(code, name) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await exchange(code, identityOf(name));
    } catch (error) {
      if (error.code !== 'identity_taken' || tries === MOST_IDENTITIES) throw error;
    }
  }
}

function onEnd(reason) {
  call = null;
  lobby.show(isText(`ended-${reason}`) ? text(`ended-${reason}`) : '');
}

// What the embedding page wants. It says so again when an attribute changes.
async function setUp({ code, token, url, name, layout, chat, language, colors }) {
  await started;
  useColors(colors);
  if (language) speak([language]);
  if (LAYOUTS.includes(layout) && layout !== wishes.layout) {
    wishes.layout = layout;
    call?.setLayout(layout);
  }
  if ((chat !== 'off') !== wishes.chat) {
    wishes.chat = chat !== 'off';
    call?.chat.offer(wishes.chat);
  }
  if (!call) lobby.admit({ code, token, url, name });
}

async function copyLink(code) {
  const link = `${location.origin}/call#code=${code}`;
  try {
    await navigator.clipboard.writeText(link);
    notice(text('link-copied'));
  } catch {
    notice(link);
  }
}

// A link to a call has its code in the fragment, which browsers do not send to servers.
function admitByFragment() {
  lobby.admit({ code: new URLSearchParams(location.hash.slice(1)).get('code') ?? '' });
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

addEventListener('hashchange', () => { if (!parent.decides) admitByFragment(); });
addEventListener('pagehide', () => call?.room.disconnect());
fillIcons(document);
bindDialogs();
offerLanguages();
admitByFragment();
const started = speak([remembered().language, ...navigator.languages]).then(() => { lobby.show(); });
parent.ready();
