// The browser's memory of the name, the devices and the language. Without storage, as in some frames, the page remembers nothing.

const KEY = 'conclave-call';

export function remembered() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY));
    return stored && typeof stored === 'object' ? stored : {};
  } catch {
    return {};
  }
}

export function remember(values) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...remembered(), ...values }));
  } catch {
    // The next call asks again.
  }
}
