// Links in texts of others: only http and https, to a new window that does not know this one.

import { make } from './dom.js';

const LINK = /https?:\/\/[^\s<>"'`]+/gi;
// Punctuation that may follow a link in a sentence.
const PUNCTUATION = '.,;:!?)]}';

// The parts of a text: texts, and elements for its links.
export function withLinks(text) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(LINK)) {
    const address = withoutPunctuation(found);
    if (!URL.canParse(address)) continue;
    parts.push(text.slice(end, index), link(address));
    end = index + address.length;
  }
  parts.push(text.slice(end));
  return parts.filter((part) => part !== '');
}

// A regular expression with an anchor at the end would take a time that grows with the square of the length.
function withoutPunctuation(found) {
  let end = found.length;
  while (PUNCTUATION.includes(found[end - 1])) end -= 1;
  return found.slice(0, end);
}

function link(address) {
  return make('a', { href: address, textContent: address, target: '_blank', rel: 'noopener noreferrer nofollow' });
}
