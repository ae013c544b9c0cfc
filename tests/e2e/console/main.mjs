// Walks every page and every action of the console with headless Chromium against the real server: light and dark, 380 and
// 1440 pixels wide, by keyboard alone, and without scripts. Local times are beside UTC, and buttons do not break at 1280 pixels. axe-core must find nothing. The same for the documentation, served and as
// files, with its search, and for a call from the API viewer.
//
//   scripts/check console                  the check
//   scripts/check console --core           with the actions in two of the four looks
//   scripts/check console --screenshots    also writes the screenshots in docs/console
//
// Needs Node.js 20 with npm, and Chromium. Exits 0 only if all holds, and 77 if something is missing and cannot be installed.
import { mkdirSync, readFileSync } from 'node:fs';

import { AXE as AXE_FILE, launchChromium } from '../support/browsers.mjs';
import { Conclave, TOKEN, startReceiver } from '../support/server.mjs';
import { runActions } from './actions.mjs';
import { fill } from './contents.mjs';
import { checkDocs } from './docs.mjs';

const AXE = readFileSync(AXE_FILE, 'utf8');
const LOOKS = ['light', 'dark'].flatMap((colorScheme) => [380, 1440].map((width) => ({ colorScheme, width })));
const WITH_SCREENSHOTS = process.argv.includes('--screenshots');
// Two looks that cover each width and each color scheme once.
const LOOKS_OF_ACTIONS = process.argv.includes('--core') ? LOOKS.filter(isShown) : LOOKS;
const FOLDER = 'docs/console';
// All rules of axe-core, including its best practices.
const AXE_OPTIONS = { resultTypes: ['violations'] };

const problems = [];
const fail = (what) => {
  problems.push(what);
  console.log(`FAILED  ${what}`);
};

// Every page of the console: its path, a text on it, and the name of its screenshot.
const pages = (server) => {
  const project = `/projects/${server.project_id}`;
  return [
    ['/', 'Live participants', 'overview'],
    ['/live/rooms', 'standup'],
    ['/live/participants', 'alice'],
    ['/live/egresses', 'REDACTED'],
    ['/projects', 'Create a project'],
    [project, 'Open a room'],
    [`${project}/rooms/standup`, 'Events as they happen', 'room'],
    [`${project}/rooms/retro`, 'The room has ended.'],
    [`${project}/sessions`, 'dora'],
    [`${project}/sessions?room=standup`, 'Timeline of standup', 'timeline'],
    [`${project}/recordings`, 'monday.mp4'],
    [server.recording, 'Delete file'],
    [`${project}/broadcasts`, 'REDACTED'],
    [`${project}/ingress`, 'stage'],
    [`${project}/templates`, 'lesson'],
    [`${project}/templates/${server.template}`, 'Save permissions', 'template'],
    [`${project}/webhooks`, 'Deliveries', 'webhooks'],
    [`${project}/usage`, 'Participant minutes by day'],
    [`${project}/settings`, 'API keys'],
    ['/actors', 'webhook endpoint', 'actors'],
    [`/actors/${server.project_id}/room/standup`, 'Recent messages'],
    ['/server', 'Effective settings'],
    ['/sdk/', 'conclave-sdk.tgz'],
    ['/projects/prj_000000000000', 'no project by that id'],
  ];
};

async function signIn(context, server) {
  const page = await context.newPage();
  await page.goto(`${server.admin}/sign-in`);
  await page.locator('#token').fill(TOKEN);
  await page.keyboard.press('Enter');
  await page.waitForURL(`${server.admin}/`);
  return page;
}

async function open(browser, options) {
  const { width = 1440, ...rest } = options;
  // The check injects axe-core into the page; for everything else, the pages' policy stays in force.
  const context = await browser.newContext({ viewport: { width, height: 900 }, ...rest });
  context.setDefaultTimeout(60_000);
  return context;
}

// Complaints of the browser, such as a violation of the policy.
function listen(page, seen) {
  page.on('console', (message) => {
    const isStatus = message.text().startsWith('Failed to load resource');
    if (['error', 'warning'].includes(message.type()) && !isStatus) seen.push(message.text());
  });
  page.on('pageerror', (error) => seen.push(error.message));
}

async function checkPage(page, where, text) {
  const body = await page.locator('body').innerText();
  if (!body.includes(text)) fail(`${where} does not say ${JSON.stringify(text)}`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wider > 0) fail(`${where} is ${wider} pixels too wide`);
  const found = await page.evaluate(async (options) => (await axe.run(document, options)).violations, AXE_OPTIONS);
  for (const { id, help, nodes } of found) fail(`${where}: axe ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(' ')}`);
}

async function walk(browser, server, look) {
  const context = await open(browser, look);
  await context.addInitScript(AXE);
  const page = await signIn(context, server);
  const complaints = [];
  listen(page, complaints);
  for (const [path, text, name] of pages(server)) {
    const where = `${path} (${look.colorScheme}, ${look.width})`;
    await page.goto(server.admin + path);
    await page.waitForTimeout(150);
    await checkPage(page, where, text);
    if (name === 'timeline') await checkTimes(page, where);
    if (WITH_SCREENSHOTS && name && isShown(look)) await shoot(page, look.width === 380 ? `${name}-narrow` : name);
    for (const complaint of complaints.splice(0)) fail(`${where}: ${complaint}`);
  }
  await context.close();
  console.log(`ok      ${pages(server).length} pages, ${look.colorScheme}, ${look.width} pixels wide`);
}

// A timeline shows its start and end times at its two ends.
async function checkTimes(page, where) {
  const times = await page.locator('.timeline .ends span').all();
  for (const time of times) {
    const { x, width } = await time.boundingBox();
    if (x < 0 || x + width > page.viewportSize().width) fail(`${where}: ${await time.innerText()} is not in the window`);
  }
  if (times.length !== 2) fail(`${where} has ${times.length} times instead of two`);
}

// Looks of the screenshots: wide and light, and narrow and dark.
function isShown({ colorScheme, width }) {
  return (colorScheme === 'dark') === (width === 380);
}

async function shoot(page, name) {
  const height = await page.evaluate(() => Math.min(document.documentElement.scrollHeight, 1_100));
  await page.screenshot({ path: `${FOLDER}/${name}.png`, clip: { x: 0, y: 0, width: page.viewportSize().width, height }, fullPage: true });
}

async function signInPages(browser, server) {
  const context = await open(browser, {});
  await context.addInitScript(AXE);
  const page = await context.newPage();
  await page.goto(`${server.admin}/projects`);
  await checkPage(page, 'the sign-in', 'Sign in to Conclave');
  await page.locator('#token').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('the token is wrong').waitFor();
  await checkPage(page, 'the refused sign-in', 'the token is wrong');
  await context.close();
  console.log('ok      the sign-in and its refusal');
}

// At a laptop's width, no button breaks into two lines, and the buttons of a row are beside each other.
async function buttons(browser, server) {
  const context = await open(browser, { width: 1280 });
  const page = await signIn(context, server);
  for (const [path] of pages(server)) {
    await page.goto(server.admin + path);
    await page.evaluate(() => document.querySelectorAll('details').forEach((part) => { part.open = true; }));
    const broken = await page.evaluate(() => {
      const isBroken = (button) => button.getClientRects().length && button.offsetHeight > 1.9 * parseFloat(getComputedStyle(button).lineHeight)
        + parseFloat(getComputedStyle(button).paddingTop) + parseFloat(getComputedStyle(button).paddingBottom);
      const isStacked = (cell) => new Set([...cell.querySelectorAll('button')].map((button) => button.offsetTop)).size > 1;
      const found = [...document.querySelectorAll('button')].filter(isBroken);
      return [...found, ...[...document.querySelectorAll('td[data-label="Actions"]')].filter(isStacked)].map((element) => element.innerText);
    });
    if (broken.length) fail(`${path} breaks buttons at 1280 pixels: ${broken.join(', ')}`);
  }
  await context.close();
  console.log('ok      no button breaks at 1280 pixels');
}

// Each time is in UTC and in the browser's time zone, also after a refresh.
async function localTimes(browser, server) {
  const context = await open(browser, { timezoneId: 'Asia/Dubai' });
  const page = await signIn(context, server);
  for (const [path] of pages(server)) {
    await page.goto(server.admin + path);
    const part = page.locator('[data-every]').first();
    if (await part.count()) {
      const read = page.waitForResponse((answer) => answer.url() === page.url());
      await page.evaluate(() => htmx.trigger(document.querySelector('[data-every]'), 'refresh'));
      await read;
      await page.waitForTimeout(100);
    }
    const wrong = await page.evaluate(() => [...document.querySelectorAll('time:not(.until, .until *)')].filter((time) => {
      const local = time.querySelectorAll('.local');
      // Dubai is 4 h ahead of UTC on all days.
      const expected = new Date(Date.parse(time.dateTime) + 240 * 60_000).toISOString().slice(11, 19);
      return local.length !== 1 || !local[0].textContent.includes(expected);
    }).map((time) => time.outerHTML));
    if (wrong.length) fail(`${path} has no local time: ${wrong.slice(0, 3).join(' ')}`);
  }
  await page.goto(`${server.admin}/projects`);
  if (!(await page.locator('footer').innerText()).includes('Asia/Dubai')) fail('the footer does not name the time zone');
  await context.close();
  console.log('ok      local time beside UTC');
}

async function withoutScripts(browser, server) {
  const context = await open(browser, { javaScriptEnabled: false });
  const page = await signIn(context, server);
  for (const [path, text] of pages(server)) {
    await page.goto(server.admin + path);
    if (!(await page.locator('body').innerText()).includes(text)) fail(`${path} without scripts does not say ${text}`);
  }
  await page.goto(`${server.admin}/projects/${server.project_id}`);
  await page.locator('#room-name').fill('without-scripts');
  await page.getByRole('button', { name: 'Open room' }).click();
  await page.getByText('The room is open.').waitFor();
  await context.close();
  console.log('ok      every page and an action without scripts');
}

async function main() {
  mkdirSync(FOLDER, { recursive: true });
  const receiver = await startReceiver();
  const server = await Conclave.start();
  const browser = await launchChromium({ hasDevices: false });
  try {
    await fill(server, receiver);
    await signInPages(browser, server);
    for (const look of LOOKS) await walk(browser, server, look);
    await withoutScripts(browser, server);
    await buttons(browser, server);
    await localTimes(browser, server);
    for (const look of LOOKS_OF_ACTIONS) {
      const context = await open(browser, look);
      const page = await signIn(context, server);
      const complaints = [];
      listen(page, complaints);
      const done = await runActions(page, server, receiver, `${look.colorScheme}-${look.width}`);
      for (const complaint of complaints) fail(`actions (${look.colorScheme}, ${look.width}): ${complaint}`);
      await context.close();
      console.log(`ok      ${done} actions by keyboard, ${look.colorScheme}, ${look.width} pixels wide`);
    }
    await checkDocs(browser, LOOKS_OF_ACTIONS, { open, listen, checkPage, fail, axe: AXE });
  } catch (error) {
    fail(error.stack);
  } finally {
    await browser.close();
    await server.stop();
    receiver.stop();
  }
  console.log(problems.length ? `${problems.length} problems` : 'the console holds');
  process.exit(problems.length ? 1 : 0);
}

await main();
