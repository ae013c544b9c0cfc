// A tile: a participant, or the screen that one shares. Until the first frame of a camera, and without one, it shows initials.

import { make } from './dom.js';
import { fillIcons } from './icons.js';
import { LANDSCAPE, PORTRAIT } from './layout.js';
import { initialsCircle, initialsOf, nameOf } from './names.js';
import { label, text } from './texts.js';

const { Track } = LivekitClient;
const QUALITIES = ['excellent', 'good', 'poor', 'lost'];

function button(iconName, key, onclick) {
  const made = make('button', { type: 'button', className: 'small', dataset: { icon: iconName }, onclick });
  label(made, key);
  return made;
}

export class Tile {
  // `actions` are `pin` and `more`, for the participant, and `resized`, for a new shape of its video.
  constructor(participant, kind, actions) {
    Object.assign(this, { participant, isScreen: kind === 'screen', resized: actions.resized });
    this.pin = button('pin', 'pin', () => actions.pin(this));
    this.more = button('more', 'more', () => actions.more(participant));
    this.hand = make('span', { className: 'hand', dataset: { icon: 'hand' } });
    this.initials = initialsCircle(participant);
    this.name = make('bdi', { className: 'name' });
    this.quality = make('span', { className: 'quality' }, make('i'), make('i'), make('i'));
    this.muted = make('span', { className: 'muted', dataset: { icon: 'microphone-off' } });
    this.root = make('div', { className: `tile ${kind}`, attributes: { role: 'group' } },
      this.initials, this.hand,
      make('div', { className: 'label' }, this.muted, this.name, this.quality),
      make('div', { className: 'actions' }, this.pin, this.more));
    this.root.classList.toggle('own', participant.isLocal);
    fillIcons(this.root);
  }

  // `view` is the call's state for the tile: raised hands, the pinned tile, and whether the user may moderate.
  update(view) {
    const { participant, isScreen } = this;
    const name = nameOf(participant);
    const title = isScreen ? text('screen-of', { name }) : name + (participant.isLocal ? ` (${text('you')})` : '');
    const isRaised = !isScreen && view.isRaised(participant);
    this.initials.textContent = initialsOf(name);
    this.name.textContent = title;
    this.muted.hidden = isScreen || participant.isMicrophoneEnabled;
    this.hand.hidden = !isRaised;
    this.root.classList.toggle('speaking', !isScreen && participant.isSpeaking);
    this.showQuality(isScreen ? 'unknown' : view.isCutOff ? 'lost' : participant.connectionQuality);
    this.more.hidden = participant.isLocal || !view.canModerate;
    label(this.pin, view.pinned === this.key ? 'unpin' : 'pin');
    this.pin.setAttribute('aria-label', `${this.pin.title}: ${title}`);
    this.more.setAttribute('aria-label', `${text('more')}: ${title}`);
    const states = [title, !this.muted.hidden && text('muted'), isRaised && text('hand-raised')];
    this.root.setAttribute('aria-label', states.filter(Boolean).join(', '));
    this.showVideo();
  }

  showQuality(quality) {
    this.quality.hidden = !QUALITIES.includes(quality);
    this.quality.dataset.quality = quality;
    if (this.quality.hidden) return;
    this.quality.title = text(`quality-${quality}`);
    this.quality.setAttribute('role', 'img');
    this.quality.setAttribute('aria-label', this.quality.title);
  }

  // The tile's ratio. Cameras are landscape or portrait, whatever they send; a screen keeps its own ratio, so that nothing is cut off.
  get ratio() {
    const { videoWidth: width = 0, videoHeight: height = 0 } = this.video ?? {};
    if (width === 0 || height === 0) return LANDSCAPE;
    if (this.isScreen) return width / height;
    return width < height ? PORTRAIT : LANDSCAPE;
  }

  resize({ width, height }) {
    Object.assign(this.root.style, { left: '', top: '', width: `${width}px`, height: `${height}px` });
  }

  place({ left, top, width, height }) {
    Object.assign(this.root.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
  }

  // The video element is kept while its track is, so that it does not flicker.
  showVideo() {
    const source = this.isScreen ? Track.Source.ScreenShare : Track.Source.Camera;
    const publication = this.participant.getTrackPublication(source);
    const track = publication && !publication.isMuted ? publication.videoTrack : undefined;
    if (track === this.track) return;
    this.removeVideo();
    this.track = track;
    if (!track) return;
    const video = track.attach();
    // Some browsers would read it as a film with controls.
    video.setAttribute('aria-hidden', 'true');
    video.tabIndex = -1;
    // Video has a size from its first frame on. Until then the element would be a black area.
    video.onresize = () => this.showPicture();
    this.video = video;
    this.root.prepend(video);
    this.showPicture();
  }

  showPicture() {
    this.root.classList.toggle('has-picture', this.video?.videoWidth > 0);
    this.resized();
  }

  removeVideo() {
    // The track may be shown in a small window, too.
    if (this.video) this.track.detach(this.video);
    this.video?.remove();
    this.video = null;
    this.root.classList.remove('has-picture');
  }

  remove() {
    this.removeVideo();
    this.track = null;
    this.root.remove();
  }
}
