// Errors: a code for the embedding page, and a text in the page's language. The codes are the API's, except for the errors that the page's
// users meet most; docs/embedding.md lists them.

import { isText, text } from './texts.js';

const RENAMED = { role_capacity_reached: 'role_full' };
// The media plane's messages for participants that it does not admit. The first match counts.
const REFUSALS = [
  [/expired/i, 'token_expired'],
  [/requested room does not exist/, 'room_ended'],
  [/role is full/, 'role_full'],
  [/room is full|max participants/i, 'room_full'],
  [/identity is connected/, 'identity_taken'],
  [/identity is banned/, 'identity_banned'],
  [/token was revoked/, 'token_revoked'],
];

export class CallError extends Error {
  // `message` is in English and for codes that the page has no words for; `status` is for those without one.
  constructor(code, { message = '', status = 0 } = {}) {
    super(isText(`error-${code}`) ? text(`error-${code}`) : message || text('error-unknown', { status }));
    this.code = code;
  }

  // The refusal of an operation of the API.
  static ofServer(status, { code = 'unknown', message, field } = {}) {
    const isRoomFull = code === 'quota_exceeded' && field === 'max_participants';
    return new CallError(isRoomFull ? 'room_full' : RENAMED[code] ?? code, { message, status });
  }

  // Converts an error of the client SDK while it connects. Errors that neither the token nor the room causes are attributed to the network.
  static ofConnection(error) {
    if (error instanceof CallError) return error;
    // Signalling works, and no way for media was found.
    if (/pc connection/.test(error.message)) return new CallError('media_blocked');
    if (![401, 403, 404].includes(error.status)) return new CallError('connection_failed');
    const [, code = 'token_invalid'] = REFUSALS.find(([pattern]) => pattern.test(error.message)) ?? [];
    return new CallError(code);
  }
}
