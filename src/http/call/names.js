// Names as the page shows them.

// This page adds four characters to a name to make an identity that is unique in the room.
export function identityOf(name) {
  const plain = name.normalize('NFKD').replace(/[^A-Za-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 40);
  return `${plain || 'guest'}-${Math.random().toString(36).slice(2, 6).padEnd(4, '0')}`;
}

export function nameOf(participant) {
  return participant.name || participant.identity.replace(/-[a-z0-9]{4}$/, '').replaceAll('-', ' ');
}
