// Before the call: who joins what, and with which devices.

import { Preview, explainAll, fillDevices } from './devices.js';
import { element } from './dom.js';
import { setIcon } from './icons.js';
import { remember, remembered } from './memory.js';
import { cleanName, initialsOf, nameInToken } from './names.js';
import { playTestSound } from './sound.js';
import { onLanguage, text } from './texts.js';

const DEVICES = ['microphone', 'camera'];
// Errors after which another code may do.
const WRONG_CODES = ['invalid_code', 'code_not_found'];

export class Lobby {
  // `join` gets the form's entry. It resolves when the call has started, with `false` if the user declined, and rejects with an error.
  constructor({ isDev, join }) {
    Object.assign(this, { isDev, join, form: element('join'), given: {}, problems: {}, notChosen: new Set() });
    this.preview = new Preview(element('preview'), element('level'));
    this.isOn = Object.fromEntries(DEVICES.map((device) => [device, remembered()[device] !== false]));
    this.form.name.value = remembered().name ?? '';
    this.form.name.oninput = () => this.showInitials();
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.submit();
    };
    for (const device of DEVICES) {
      element(`${device}-before`).onclick = () => this.turn(device, !this.isOn[device]);
      element(`${device}-list`).onchange = () => this.turn(device, true);
    }
    element('test-sound-before').onclick = () => playTestSound(element('speaker-list').value).catch((error) => this.say({ error: error.message }));
    navigator.mediaDevices?.addEventListener('devicechange', () => {
      if (!element('lobby').hidden) this.listDevices();
    });
    onLanguage(() => this.showDevices());
    this.showInitials();
  }

  // Hides the fields whose values are given beforehand: a room code, or a room token with its URL; and a name.
  admit({ code = '', token = '', url = '', name = '' }) {
    this.given = { code, token, url };
    const hasToken = token !== '';
    if (name) this.form.name.value = cleanName(name.slice(0, this.form.name.maxLength));
    if (hasToken) this.form.name.value = nameInToken(token);
    this.form.name.readOnly = hasToken;
    this.form.code.value = code;
    element('by-code').hidden = hasToken || code !== '';
    element('by-room').hidden = !this.isDev || hasToken || code !== '';
    this.form.code.required = !this.isDev && !hasToken;
    this.showInitials();
  }

  // The embedding page turns a device off at first. The user has not chosen that, so it is not remembered, nor is a device that fails.
  startWithout(device) {
    this.isOn[device] = false;
    this.notChosen.add(device);
  }

  async show(message = '') {
    element('lobby').hidden = false;
    this.say({ error: message });
    for (const device of DEVICES) await this.turn(device, this.isOn[device], { isAsked: false });
  }

  // Whether devices are tried. While the user joins, they are no longer.
  get isShown() {
    return !this.isJoining && !element('lobby').hidden;
  }

  // Shows a status or an error below the form.
  say({ status = '', error = '' }) {
    element('join-status').textContent = status;
    element('join-error').textContent = error;
  }

  // Shows the wait after the server's rate limit has refused a request.
  wait(seconds) {
    this.say({ status: text('waiting', { seconds }) });
  }

  setJoining(isJoining) {
    this.isJoining = isJoining;
    this.form.submit.disabled = isJoining;
    this.form.submit.dataset.text = isJoining ? 'joining' : 'join';
    this.form.submit.textContent = text(this.form.submit.dataset.text);
    if (!isJoining) element('join-status').textContent = '';
  }

  async submit() {
    const { form } = this;
    const { token, url } = this.given;
    const name = token ? form.name.value : cleanName(form.name.value);
    if (!name && !token) {
      form.name.value = '';
      form.name.reportValidity();
      return;
    }
    this.say({});
    this.setJoining(true);
    const devices = this.devices();
    const chosen = Object.entries(devices).filter(([key]) => !this.notChosen.has(key));
    remember({ ...Object.fromEntries(chosen), ...(!token && { name }) });
    this.preview.end();
    const code = form.code.value.trim().toLowerCase();
    try {
      const hasJoined = await this.join({ token, url, code, room: form.room.value, role: form.role.value, name }, devices);
      this.setJoining(false);
      if (!hasJoined) await this.show();
    } catch (error) {
      this.setJoining(false);
      this.fail(error);
    }
  }

  // Joins at once. Until then, and if that fails, the form is there; the devices are tried only then.
  skip() {
    element('lobby').hidden = false;
    return this.submit();
  }

  fail(error) {
    this.show(error.message);
    if (this.offerCode(error) && document.hasFocus()) this.form.code.focus();
  }

  // A code that admits to nothing can be replaced.
  offerCode(error) {
    const isWrong = WRONG_CODES.includes(error.code);
    if (isWrong) element('by-code').hidden = false;
    return isWrong;
  }

  // Shows that a given value is invalid, before the user joins.
  refuse(error) {
    this.say({ error: error.message });
    this.offerCode(error);
  }

  devices() {
    const ids = ['microphone', 'camera', 'speaker'].map((device) => [`${device}Id`, element(`${device}-list`).value || remembered()[`${device}Id`] || '']);
    return { ...this.isOn, ...Object.fromEntries(ids) };
  }

  // Turns a device on or off. Not `isAsked`, it is as remembered.
  async turn(device, isOn, { isAsked = true } = {}) {
    const chosen = isAsked ? element(`${device}-list`).value : remembered()[`${device}Id`];
    this.isOn[device] = isOn;
    if (isAsked) this.notChosen.delete(device);
    delete this.problems[device];
    this.showDevices();
    try {
      if (isOn && this.isShown) await this.preview.start(device, chosen);
      else this.preview.stop(device);
    } catch (error) {
      this.isOn[device] = false;
      this.notChosen.add(device);
      this.problems[device] = error;
    }
    // The user may have joined meanwhile.
    if (!this.isShown) this.preview.end();
    this.showDevices();
    await this.listDevices();
  }

  async listDevices() {
    for (const device of [...DEVICES, 'speaker']) {
      const select = element(`${device}-list`);
      await fillDevices(select, device, select.value || remembered()[`${device}Id`]);
    }
  }

  showDevices() {
    for (const device of DEVICES) {
      const button = element(`${device}-before`);
      button.setAttribute('aria-pressed', String(this.isOn[device]));
      setIcon(button, this.isOn[device] ? device : `${device}-off`);
    }
    element('preview').hidden = !this.isOn.camera;
    element('level').hidden = !this.isOn.microphone;
    // The same text again would be read aloud again.
    const problem = explainAll(this.problems);
    if (element('device-problem').textContent !== problem) element('device-problem').textContent = problem;
    element('camera-off').textContent = this.isOn.camera ? '' : text('camera-is-off');
  }

  showInitials() {
    element('own-initials').textContent = initialsOf(this.form.name.value);
  }
}
