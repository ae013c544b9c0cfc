// Requests to the server of the page.

import { isText, text } from './texts.js';

// A refusal, in words of the page's language where it has some for the code.
export class ServerError extends Error {
  constructor(status, { code = 'unknown', message = '' } = {}) {
    super(isText(`error-${code}`) ? text(`error-${code}`) : message || text('error-unknown', { status }));
    this.code = code;
  }
}

async function request(method, path, { body, token } = {}) {
  const headers = { ...(body && { 'content-type': 'application/json' }), ...(token && { 'x-svc-room-token': token }) };
  const sent = fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const response = await sent.catch(() => {
    throw new ServerError(0, { code: 'unreachable' });
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ServerError(response.status, answer.error);
  return answer;
}

// A text as a segment of a path. Browsers resolve dots as steps in the path, encoded or not, and would request something else.
function segment(text, code) {
  if (text === '.' || text === '..') throw new ServerError(400, { code });
  return encodeURIComponent(text);
}

// A room token, its url and its role, for a room code.
export async function exchange(code, identity) {
  return request('POST', `/v1/codes/${segment(code, 'code_not_found')}/exchange`, { body: { identity } });
}

// A room code of the development project, in `dev`.
export function openRoom(room, role) {
  return request('POST', '/call/rooms', { body: { room: room || undefined, role } });
}

// What a participant may do to others. The token is the newest one at each call.
export class Moderator {
  constructor(room, newestToken) {
    this.path = `/v1/rooms/${segment(room, 'room_not_found')}`;
    this.newestToken = newestToken;
  }

  send(method, path, body) {
    return request(method, path, { body, token: this.newestToken() });
  }

  // The permissions of the role that the participant has now, and the roles that it may give others.
  abilities() {
    return this.send('GET', '/call/role');
  }

  participant(identity) {
    return `${this.path}/participants/${segment(identity, 'participant_not_found')}`;
  }

  async mute(identity, sid, muted) {
    return this.send('POST', `${this.participant(identity)}/mute`, { track_sid: sid, muted });
  }

  async remove(identity) {
    return this.send('DELETE', this.participant(identity));
  }

  async changeRole(identity, role) {
    return this.send('POST', `${this.participant(identity)}/role`, { role });
  }

  endRoom() {
    return this.send('DELETE', this.path);
  }
}
