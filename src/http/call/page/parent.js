// Messages to and from the page that shows this one in a frame. Only one origin sends and receives them: the frame's address names it, and
// `http.embed_origins` must allow it. Other messages are ignored.

const ALLOWED = document.body.dataset.parents.split(' ').filter(Boolean);
// Nothing that a page sends is longer than a room token.
const MOST_CHARACTERS = 10_000;
const TEXTS = ['code', 'token', 'url', 'name', 'title', 'layout', 'chat', 'language', 'max-tiles', 'controls'];
const SWITCHES = { 'skip-lobby': 'skipsLobby', 'start-muted': 'startsMuted', 'start-camera-off': 'startsWithoutCamera' };
const STYLES = ['accent', 'background', 'panel', 'tile', 'text', 'quiet', 'border', 'live', 'danger', 'radius', 'font'];

function texts(source, names) {
  const given = names.filter((name) => typeof source?.[name] === 'string' && source[name].length <= MOST_CHARACTERS);
  return Object.fromEntries(given.map((name) => [name, source[name]]));
}

// Whether an origin is allowed. An allowed origin that ends with `:*` matches any port.
function isAllowed(origin) {
  return ALLOWED.some((allowed) => {
    if (!allowed.endsWith(':*')) return origin === allowed;
    const host = allowed.slice(0, -2);
    return origin === host || origin?.startsWith(`${host}:`);
  });
}

function switches(source) {
  return Object.fromEntries(Object.entries(SWITCHES).map(([name, key]) => [key, typeof source[name] === 'string']));
}

export class Parent {
  // `setUp` gets the embedding page's settings for the call; `methods` are the functions that it may call.
  constructor({ setUp, methods }) {
    const origin = new URLSearchParams(location.search).get('parent');
    this.isFramed = window.parent !== window;
    this.origin = this.isFramed && isAllowed(origin) ? origin : null;
    // Whether the page makes links that invite others.
    this.invites = false;
    this.asked = new Map();
    this.lastAsked = 0;
    if (!this.origin) return;
    addEventListener('message', ({ source, origin: sender, data }) => {
      if (source !== window.parent || sender !== this.origin || data?.conclave !== 1) return;
      if (data.type === 'setup') this.invites = data.invites === true;
      if (data.type === 'answer') this.answer(data);
      if (data.type === 'setup') setUp({ ...texts(data, TEXTS), ...switches(data), styles: texts(data.styles, STYLES) });
      if (data.type === 'call') this.call(methods, data);
    });
  }

  // Whether another page decides what is joined.
  get decides() {
    return this.origin !== null;
  }

  ready() {
    this.post({ type: 'ready' });
  }

  emit(name, detail = {}) {
    this.post({ type: 'event', name, detail });
  }

  async call(methods, { id, method, value }) {
    if (!Number.isSafeInteger(id)) return;
    try {
      if (!Object.hasOwn(methods, method)) throw Object.assign(new Error('no such method'), { code: 'no_such_method' });
      await methods[method](value === true);
      this.post({ type: 'result', id });
    } catch (error) {
      this.post({ type: 'result', id, error: { code: error.code ?? 'failed', message: String(error.message) } });
    }
  }

  // Asks the page for something, which comes as a text.
  ask(name, detail) {
    this.lastAsked += 1;
    const id = this.lastAsked;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { resolve, reject });
      this.post({ type: 'ask', id, name, detail });
    });
  }

  answer({ id, value, error }) {
    const { resolve, reject } = this.asked.get(id) ?? {};
    this.asked.delete(id);
    if (typeof value === 'string' && value.length <= MOST_CHARACTERS) resolve?.(value);
    else reject?.(new Error(typeof error === 'string' ? error : 'no text'));
  }

  post(message) {
    if (this.origin) window.parent.postMessage({ conclave: 1, ...message }, this.origin);
  }
}
