// Why something failed: a code for the embedding page, and words in the page's language. The codes are those of the API, except for those
// that the page's users meet most; docs/embedding.md lists them.

import { isText, text } from './texts.js';

const RENAMED = { role_capacity_reached: 'role_full' };
// What the media plane says of a participant that it does not admit, in the order in which to look.
const REFUSALS = [
  [/expired/i, 'token_expired'],
  [/requested room does not exist/, 'room_ended'],
  [/role is full/, 'role_full'],
  [/room is full|max participants/i, 'room_full'],
  [/identity is connected/, 'identity_taken'],
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

  // An error of the client SDK while it connects. What has another cause than the token and the room is the network's.
  static ofConnection(error) {
    if (error instanceof CallError) return error;
    // Signalling works, and no way for media was found.
    if (/pc connection/.test(error.message)) return new CallError('media_blocked');
    if (![401, 403, 404].includes(error.status)) return new CallError('connection_failed');
    const [, code = 'token_invalid'] = REFUSALS.find(([pattern]) => pattern.test(error.message)) ?? [];
    return new CallError(code);
  }
}
