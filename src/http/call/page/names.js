// Names as the page shows them.

// This page adds four characters to a name to make an identity that is unique in the room.
export function identityOf(name) {
  const plain = name.normalize('NFKD').replace(/[^A-Za-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 40);
  return `${plain || 'guest'}-${Math.random().toString(36).slice(2, 6).padEnd(4, '0')}`;
}

export function nameOf(participant) {
  return participant.name || participant.identity.replace(/-[a-z0-9]{4}$/, '').replaceAll('-', ' ');
}

export function roleOf(participant) {
  return participant.attributes['svc.role'] ?? '';
}

export function initialsOf(name) {
  const words = name.split(/[\s._-]+/).filter(Boolean);
  return words.slice(0, 2).map((word) => [...word][0].toUpperCase()).join('');
}

// The name in a room token. The server checks the token; this is only for show.
export function nameInToken(token) {
  try {
    const payload = token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
    const claims = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(payload), (one) => one.charCodeAt(0))));
    return String(claims.name || claims.sub || '');
  } catch {
    return '';
  }
}
