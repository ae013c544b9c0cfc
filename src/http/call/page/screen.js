// The call's use of the user's screen: all of it, or a small window with the speaker's video, which stays above other programs. Firefox has
// that window beside the page's own means.

import { element } from './dom.js';
import { setIcon } from './icons.js';
import { notice, problem } from './notices.js';
import { text } from './texts.js';

function name(button, key) {
  button.lastElementChild.dataset.text = key;
  button.lastElementChild.textContent = text(key);
}

export class FullScreen {
  constructor() {
    this.button = element('full-screen');
    this.button.hidden = !document.fullscreenEnabled;
    this.button.onclick = () => this.toggle();
    document.onfullscreenchange = () => this.show();
    this.show();
  }

  async toggle() {
    if (this.button.hidden) return;
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await document.documentElement.requestFullscreen();
    } catch (error) {
      problem(error.message);
    }
  }

  close() {
    if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
  }

  show() {
    const key = document.fullscreenElement ? 'full-screen-end' : 'full-screen';
    setIcon(this.button, key);
    name(this.button, key);
  }
}

export class Floating {
  // `choose` returns the track of video to show, if there is one.
  constructor(choose) {
    Object.assign(this, { choose, button: element('floating'), video: element('floating-picture'), track: null });
    this.button.hidden = document.pictureInPictureEnabled !== true;
    this.button.onclick = () => this.toggle().catch((error) => problem(error.message));
    this.video.onenterpictureinpicture = () => this.show();
    this.video.onleavepictureinpicture = () => {
      this.use(null);
      this.show();
    };
    this.show();
  }

  get isOpen() {
    return document.pictureInPictureElement === this.video;
  }

  async toggle() {
    if (this.isOpen) {
      await document.exitPictureInPicture();
      return;
    }
    const track = this.choose();
    if (!track) {
      notice(text('floating-none'));
      return;
    }
    this.use(track);
    try {
      if (this.video.readyState < HTMLMediaElement.HAVE_METADATA) {
        await new Promise((resolve) => { this.video.addEventListener('loadedmetadata', resolve, { once: true }); });
      }
      await this.video.requestPictureInPicture();
    } catch (error) {
      // Otherwise the server would send the video for as long as the call lasts, also while no tile shows it.
      this.use(null);
      throw error;
    }
  }

  use(track) {
    if (track === this.track) return;
    this.track?.detach(this.video);
    this.track = track;
    track?.attach(this.video);
  }

  // Switches the window to another video, when the speaker changes or a video has come or gone.
  follow() {
    if (this.isOpen) this.use(this.choose() ?? null);
  }

  close() {
    if (this.isOpen) document.exitPictureInPicture().catch(() => {});
    this.use(null);
  }

  show() {
    name(this.button, this.isOpen ? 'floating-end' : 'floating');
  }
}
