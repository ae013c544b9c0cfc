// The page in a frame of a page whose origin is not in `http.embed_origins`. It explains the refusal to the developer, and reports it to
// the element at once.

import { element } from './dom.js';
import { remembered } from './memory.js';
import { speak, text } from './texts.js';

const { origin } = document.body.dataset;

if (window.parent !== window) window.parent.postMessage({ conclave: 1, type: 'refused' }, origin);
await speak([remembered().language, ...navigator.languages]);
element('refused-title').textContent = text('refused-title');
element('refused-text').textContent = text('refused-text', { origin });
