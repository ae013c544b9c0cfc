// The order of tiles: participants in the order in which they joined. A speaker on a later page changes places with the participant of the
// first page who has been silent for longest.

export class Order {
  constructor() {
    Object.assign(this, { keys: [], spoken: new Map() });
  }

  // Updates the participants who are present. The first of them, the user, is always first.
  update(present) {
    const [own, ...others] = present;
    const there = new Set(others);
    const stayed = this.keys.filter((key) => there.has(key));
    const known = new Set(stayed);
    this.keys = [own, ...stayed, ...others.filter((key) => !known.has(key))];
    for (const key of this.spoken.keys()) if (!there.has(key)) this.spoken.delete(key);
  }

  // Some speak now. `first` is how many the first page has.
  speak(speaking, first) {
    const now = performance.now();
    for (const key of speaking) this.spoken.set(key, now);
    for (const key of speaking) {
      const place = this.keys.indexOf(key);
      if (place >= first) this.exchange(place, this.longestSilent(first));
    }
  }

  // The last of those on the first page who have been silent for longest.
  longestSilent(first) {
    let found = 1;
    const since = (place) => this.spoken.get(this.keys[place]) ?? 0;
    for (let place = 2; place < first; place += 1) if (since(place) <= since(found)) found = place;
    return found;
  }

  exchange(one, other) {
    [this.keys[one], this.keys[other]] = [this.keys[other], this.keys[one]];
  }
}
