// Links in texts of others: only http and https, to a new window that does not know this one.

import { make } from './dom.js';

const LINK = /https?:\/\/[^\s<>"'`]+/gi;
// What follows a link in a sentence.
const PUNCTUATION = /[.,;:!?)\]}]+$/;

// The parts of a text: texts, and elements for its links.
export function withLinks(text) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(LINK)) {
    const address = found.replace(PUNCTUATION, '');
    if (!URL.canParse(address)) continue;
    parts.push(text.slice(end, index), link(address));
    end = index + address.length;
  }
  parts.push(text.slice(end));
  return parts.filter((part) => part !== '');
}

function link(address) {
  return make('a', { href: address, textContent: address, target: '_blank', rel: 'noopener noreferrer nofollow' });
}
