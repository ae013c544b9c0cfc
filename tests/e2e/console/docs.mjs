// The documentation in a browser, served and as files, and the API viewer of `dev`: search, copy, and a call of the API.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Conclave } from '../support/server.mjs';

// Pages, each with a text on it.
const PAGES = [['index.html', 'Two commands'], ['operations.html', 'Idempotency'], ['api.html', 'create_room'], ['cluster.html', 'Source of the diagram']];
// Search texts, each with one of its first two results.
const SEARCHES = [
  ['idempotency', 'operations.html#idempotency'], ['SIGTERM', 'running.html#stopping'],
  ['backup restore', 'running.html#backup-and-restore'], ['webhooks', 'webhooks.html'], ['signatur', 'webhooks.html#signatures'],
];

// `tools` are the console check's functions for opening and checking pages.
export async function checkDocs(browser, looks, tools) {
  const server = await Conclave.start({ CONCLAVE_ADMIN__TOKEN: undefined });
  const folder = mkdtempSync(join(tmpdir(), 'check-docs-'));
  try {
    execFileSync(process.env.CONCLAVE_BIN, ['docs', folder]);
    for (const look of looks) {
      await pages(browser, look, `${server.admin}/docs`, tools);
      await viewer(browser, look, server, tools);
    }
    await pages(browser, looks[0], `file://${folder}`, tools);
    await withoutScripts(browser, server, tools);
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function pages(browser, look, root, { open, listen, checkPage, fail, axe }) {
  const isServed = root.startsWith('http');
  const context = await open(browser, { ...look, permissions: isServed ? ['clipboard-read', 'clipboard-write'] : [] });
  await context.addInitScript(axe);
  const page = await context.newPage();
  const complaints = [];
  listen(page, complaints);
  for (const [path, text] of PAGES) {
    await page.goto(`${root}/${path}`);
    // axe-core reads styles by requests, which the browser forbids to pages from files.
    if (isServed) await checkPage(page, `${root}/${path} (${look.colorScheme}, ${look.width})`, text);
    else if (!(await page.locator('main').innerText()).includes(text)) fail(`${root}/${path} does not say ${text}`);
  }
  for (const [query, expected] of SEARCHES) {
    await page.goto(`${root}/index.html`);
    await page.keyboard.press('/');
    await page.keyboard.insertText(query);
    await page.locator('#found [aria-selected="true"] mark').first().waitFor();
    const found = await page.locator('#found [data-url]').evaluateAll((options) => options.map((option) => option.dataset.url));
    if (!found.slice(0, 2).includes(expected)) fail(`the search for ${query} finds ${found}`);
    await page.keyboard.press('Enter');
    await page.waitForURL(`${root}/${found[0]}`);
  }
  await page.goto(`${root}/running.html`);
  const block = page.locator('.code').first();
  await block.getByRole('button', { name: 'Copy the code' }).click();
  await block.getByText('Copied').waitFor();
  if (isServed) {
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    if (copied !== (await block.locator('code').textContent())) fail(`${JSON.stringify(copied)} was copied`);
  }
  if (look.width < 800) {
    await page.locator('.menu').click();
    await page.locator('#pages').getByRole('link', { name: 'Webhooks' }).click();
    await page.waitForURL(`${root}/webhooks.html`);
  }
  for (const complaint of complaints) fail(`${root} (${look.colorScheme}, ${look.width}): ${complaint}`);
  await context.close();
  console.log(`ok      pages, search and copy at ${root.split(':')[0]}, ${look.colorScheme}, ${look.width} pixels wide`);
}

// Creates a room from the viewer, with the key that `dev` has filled in.
async function viewer(browser, look, server, { open, listen, fail }) {
  const context = await open(browser, look);
  const page = await context.newPage();
  const complaints = [];
  listen(page, complaints);
  // A link to an operation from before the viewer had its own address. Its page redirects to the viewer before it has loaded.
  await page.goto(`${server.admin}/docs#/rooms/create_room`, { waitUntil: 'commit' });
  await page.waitForURL(`${server.admin}/docs/api#/rooms/create_room`);
  const operation = page.locator('#operations-rooms-create_room');
  await operation.getByRole('button', { name: 'Try it out' }).click();
  const name = `viewer-${look.colorScheme}-${look.width}`;
  await operation.locator('textarea').fill(JSON.stringify({ name }));
  await operation.getByRole('button', { name: 'Execute' }).click();
  await operation.locator('.live-responses-table').getByText('201', { exact: true }).first().waitFor();
  const room = await server.call('GET', `/v1/rooms/${name}`);
  if (room.status !== 'open') fail(`the room of the viewer is ${JSON.stringify(room)}`);
  await page.locator('.operation-filter-input').fill('post codes');
  await page.locator('#operations-codes-create_code').waitFor();
  if (await page.locator('#operations-rooms-list_rooms').count()) fail('the filter of the viewer keeps other operations');
  await page.locator('#operations-codes-create_code button.opblock-summary-control').click();
  const reference = await page.locator('#operations-codes-create_code').getByRole('link', { name: /api\.html/ }).getAttribute('href');
  if (reference !== `${server.admin}/docs/api.html#create_code`) fail(`an operation leads to ${reference}`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wider > 0) fail(`the viewer is ${wider} pixels too wide`);
  // Swagger UI announces its own deprecations.
  for (const complaint of complaints.filter((text) => !text.includes('escaping deep link whitespace'))) fail(`the viewer (${look.colorScheme}, ${look.width}): ${complaint}`);
  await context.close();
  console.log(`ok      a call of the API from the viewer, ${look.colorScheme}, ${look.width} pixels wide`);
}

async function withoutScripts(browser, server, { open, fail }) {
  const context = await open(browser, { width: 380, javaScriptEnabled: false });
  const page = await context.newPage();
  for (const [path, text] of PAGES) {
    await page.goto(`${server.admin}/docs/${path}`);
    if (!(await page.locator('main').innerText()).includes(text)) fail(`${path} without scripts does not say ${text}`);
    if (!(await page.locator('#pages').getByRole('link', { name: 'Webhooks' }).isVisible())) fail(`${path} without scripts has no list of pages`);
    if (await page.locator('#search').isVisible()) fail(`${path} shows a search that does nothing`);
  }
  await context.close();
  console.log('ok      the documentation without scripts');
}
