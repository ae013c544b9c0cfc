// Sites of other origins than the server, with pages that show calls in a frame.
import { createServer } from 'node:http';

import { until } from '../support/server.mjs';

// The page of a site. Its own policy lets it load what `server` has, and frames of anyone.
function page(server) {
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A site</title><link rel="icon" href="data:,"></head>
    <body><h1>A site</h1><button id="go">Go</button><script src="${server}/embed.js"></script></body></html>`;
}

export class Site {
  // `host` is the name that browsers call it by, such as `localhost`.
  static async start(host) {
    const site = new Site();
    site.pages = new Map();
    site.http = createServer((request, response) => site.answer(request, response));
    await new Promise((resolve) => site.http.listen(0, '127.0.0.1', resolve));
    site.origin = `http://${host}:${site.http.address().port}`;
    return site;
  }

  answer(request, response) {
    const text = this.pages.get(new URL(request.url, this.origin).pathname);
    const type = request.url.endsWith('.js') ? 'text/javascript' : 'text/html; charset=utf-8';
    response.writeHead(text ? 200 : 404, { 'content-type': type, 'content-security-policy': this.policy }).end(text);
  }

  // Serves `/`, a page that has the element's script, and may load nothing else.
  embeds(server) {
    this.policy = `default-src 'none'; script-src 'self' 'unsafe-inline' ${server}; style-src 'unsafe-inline'; img-src data:; frame-src *`;
    this.pages.set('/', page(server));
  }

  stop() {
    this.http.closeAllConnections();
    this.http.close();
  }
}

// Puts a call into the page, and notes its events in `window.events`.
export async function embed(window, attributes, style = '') {
  await window.evaluate(([given, css]) => {
    const names = ['joined', 'left', 'participant-joined', 'role-changed', 'recording-changed', 'ending', 'ended', 'error'];
    globalThis.call?.remove();
    globalThis.events = [];
    globalThis.call = Object.assign(document.createElement('conclave-call'));
    for (const [name, value] of Object.entries(given)) call.setAttribute(name, value);
    call.style.cssText = `height: 600px; ${css}`;
    for (const name of names) call.addEventListener(name, ({ detail }) => events.push([name, detail]));
    document.body.append(call);
  }, [attributes, style]);
}

// The frame of the call, once it shows the lobby.
export async function frameOf(window, server) {
  return until(async () => {
    // The frame of an element that was just removed may still be listed.
    const frame = window.frames().filter((one) => one.url().startsWith(`${server}/call`) && !one.isDetached()).at(-1);
    return await frame?.locator('#lobby').isVisible().catch(() => false) && frame;
  }, 'no frame has the lobby');
}

// Joins by the form of the lobby. Playwright's clicks do not reach frames of other origins in Firefox.
export async function submit(frame) {
  await frame.locator('#join').evaluate((form) => form.requestSubmit());
}

export async function eventOf(window, name) {
  return until(async () => (await window.evaluate(() => events)).find(([found]) => found === name)?.[1], `no event ${name}`);
}

// The address of the call page for a new code.
export async function linkTo(server, room, role) {
  const { code } = await server.call('POST', `/v1/rooms/${room}/codes`, { role });
  return `${server.api}/call#code=${code}`;
}

// Joins at the call page itself.
export async function enter(page, url, name) {
  await page.goto(url);
  await fillIn(page, name);
  await page.locator('#call').waitFor();
}

// Fills in the form of the page, or of a frame with it, and sends it.
export async function fillIn(page, name) {
  await until(async () => await page.locator('#join .main').innerText() !== '', 'the page has no texts');
  await page.locator('[name=name]').fill(name);
  await submit(page);
}
