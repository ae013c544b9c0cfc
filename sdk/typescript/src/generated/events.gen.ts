// Written by sdk/generate from the description of the API.
import type { WebhookEvent } from "./types.gen.js";

/** Each event, and whether it is about a room. */
export const EVENTS: Record<WebhookEvent["type"], boolean> = {
  "room.started": true,
  "room.finished": true,
  "participant.joined": true,
  "participant.left": true,
  "participant.connection_aborted": true,
  "participant.role_changed": true,
  "participant.publish_limit_exceeded": true,
  "participant.publish_limit_cleared": true,
  "track.published": true,
  "track.unpublished": true,
  "recording.started": true,
  "recording.updated": true,
  "recording.ended": true,
  "recording.failed": true,
  "broadcast.started": true,
  "broadcast.updated": true,
  "broadcast.ended": true,
  "broadcast.failed": true,
  "ingress.started": true,
  "ingress.ended": true,
  "webhook.endpoint_disabled": false,
  "webhook.test": false,
};
