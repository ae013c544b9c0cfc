// A server with objects of every kind.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// Creates objects of every kind on a server.
export async function fill(server, receiver) {
  for (const path of ['/ok', '/broken']) await server.call('POST', '/v1/webhook-endpoints', { url: receiver.url + path });
  const video = [['video', 'camera'], ['audio', 'microphone']];
  for (const name of ['standup', 'design-review', 'all-hands', 'retro']) {
    await server.call('POST', '/v1/rooms', { name, metadata: { team: 'blue', agenda: ['news', 'plans'] } });
  }
  const left = await server.join('standup', 'dora', 'guest', video);
  await server.join('standup', 'alice', 'host', [...video, ['video', 'screen_share']]);
  await server.join('standup', 'bob', 'guest', video);
  await server.join('standup', 'carol', 'guest', [['audio', 'microphone']]);
  await server.join('all-hands', 'erin', 'host', video);
  await server.leave(left);
  await server.call('DELETE', '/v1/rooms/retro');
  server.recording = await record(server, 'standup', 'monday.mp4');
  await server.call('POST', '/v1/rooms/standup/recordings', { type: 'room_composite' });
  await server.call('POST', '/v1/rooms/standup/broadcasts', { urls: ['rtmp://127.0.0.1/live/key'] });
  const ingress = { input_type: 'rtmp', participant_identity: 'stage', participant_name: 'Stage camera' };
  await server.call('POST', '/v1/rooms/all-hands/ingress', ingress);
  await server.call('POST', '/v1/rooms/standup/codes', { role: 'guest', max_uses: 10 });
  const roles = { teacher: { permissions: { end_room: true, mute_others: true, remove_others: true } }, pupil: {} };
  const template = await server.call('POST', '/v1/templates', { name: 'lesson', roles });
  const storage = { type: 's3', bucket: 'calls', region: 'eu-central-1', access_key: 'AKIAKEY', secret: 'hush' };
  const configs = [['stage', 'rtmp', { urls: ['rtmp://127.0.0.1/live/key'] }], ['archive', 'recording', storage]];
  for (const [name, kind, config] of configs) {
    await server.call('POST', `/v1/templates/${template.id}/destinations`, { name, kind, config });
  }
  server.template = template.id;
}

// Creates a complete recording with a file. Returns the path of its page.
export async function record(server, room, filepath) {
  const recording = await server.call('POST', `/v1/rooms/${room}/recordings`, { type: 'room_composite', filepath });
  await server.sandbox(`/sandbox/egress/${recording.egress_id}`, { status: 'complete' });
  const folder = join(server.data, 'recordings', server.project_id);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, filepath), 'not really a film');
  return `/projects/${server.project_id}/recordings/${recording.egress_id}`;
}
