// Draws the Mermaid diagrams of all pages with headless Chromium: see scripts/docs. Each image contains its source, by
// which the server finds it.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { basename, join } from 'node:path';

import { launchChromium } from '../support/browsers.mjs';

const MERMAID = '11.12.2';
const FOLDER = 'docs/diagrams';
const tools = process.env.TOOLS;
execFileSync('npm', ['install', '--silent', '--no-save', '--no-audit', '--no-fund', '--prefix', join(tools, 'mermaid'), `mermaid@${MERMAID}`]);

// Fonts with the same widths on all systems, and text that works in an image: no HTML.
const OPTIONS = {
  startOnLoad: false, theme: 'neutral', htmlLabels: false, deterministicIds: true,
  fontFamily: 'Arial, Helvetica, "Liberation Sans", sans-serif',
};

const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
const markdown = (folder) => readdirSync(folder).filter((name) => name.endsWith('.md')).map((name) => join(folder, name));

const browser = await launchChromium({ hasDevices: false });
const page = await browser.newPage();
await page.setContent('<!DOCTYPE html><body></body>');
await page.addScriptTag({ path: join(tools, 'mermaid/node_modules/mermaid/dist/mermaid.min.js') });
await page.evaluate((options) => mermaid.initialize({ ...options, flowchart: { htmlLabels: false } }), OPTIONS);
rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
for (const file of [...markdown('.'), ...markdown('docs')].sort()) {
  const blocks = readFileSync(file, 'utf8').split('\n```mermaid\n').slice(1).map((block) => `${block.split('\n```')[0]}\n`);
  for (const [at, source] of blocks.entries()) {
    const name = `${basename(file, '.md').toLowerCase()}-${at + 1}`;
    const svg = await page.evaluate(async ([id, text]) => {
      const { svg: drawn } = await mermaid.render(id, text);
      const element = new DOMParser().parseFromString(drawn, 'text/html').querySelector('svg');
      // The natural size of the image, used where there is room.
      const [, , width, height] = element.getAttribute('viewBox').split(' ');
      element.setAttribute('width', Math.ceil(width));
      element.setAttribute('height', Math.ceil(height));
      element.removeAttribute('style');
      for (const part of element.querySelectorAll('*')) {
        for (const { name: of } of [...part.attributes]) if (of.startsWith('data-')) part.removeAttribute(of);
      }
      return new XMLSerializer().serializeToString(element);
    }, [name, source]);
    const end = svg.lastIndexOf('</svg>');
    writeFileSync(join(FOLDER, `${name}.svg`), `${svg.slice(0, end)}<metadata>${escaped(source)}</metadata></svg>\n`);
    console.log(`${FOLDER}/${name}.svg`);
  }
}
await browser.close();
