// A participant's actions on others: mute and unmute, change the role, remove, ban, end the call. The server checks each of them again.

import { ask, open } from './dialogs.js';
import { element, make } from './dom.js';
import { nameOf, roleOf } from './names.js';
import { problem } from './notices.js';
import { text } from './texts.js';

const { RoomEvent, Track } = LivekitClient;
const SOURCES = { microphone: Track.Source.Microphone, camera: Track.Source.Camera, screen: Track.Source.ScreenShare };
const NOTHING = { permissions: {}, roles: [], title: null, running: [] };

export class Moderation {
  constructor(room, moderator, onChange) {
    Object.assign(this, { room, moderator, onChange, ...NOTHING });
    this.dialog = element('participant');
    element('change-role').onsubmit = (event) => {
      event.preventDefault();
      this.act((identity) => moderator.changeRole(identity, element('new-role').value));
    };
    element('remove').onclick = () => this.confirm('remove', (identity) => moderator.remove(identity));
    element('ban').onclick = () => this.confirm('ban', (identity) => moderator.ban(identity));
    room.on(RoomEvent.ParticipantDisconnected, (one) => {
      if (one === this.participant) this.dialog.close('');
    });
  }

  // Requests the abilities anew, as after a change of the own role. A request that fails, as while the connection is interrupted, changes nothing.
  async refresh() {
    Object.assign(this, await this.moderator.abilities().catch(() => ({})));
    this.onChange();
  }

  get canEnd() {
    return this.permissions.end_room === true;
  }

  get canModerate() {
    const { mute_others: mute, unmute_others: unmute, change_role: change, remove_others: remove } = this.permissions;
    return [mute, unmute, change, remove].includes(true);
  }

  show(participant) {
    this.participant = participant;
    element('participant-name').textContent = nameOf(participant);
    element('participant-tracks').replaceChildren(...this.trackButtons());
    const roles = this.roles.map((role) => make('option', { textContent: role, selected: role === roleOf(participant) }));
    element('new-role').replaceChildren(...roles);
    element('change-role').hidden = this.permissions.change_role !== true || roles.length < 2;
    for (const action of ['remove', 'ban']) element(action).hidden = this.permissions.remove_others !== true;
    open(this.dialog);
  }

  // The other participants whose microphones are on.
  unmuted() {
    return [...this.room.remoteParticipants.values()].filter(({ isMicrophoneEnabled }) => isMicrophoneEnabled);
  }

  // Mutes a track of a participant, such as the microphone. A track that has gone meanwhile needs no muting.
  async muteSource(participant, source) {
    const publication = participant.getTrackPublication(source);
    if (!publication || publication.isMuted) return;
    await this.moderator.mute(participant.identity, publication.trackSid, true).catch((error) => problem(error.message));
  }

  async muteAll() {
    if (!await ask(text('mute-all-question'), { mute: { key: 'mute-all' } })) return;
    for (const participant of this.unmuted()) await this.muteSource(participant, Track.Source.Microphone);
  }

  // A button for each track that the role may mute, or unmute.
  trackButtons() {
    return Object.entries(SOURCES).flatMap(([name, source]) => {
      const publication = this.participant.getTrackPublication(source);
      const isMuted = publication?.isMuted;
      const isAllowed = isMuted ? this.permissions.unmute_others : this.permissions.mute_others;
      if (!publication || !isAllowed) return [];
      const act = () => this.act((identity) => this.moderator.mute(identity, publication.trackSid, !isMuted));
      return [make('button', { type: 'button', textContent: text(`${isMuted ? 'unmute' : 'mute'}-${name}`), onclick: act })];
    });
  }

  async act(action) {
    this.dialog.close('');
    try {
      await action(this.participant.identity);
    } catch (error) {
      problem(error.message);
    }
  }

  // Asks before it removes or bans the participant: the texts have the name of the action as their key.
  async confirm(name, action) {
    this.dialog.close('');
    const question = text(`${name}-question`, { name: nameOf(this.participant) });
    if (await ask(question, { [name]: { key: name, kind: 'dangerous' } })) await this.act(action);
  }
}
