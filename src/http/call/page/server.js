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

// A room token, its url and its role, for a room code.
export function exchange(code, identity) {
  return request('POST', `/v1/codes/${encodeURIComponent(code)}/exchange`, { body: { identity } });
}

// A room code of the development project, in `dev`.
export function openRoom(room, role) {
  return request('POST', '/call/rooms', { body: { room: room || undefined, role } });
}

// What a participant may do to others. The token is the newest one at each call.
export class Moderator {
  constructor(room, newestToken) {
    this.path = `/v1/rooms/${encodeURIComponent(room)}`;
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
    return `${this.path}/participants/${encodeURIComponent(identity)}`;
  }

  mute(identity, sid, muted) {
    return this.send('POST', `${this.participant(identity)}/mute`, { track_sid: sid, muted });
  }

  remove(identity) {
    return this.send('DELETE', this.participant(identity));
  }

  changeRole(identity, role) {
    return this.send('POST', `${this.participant(identity)}/role`, { role });
  }

  endRoom() {
    return this.send('DELETE', this.path);
  }
}
