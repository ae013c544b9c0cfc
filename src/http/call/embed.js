// Defines <conclave-call>: a call of this server in a page of its own. Load it with <script src="https://…/embed.js"></script>; the
// page's origin must be one of `http.embed_origins`. docs/embedding.md describes attributes, events and methods.
(() => {
  const NAME = 'conclave-call';
  const script = document.currentScript;
  if (!script) throw new Error(`load ${NAME} with a <script> element, not as a module`);
  if (customElements.get(NAME)) return;

  const SERVER = new URL(script.src).origin;
  const ATTRIBUTES = ['code', 'token', 'url', 'name', 'title', 'layout', 'chat', 'language', 'max-tiles', 'controls'];
  // Boolean attributes: on if present, whatever their value.
  const SWITCHES = ['skip-lobby', 'start-muted', 'start-camera-off'];
  const VARIABLES = ['accent', 'background', 'panel', 'tile', 'text', 'quiet', 'border', 'live', 'danger', 'radius', 'font'];
  const EVENTS = ['joined', 'left', 'participant-joined', 'role-changed', 'recording-changed', 'ending', 'ended', 'error'];
  // Permissions that are delegated to the call page, but not to frames inside it.
  const ALLOWED = ['camera', 'microphone', 'display-capture', 'speaker-selection', 'autoplay', 'fullscreen', 'clipboard-write'];
  // The call page sends a message as soon as it has loaded. A page that the browser does not show sends none.
  const LOADED_MS = 5_000;

  // Without a height from the embedding page, the element is as high as an empty block. A height from the page always applies, also if it
  // comes from `aspect-ratio`, `max-height` or a flex container.
  const STYLES = new CSSStyleSheet();
  STYLES.replaceSync(`
    :host { display: block; position: relative; overflow: hidden }
    :host([hidden]) { display: none }
    :host::before { content: ""; display: block; width: 20rem; height: 30rem }
    iframe { position: absolute; inset: 0; width: 100%; height: 100%; border: 0 }
  `);

  class ConclaveCall extends HTMLElement {
    static observedAttributes = [...ATTRIBUTES, ...SWITCHES, 'class', 'style'];
    #root = this.attachShadow({ mode: 'closed' });
    #frame = null;
    #isReady = false;
    #isRefused = false;
    #calls = new Map();
    #inviteLink = null;
    #lastCall = 0;
    #timer;
    #listener = (event) => this.#receive(event);

    constructor() {
      super();
      this.#root.adoptedStyleSheets = [STYLES];
    }

    connectedCallback() {
      // Set before the script was there.
      if (Object.hasOwn(this, 'inviteLink')) {
        const { inviteLink } = this;
        delete this.inviteLink;
        this.inviteLink = inviteLink;
      }
      const frame = document.createElement('iframe');
      frame.allow = ALLOWED.join('; ');
      frame.src = `${SERVER}/call?parent=${encodeURIComponent(location.origin)}`;
      frame.addEventListener('load', () => this.#expect(), { once: true });
      addEventListener('message', this.#listener);
      frame.part = 'frame';
      this.#frame = frame;
      this.#nameFrame();
      this.#root.append(frame);
    }

    disconnectedCallback() {
      clearTimeout(this.#timer);
      removeEventListener('message', this.#listener);
      this.#frame.remove();
      this.#frame = null;
      this.#isReady = false;
      this.#isRefused = false;
      for (const { reject } of this.#calls.values()) reject(failure('no_call', 'the element was removed'));
      this.#calls.clear();
    }

    attributeChangedCallback() {
      this.#nameFrame();
      if (this.#isReady) this.#setUp();
    }

    // A function that returns a link which invites others, or a promise of one. With it, the call has a button that copies the link.
    get inviteLink() {
      return this.#inviteLink;
    }

    set inviteLink(make) {
      this.#inviteLink = typeof make === 'function' ? make : null;
      if (this.#isReady) this.#setUp();
    }

    // Mutes the microphone, or unmutes it with `false`.
    mute(isMuted = true) {
      return this.#call('mute', isMuted);
    }

    // Turns the camera off, or on with `false`.
    muteCamera(isMuted = true) {
      return this.#call('muteCamera', isMuted);
    }

    // Shares the screen, or ends that with `false`. Browsers ask the user which screen.
    share(isShared = true) {
      return this.#call('share', isShared);
    }

    // Leaves the call.
    leave() {
      return this.#call('leave', true);
    }

    #call(method, value) {
      if (!this.#isReady) return Promise.reject(failure('no_call', 'the call page has not loaded'));
      this.#lastCall += 1;
      const id = this.#lastCall;
      const result = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
      this.#post({ type: 'call', id, method, value: Boolean(value) }, method === 'share' && value);
      return result;
    }

    #nameFrame() {
      if (this.#frame) this.#frame.title = this.getAttribute('title') ?? 'Call';
    }

    #setUp() {
      const given = [...ATTRIBUTES, ...SWITCHES].filter((name) => this.hasAttribute(name)).map((name) => [name, this.getAttribute(name)]);
      const style = getComputedStyle(this);
      const styles = VARIABLES.map((name) => [name, style.getPropertyValue(`--conclave-${name}`).trim()]).filter(([, value]) => value);
      this.#post({ type: 'setup', ...Object.fromEntries(given), styles: Object.fromEntries(styles), invites: this.#inviteLink !== null });
    }

    // A click in this page lets the frame share the screen, where the browser can delegate that.
    #post(message, needsScreen = false) {
      const options = { targetOrigin: SERVER, ...(needsScreen && navigator.userActivation?.isActive && { delegate: 'display-capture' }) };
      this.#frame.contentWindow.postMessage({ conclave: 1, ...message }, options);
    }

    #receive({ source, origin, data }) {
      if (source !== this.#frame?.contentWindow || origin !== SERVER || data?.conclave !== 1) return;
      if (data.type === 'ready') {
        clearTimeout(this.#timer);
        this.#isReady = true;
        this.#setUp();
      }
      if (data.type === 'refused') this.#refuse();
      if (data.type === 'event' && EVENTS.includes(data.name)) this.#dispatch(data.name, data.detail);
      if (data.type === 'result') this.#finish(data);
      if (data.type === 'ask' && data.name === 'invite-link') this.#invite(data);
    }

    async #invite({ id, detail }) {
      const frame = this.#frame;
      const answer = await this.#makeLink(detail).then((value) => ({ value }), (error) => ({ error: String(error?.message ?? error) }));
      // The element may have been removed meanwhile, and have another frame.
      if (this.#frame === frame) this.#post({ type: 'answer', id, ...answer });
    }

    async #makeLink(detail) {
      return String(await this.#inviteLink(detail));
    }

    #finish({ id, error }) {
      const { resolve, reject } = this.#calls.get(id) ?? {};
      this.#calls.delete(id);
      if (error) reject?.(failure(error.code, error.message));
      else resolve?.();
    }

    #expect() {
      if (this.#isReady || this.#isRefused) return;
      this.#timer = setTimeout(() => this.#refuse(), LOADED_MS);
    }

    // Reports the failure only once: the page that explains the refusal loads as well and sends its own message.
    #refuse() {
      clearTimeout(this.#timer);
      if (this.#isRefused) return;
      this.#isRefused = true;
      this.#dispatch('error', { code: 'not_loaded', message: `${SERVER} has no call page, or ${location.origin} is not in http.embed_origins` });
    }

    #dispatch(name, detail) {
      this.dispatchEvent(new CustomEvent(name, { detail }));
    }
  }

  function failure(code, message) {
    return Object.assign(new Error(message), { code });
  }

  customElements.define(NAME, ConclaveCall);
})();
