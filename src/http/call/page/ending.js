// The notice that the call ends because the room has a maximum duration: a data message of the server with the topic
// `conclave.room-ending`, `{"ends_at": "2026-01-31T13:00:00.000Z", "seconds_left": 60}`.

import { notice } from './notices.js';
import { text } from './texts.js';

const { RoomEvent } = LivekitClient;
const TOPIC = 'conclave.room-ending';

// Shows the notice, and passes the seconds that are left to `onNotice`.
export function watchEnding(room, onNotice) {
  room.on(RoomEvent.DataReceived, (bytes, participant, _kind, topic, _encryption, sender) => {
    // Participants cannot send it: their messages have a sender, also before it is known as a participant, and after it has left.
    if (topic !== TOPIC || participant || sender) return;
    const seconds = secondsIn(bytes);
    if (!Number.isSafeInteger(seconds)) return;
    notice(text('ends-soon', { seconds }));
    onNotice(seconds);
  });
}

function secondsIn(bytes) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)).seconds_left;
  } catch {
    // A backend uses the topic for something else.
    return null;
  }
}
