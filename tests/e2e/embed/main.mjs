// Tries the call page, and <conclave-call> in pages of other origins, with Chromium and Firefox and fake devices: all attributes, events
// and methods from an origin of http.embed_origins, refusal of another one, hostile attributes, messages and names. Names in all scripts,
// the shapes of tiles, small frames, errors in words, a ban, the end of a call, a server that stands still. Walks the page by keyboard, on
// screens of computers and phones, light and dark; axe-core must find nothing. Runs the examples of docs/embedding.md and of the React
// component.
//
//   scripts/check embed                   the check
//   scripts/check embed --core            in Chromium, without the examples, with two of the screens
//   scripts/check embed --only hostile    the parts whose titles contain a text
//   scripts/check embed --screenshots     also writes docs/embedding/*.png and docs/embedding/states/*.webp
//
// Needs Node.js 20 with npm, Chromium and, for its part, Firefox. Exits 0 only if all holds, and 77 if something is missing and cannot be
// installed.
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Conclave } from '../support/server.mjs';
import { launchChromium, launchFirefox } from '../support/browsers.mjs';
import * as bans from './bans.mjs';
import * as blur from './blur.mjs';
import * as chat from './chat.mjs';
import * as comfort from './comfort.mjs';
import * as counts from './counts.mjs';
import { Embedding } from './embedding.mjs';
import * as endings from './endings.mjs';
import * as examples from './examples.mjs';
import * as hostile from './hostile.mjs';
import * as joining from './joining.mjs';
import { keep } from './keep.mjs';
import * as languages from './languages.mjs';
import * as large from './large.mjs';
import * as people from './people.mjs';
import { shoot } from './picture.mjs';
import * as recording from './recording.mjs';
import { Site } from './sites.mjs';
import * as tiles from './tiles.mjs';
import { SCREENS, Walk, withoutDevices } from './walk.mjs';
import * as weight from './weight.mjs';

const IS_CORE = process.argv.includes('--core');
// The parts that are run, by a text in their titles.
const ONLY = process.argv[process.argv.indexOf('--only') + 1] ?? '';
const problems = [];
// The browser of the parts that run.
let current;

// Runs a part of the check, and goes on after a failure.
async function part(title, run) {
  if (process.argv.includes('--only') && !title.includes(ONLY)) return;
  const begun = Date.now();
  const before = current?.contexts();
  const found = await run().catch((error) => [error.stack]);
  // The windows of a part that failed would slow the next ones.
  if (found?.length && current) await Promise.all(current.contexts().filter((one) => !before.includes(one)).map((one) => one.close()));
  for (const problem of found ?? []) {
    problems.push(problem);
    console.log(`FAILED  ${title}: ${problem}`);
  }
  if (!found?.length) console.log(`ok      ${title} (${Math.round((Date.now() - begun) / 1_000)} s)`);
}

async function embedded(server, site, browser, name) {
  const embedding = new Embedding(server, site, browser);
  await part(`${name}: attributes, events and methods`, async () => {
    const room = `embedded-${name}`;
    await server.call('POST', '/v1/rooms', { name: room });
    await embedding.open();
    await embedding.call(room);
    await embedding.connecting(room);
    await embedding.end(room);
    await embedding.close();
    return embedding.complaints;
  });
}

async function strangers(server, sites, browser, name, folder) {
  const { listed, other } = sites;
  await part(`${name}: a site that is not listed is refused`, () => hostile.refused(server, other, listed, browser, folder));
  await part(`${name}: hostile attributes change nothing`, () => hostile.attributes(server, listed, browser));
  await part(`${name}: hostile messages, names and texts change nothing`, () => hostile.messages(server, listed, other, browser));
}

// Users' ways into a call, in it and out of it, at a server of its own.
async function ways(browser, name, folder) {
  const site = await Site.start('localhost');
  const server = await Conclave.start({ CONCLAVE_LIMITS__EXCHANGE_PER_SECOND: '1000', CONCLAVE_LIMITS__EXCHANGE_BURST: '1000' });
  site.embeds(server.api);
  try {
    await part(`${name}: names keep every letter`, () => joining.names(server, browser));
    await part(`${name}: tiles keep their shape, and two participants are one picture`, () => tiles.shapes(server, browser));
    await part(`${name}: initials until the first frame`, () => tiles.firstFrame(server, browser));
    await part(`${name}: the height of the page is kept`, () => tiles.heights(server, site, browser));
    await part(`${name}: small frames and phones have their buttons`, () => tiles.small(server, site, browser, folder));
    await part(`${name}: a call without a form`, () => joining.direct(server, site, browser));
    await part(`${name}: errors in words and codes`, () => joining.errors(server, site, browser, folder));
    await part(`${name}: participants, hands and moderation in a panel`, () => people.panel(server, browser));
    await part(`${name}: a banned participant is removed and refused`, () => bans.ban(server, site, browser));
    await part(`${name}: chat, short messages and reactions`, () => chat.chat(server, browser));
    await part(`${name}: the weight of the page`, () => weight.weight(server, browser));
    await part(`${name}: controls and the time`, () => large.controls(server, site, browser));
    await part(`${name}: the end of a call releases the devices`, () => endings.screens(server, browser));
    await part(`${name}: devices and responses that come after the end`, () => endings.late(server, browser));
    await part(`${name}: a new connection to the same call`, () => endings.renewed(server, site, browser));
    await part(`${name}: a maximum duration ends a call after a notice`, () => endings.duration(server, site, browser));
    await part(`${name}: without settings, pages of this machine show the call`, () => hostile.unset(browser));
    await part(`${name}: shortcuts, hints and details`, () => comfort.helps(server, browser, folder));
    await part(`${name}: links that invite, and styles of the page around it`, () => comfort.embedded(server, site, browser));
    await part(`${name}: recordings and broadcasts are known to everybody`, () => recording.known(server, site, browser, folder));
    await part(`${name}: a language from right to left`, () => languages.rightToLeft(server, browser, folder));
    await part(`${name}: full screen and a small window`, () => large.screens(server, browser));
    await part(`${name}: a call of 25 has pages`, () => large.pages(server, site, browser, folder));
    if (IS_CORE) return;
    await part(`${name}: 2, 5, 9 and 25 on every screen`, () => counts.counts(server, browser, folder));
    await part(`${name}: every language has room`, () => languages.all(server, browser, folder));
    await part(`${name}: an upright camera has an upright tile`, () => tiles.portrait(server, browser));
    await part(`${name}: a token that has expired`, () => joining.expired(server, site, browser));
    await part(`${name}: after too many requests the page waits`, () => joining.tooMany(browser));
    await part(`${name}: a request without an answer`, () => joining.unanswered(server, browser));
    await part(`${name}: a network that blocks media`, () => comfort.blocked(server, browser));
    await part(`${name}: an old browser`, () => comfort.old(server, browser));
    await part(`${name}: a server that stands still`, () => endings.standstill(browser, folder));
    await part(`${name}: a server that does not come back`, () => endings.lost(browser));
  } finally {
    await server.stop();
    site.stop();
  }
}

async function inBrowser(name, launch, run) {
  const browser = await launch();
  current = browser;
  try {
    await run(browser, name);
  } finally {
    current = undefined;
    await browser.close();
  }
}

async function walks(server, browser, folder) {
  for (const screen of IS_CORE ? SCREENS.slice(0, 2) : SCREENS) {
    const walk = Object.assign(new Walk(server, browser, screen), { folder });
    await part(`the page by keyboard, ${screen.name}`, () => walk.run());
  }
}

async function main() {
  const keeps = process.argv.includes('--screenshots');
  const folder = process.env.EMBED_SCREENSHOTS ?? (keeps ? mkdtempSync(join(tmpdir(), 'check-embed-')) : undefined);
  if (folder) mkdirSync(folder, { recursive: true });
  const listed = await Site.start('localhost');
  const other = await Site.start('127.0.0.1');
  const server = await Conclave.start({
    CONCLAVE_HTTP__EMBED_ORIGINS: listed.origin, CONCLAVE_LIMITS__EXCHANGE_PER_SECOND: '1000', CONCLAVE_LIMITS__EXCHANGE_BURST: '1000',
  });
  const sites = { listed, other };
  listed.embeds(server.api);
  other.embeds(server.api);
  for (const site of [listed, other]) site.pages.set('/blank', '<!DOCTYPE html><title>A frame</title>');
  try {
    await server.call('POST', '/v1/rooms', { name: 'hostile' });
    await inBrowser('chromium', launchChromium, async (browser, name) => {
      await embedded(server, listed, browser, name);
      await strangers(server, sites, browser, name, folder);
      await ways(browser, name, folder);
      await walks(server, browser, folder);
      if (IS_CORE) return;
      await part('the background is blurred', () => blur.blur(browser, folder));
      await part('pages of tiles spare the processor', () => large.processor(server, listed));
      await part('the example of docs/embedding.md', () => examples.document(server, listed, browser));
      await part('the React component and its example', () => examples.react(server, listed, browser));
    });
    if (keeps) {
      await part('screenshots', () => shoot(server, listed));
      await inBrowser('chromium', launchChromium, (browser) => part('screenshots of the states', () => keep(browser, folder)));
    }
    if (!IS_CORE) {
      await inBrowser('chromium', () => launchChromium({ isBlocked: true }), (browser) => part('a browser that refuses the devices', () => withoutDevices(server, browser)));
      if (process.env.FIREFOX) {
        await inBrowser('firefox', launchFirefox, async (browser, name) => {
          await embedded(server, listed, browser, name);
          await strangers(server, sites, browser, name);
          await ways(browser, name);
        });
      } else {
        console.log('skipped Firefox, which is not installed');
      }
    }
  } finally {
    await server.stop();
    listed.stop();
    other.stop();
  }
  console.log(problems.length ? `${problems.length} problems` : 'the call page holds');
  process.exit(problems.length ? 1 : 0);
}

await main();
