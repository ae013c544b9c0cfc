// Requests to the server of the page.

import { CallError } from './errors.js';

// A response of the rate limit states how long to wait. If the wait is longer than this, or repeated more often, the error is shown and the
// user decides.
const LONGEST_WAIT_SECONDS = 30;
const MOST_WAITS = 5;
// Longer than the server takes for any request of this page.
const TIMEOUT_MS = 30_000;

// Sends a request, and again after each wait that the server asks for. `onWait` gets its seconds.
async function request(method, path, { body, token, onWait = () => {} } = {}) {
  const headers = { ...(body && { 'content-type': 'application/json' }), ...(token && { 'x-svc-room-token': token }) };
  for (let waits = 0; ; waits += 1) {
    const sent = fetch(path, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout?.(TIMEOUT_MS) });
    const response = await sent.catch(() => { throw new CallError('connection_failed'); });
    // A removal has no body.
    const answer = await response.json().catch(() => ({ isCut: response.ok && response.status !== 204 }));
    if (answer.isCut) throw new CallError('connection_failed');
    if (response.ok) return answer;
    const seconds = Number(response.headers.get('retry-after'));
    if (response.status !== 429 || !(seconds > 0 && seconds <= LONGEST_WAIT_SECONDS) || waits === MOST_WAITS) {
      throw CallError.ofServer(response.status, answer.error);
    }
    onWait(seconds);
    await new Promise((resolve) => { setTimeout(resolve, seconds * 1_000); });
  }
}

// A text as a segment of a path. Browsers resolve dots as steps in the path, encoded or not, and would request something else.
function segment(text, code) {
  if (text === '.' || text === '..') throw new CallError(code);
  return encodeURIComponent(text);
}

// Exchanges a room code for a room token, its URL and its role. The token carries the name as it is.
export async function exchange(code, { identity, name }, onWait) {
  return request('POST', `/v1/codes/${segment(code, 'invalid_code')}/exchange`, { body: { identity, name: name || undefined }, onWait });
}

// A room code of the development project, in `dev`.
export function openRoom(room, role, onWait) {
  return request('POST', '/call/rooms', { body: { room: room || undefined, role }, onWait });
}

// Returns the permissions of a token's holder in its room, the room's title, and the recordings and broadcasts there.
export function abilities(token, onWait) {
  return request('GET', '/call/role', { token, onWait });
}

// A participant's actions on others. Each call uses the newest token.
export class Moderator {
  constructor(room, newestToken) {
    this.room = segment(room, 'room_not_found');
    this.path = `/v1/rooms/${this.room}`;
    this.newestToken = newestToken;
  }

  send(method, path, body) {
    return request(method, path, { body, token: this.newestToken() });
  }

  // The permissions of the role that the participant has now, and the roles that it may give others.
  abilities() {
    return abilities(this.newestToken());
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

  // Also disconnects the participant.
  async ban(identity) {
    return this.send('PUT', `/ext/v1/rooms/${this.room}/bans/${segment(identity, 'participant_not_found')}`);
  }

  async changeRole(identity, role) {
    return this.send('POST', `${this.participant(identity)}/role`, { role });
  }

  record(layout) {
    return this.send('POST', `${this.path}/recordings`, { type: 'room_composite', layout });
  }

  broadcast(url, layout) {
    return this.send('POST', `${this.path}/broadcasts`, { urls: [url], layout });
  }

  stopEgress(kind, id) {
    return this.send('POST', `/v1/${kind}s/${segment(id, `${kind}_not_found`)}/stop`);
  }

  endRoom() {
    return this.send('DELETE', this.path);
  }
}
