// Names as the page shows them.

import { make } from './dom.js';

// Characters that the server refuses in a name: control characters, ends of lines and marks of direction, which could make a text look like
// another.
const DECEPTIVE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu;
const LONGEST_SLUG = 24;
const SUFFIX = 6;
// How many colors the circles behind initials have.
const TONES = 6;

// A typed name as the server takes it. Half of a pair of surrogates, as a cut text can end with, is no character.
export function cleanName(typed) {
  return typed.toWellFormed().replace(DECEPTIVE, ' ').replace(/\s+/gu, ' ').trim();
}

// An identity for a name. The name itself is sent beside it, so this only has to be unique in the room and easy to read in a log.
export function identityOf(name) {
  const letters = name.normalize('NFKD').replace(/\p{Mark}/gu, '');
  const slug = letters.replace(/[^A-Za-z0-9]+/g, '-').slice(0, LONGEST_SLUG).replace(/^-+|-+$/g, '');
  const random = Array.from(crypto.getRandomValues(new Uint8Array(SUFFIX)), (byte) => (byte % 36).toString(36));
  return `${slug || 'guest'}-${random.join('')}`;
}

export function nameOf(participant) {
  return participant.name || participant.identity;
}

export function roleOf(participant) {
  return participant.attributes['svc.role'] ?? '';
}

export function initialsOf(name) {
  const words = name.split(/[\s._-]+/).filter(Boolean);
  return words.slice(0, 2).map((word) => [...word][0].toUpperCase()).join('');
}

// One color for an identity, on every screen.
function toneOf(identity) {
  return [...identity].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9_973, 7) % TONES;
}

// A circle for the initials of a participant.
export function initialsCircle({ identity }) {
  return make('span', { className: 'initials', attributes: { 'aria-hidden': 'true' }, dataset: { tone: String(toneOf(identity)) } });
}

// A text as a search compares it: without accents, in small letters.
export function searchable(typed) {
  return typed.normalize('NFKD').replace(/\p{Mark}/gu, '').toLowerCase().trim();
}

// Reads a room token's claims. The server checks the token; this is only for show.
function claimsOf(token) {
  try {
    const payload = token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(payload), (one) => one.charCodeAt(0)))) ?? {};
  } catch {
    return {};
  }
}

export function nameInToken(token) {
  const { name, sub } = claimsOf(token);
  return String(name || sub || '');
}

// Whether a token has expired, or will within seconds.
export function isSpent(token) {
  return !(claimsOf(token).exp * 1_000 > Date.now() + 10_000);
}
