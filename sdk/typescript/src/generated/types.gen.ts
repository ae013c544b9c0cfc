// Written by sdk/generate from the description of the API.

/** The code of an error of the API. */
export type ApiErrorCode =
  | "invalid_request"
  | "invalid_room_name"
  | "invalid_identity"
  | "invalid_url"
  | "blocked_url"
  | "invalid_filepath"
  | "unauthorized"
  | "permission_denied"
  | "origin_rejected"
  | "room_limit_reached"
  | "quota_exceeded"
  | "feature_not_in_plan"
  | "insufficient_balance"
  | "not_found"
  | "room_not_found"
  | "participant_not_found"
  | "track_not_found"
  | "session_not_found"
  | "template_not_found"
  | "role_not_found"
  | "destination_not_found"
  | "recording_not_found"
  | "broadcast_not_found"
  | "ingress_not_found"
  | "endpoint_not_found"
  | "delivery_not_found"
  | "code_not_found"
  | "ban_not_found"
  | "method_not_allowed"
  | "request_timeout"
  | "room_exists"
  | "room_ended"
  | "idempotency_key_reuse"
  | "recording_exists"
  | "recording_ended"
  | "broadcast_exists"
  | "ingress_exists"
  | "encoder_connected"
  | "template_exists"
  | "template_in_use"
  | "template_is_default"
  | "destination_exists"
  | "destination_in_use"
  | "role_capacity_reached"
  | "identity_taken"
  | "identity_banned"
  | "ban_limit_reached"
  | "role_referenced"
  | "delivery_not_retryable"
  | "precondition_failed"
  | "payload_too_large"
  | "unsupported_media_type"
  | "precondition_required"
  | "rate_limited"
  | "internal_error"
  | "database_unavailable"
  | "billing_unavailable"
  | "destination_unusable"
  | "media_unavailable"
  | "encryption_unavailable"
  | (string & {});

/** An audio codec. */
export type AudioCodec =
  | "opus"
  | (string & {});

/** The encoding of audio. */
export interface AudioProfile {
  /** The audio codec; only Opus today. */
  codec: AudioCodec;
  /** Bitrate in kilobits a second. */
  max_kbps: number;
}

/** AudioProfile as a caller sends it. */
export interface AudioProfileInput {
  /** The audio codec; default opus. */
  codec?: AudioCodec | undefined;
  /** Bitrate in kilobits a second; default 32. */
  max_kbps?: number | undefined;
}

/** Azure Blob Storage. */
export interface AzureDestinationConfig {
  /** The account's key; reads back as `***`. */
  account_key?: string | undefined;
  /** The account's name. */
  account_name: string;
  /** The container that files are written to. */
  container: string;
  /** A prefix of each file's path. */
  prefix?: string | undefined;
  /** The value of `type` in a configuration for Azure Blob Storage. */
  type: "azure";
}

/** An identity that may not join a room. */
export interface Ban {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** The id of a ban of an identity from a room. */
  id: string;
  /**
   * The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
   * as steps in a path.
   */
  identity: string;
  reason?: string;
  /** The name of a room, which a project uses once. */
  room: string;
  /** The identity may join again from this time on; absent: the ban lasts until it is lifted. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  until?: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
}

/** A page of a list. */
export interface BanPage {
  bans: Ban[];
  has_more: boolean;
  limit: number;
  offset: number;
}

/** A ban's terms. */
export interface BanParticipant {
  reason?: string | undefined;
  /** The end of the ban, in the future; absent: until it is lifted. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  until?: string | undefined;
}

/** A broadcast. */
export interface Broadcast {
  /** Id for later calls. */
  egress_id: string;
  /** The key of a recording's or a broadcast's record. */
  id: string;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** The name of a room, which a project uses once. */
  room: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** Destination that was used, if one was named. */
  destination?: string;
  /** The id of a destination: `dst_` and twelve lower-case hex digits. */
  destination_id?: string;
  /** Absent until the status is final. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  ended_at?: string;
  /** Set when the status is `failed`. */
  error?: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  started_at: string;
  /** The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four. */
  status: EgressStatus;
  /** The receiving URLs, each stream key replaced by `REDACTED`. */
  urls: string[];
}

/** A broadcast is final. */
export interface BroadcastEndedEvent {
  type: "broadcast.ended";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the broadcast. */
  egress_id: string;
  /** Its status at the time of the event. */
  broadcast_status: EgressStatus;
}

/** A broadcast has failed; sent instead of `broadcast.ended`. */
export interface BroadcastFailedEvent {
  type: "broadcast.failed";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the broadcast. */
  egress_id: string;
  /** Its status at the time of the event. */
  broadcast_status: EgressStatus;
}

/** A page of a list. */
export interface BroadcastPage {
  broadcasts: Broadcast[];
  has_more: boolean;
  limit: number;
  offset: number;
}

/** A broadcast has started. */
export interface BroadcastStartedEvent {
  type: "broadcast.started";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the broadcast. */
  egress_id: string;
  /** Its status at the time of the event. */
  broadcast_status: EgressStatus;
}

/** The status of a broadcast has changed, and is not final. */
export interface BroadcastUpdatedEvent {
  type: "broadcast.updated";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the broadcast. */
  egress_id: string;
  /** Its status at the time of the event. */
  broadcast_status: EgressStatus;
}

/** A participant's new role. */
export interface ChangeRole {
  /** A role in the room's template. */
  role: string;
}

/** The client's program. A text is empty if the client does not state it. */
export interface ClientProgram {
  /** With its version. */
  browser: string;
  os: string;
  /** Such as `js`. */
  sdk: string;
  /** The SDK's version. */
  version: string;
}

/** A room code to create. */
export interface CreateCode {
  /** 60 seconds to 30 days from now. Mutually exclusive with `ttl_seconds`. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  expires_at?: string | undefined;
  /** Locks the code to one identity. */
  identity?: string | undefined;
  /** Maximum number of exchanges; null or omitted: unlimited. */
  max_uses?: number | null | undefined;
  /** A role of the room's template, which the tokens get. */
  role: string;
  /** Default 86400. Mutually exclusive with `expires_at`. */
  ttl_seconds?: number | undefined;
}

/** A destination to create, by its kind. */
export type CreateDestination =
  | CreateRecordingDestination
  | CreateRtmpDestination;

/** An ingress endpoint to create. */
export interface CreateIngress {
  /** Null or omitted: the media plane's default for the input type. */
  enable_transcoding?: boolean | null | undefined;
  /** Protocol that the encoder publishes with. */
  input_type: IngressInputType;
  /** Identity with which the encoder joins. */
  participant_identity: string;
  /** Display name with which the encoder joins. */
  participant_name?: string | undefined;
}

/** A recording destination to create. */
export interface CreateRecordingDestination {
  /** Storage that files are written to. */
  config: NewRecordingDestinationConfig;
  /** Always `recording`. */
  kind: "recording";
  /** Unique in the template. */
  name: string;
}

/** A room to create. */
export interface CreateRoom {
  /** Time in seconds that the room stays open without participants; default 300. */
  empty_timeout_seconds?: number | null | undefined;
  max_duration_seconds?: number | undefined;
  /** Maximum number of participants; default 0, the plan's limit. */
  max_participants?: number | undefined;
  /** Any JSON, returned unchanged. */
  metadata?: unknown;
  /** Never used before in the project. */
  name: string;
  /** The project's default template when absent. */
  template_id?: string | undefined;
}

/** A broadcast destination to create. */
export interface CreateRtmpDestination {
  /** URLs that broadcasts are sent to. */
  config: RtmpDestinationConfig;
  /** Always `rtmp`. */
  kind: "rtmp";
  /** Unique in the template. */
  name: string;
}

/** A template to create. */
export interface CreateTemplate {
  /** Unique in the project. */
  name: string;
  /** Keyed by role name. */
  roles?: Record<string, RoleInput> | undefined;
  /** Settings of a template to create or change. */
  settings?: TemplateSettingsInput | undefined;
}

/** A token to mint. */
export interface CreateToken {
  /** The participant's identity. */
  identity: string;
  /** Forwarded to the media plane unchanged. */
  metadata?: string | undefined;
  /** The participant's display name. */
  name?: string | undefined;
  /** Used only when no role is named. */
  permissions?: TokenPermissions | undefined;
  /** A role in the room's template; it replaces `permissions`. */
  role?: string | undefined;
  /** An existing room. */
  room: string;
  /** Default 3600, clamped to 60..86400; 0 means the default. */
  ttl_seconds?: number | undefined;
}

/** A webhook endpoint to register. */
export interface CreateWebhookEndpoint {
  /** http or https, resolving to a public address. */
  url: string;
}

/** The delivery of a data message. */
export type DataKind =
  | "reliable"
  | "lossy"
  | (string & {});

/** Response to a sent message. */
export interface DataSent {
  /** Size of the decoded message. */
  bytes: number;
  /** Whether the media plane accepted the message; always true. */
  sent: boolean;
}

/** The status of a delivery. A retry makes a failed delivery pending again. */
export type DeliveryStatus =
  | "pending"
  | "delivered"
  | "failed"
  | (string & {});

/** A destination. */
export type Destination =
  | RecordingDestination
  | RtmpDestination;

/** By the destination's kind: object storage for recordings, or URLs for broadcasts. */
export type DestinationConfig =
  | RecordingDestinationConfig
  | RtmpDestinationConfig;

/** Purpose of a destination. */
export type DestinationKind =
  | "recording"
  | "rtmp"
  | (string & {});

/** All of a template's destinations, newest first. */
export interface DestinationList {
  destinations: Destination[];
}

/** A session's media in one direction. */
export interface DirectionQuality {
  /** In the order of first use. */
  codecs: string[];
  /** Mean frames per second of the largest video. */
  frame_rate?: number;
  /** Freezes of videos from cameras. */
  freezes: number;
  /** Total length of the freezes. */
  frozen_ms: number;
  /** Height of the largest video. */
  height: number;
  /** Mean of the samples' jitter. */
  jitter_ms?: number;
  /** Mean bitrate. */
  kbps: number;
  /** Changes of the forwarded simulcast or SVC layer. */
  layer_switches: number;
  /** Share of lost packets, 0 to 1. */
  loss: number;
  packets: number;
  /** Width of the largest video; 0 without video, or if its publisher does not state it. */
  width: number;
}

/** Measurements of a session's media in one direction, in ten seconds. */
export interface DirectionQualitySample {
  /** Frames per second of the largest video. */
  frame_rate: number;
  freezes: number;
  frozen_ms: number;
  /** Height of the largest video. */
  height: number;
  /** Largest jitter of a stream. */
  jitter_ms?: number;
  kbps: number;
  layer_switches: number;
  /** Share of lost packets, 0 to 1. */
  loss: number;
  packets: number;
  /** Width of the largest video; 0 without video, or if its publisher does not state it. */
  width: number;
}

/** The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four. */
export type EgressStatus =
  | "starting"
  | "active"
  | "ending"
  | "complete"
  | "failed"
  | "aborted"
  | "limit_reached"
  | (string & {});

/** Result of an erasure. */
export interface ErasedIdentity {
  /** Rows that were changed by this call. */
  changed: ErasedRowCounts;
  /** Recording files of the participant, and of its tracks, that were deleted by this call. */
  deleted_files: number;
  /** Whether there are more of them. */
  has_more: boolean;
  /**
   * Recordings whose files remain and in which the person may be seen or heard, oldest first, at most 1,000: composites, recordings for
   * destinations, and files that are not on this server.
   */
  remaining_recordings: Recording[];
  /** Random identity that the person's rows have from now on. It cannot be turned back. */
  replacement: string;
}

/** Changed rows by kind. */
export interface ErasedRowCounts {
  /** Bans, without their reasons, and revocations of tokens. They no longer apply. */
  bans: number;
  /** Room codes that were locked to the identity. They are disabled. */
  codes: number;
  /** Events, with their webhook deliveries. */
  events: number;
  /** Ingress endpoints. They are deleted. */
  ingresses: number;
  /** Recordings of the participant and of its tracks. */
  recordings: number;
  /** Role changes of the participant, and by the participant. */
  role_changes: number;
  sessions: number;
}

/** An event of the project. */
export interface EventRecord {
  /** When the event was recorded; `occurred_at` in the payload is when it happened. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** Larger than the id of every earlier event of the project. */
  id: number;
  /** The event as webhook endpoints receive it. */
  payload: Record<string, unknown>;
  room: string;
  type: string;
}

/** A page of a list. */
export interface EventRecordPage {
  /** The position after this page: `after` of the next request. */
  cursor: number;
  events: EventRecord[];
  /** Whether items after `after` are missing: they were deleted because of their age, or the server's records are older than `after`. */
  gap: boolean;
  has_more: boolean;
  limit: number;
  offset: number;
}

/** The participant that joins with the token. */
export interface ExchangeCode {
  /**
   * Must not be connected to the room, nor have a role there. Ignored if the code is locked to an identity. Default: `guest-` and
   * eight random characters.
   */
  identity?: string | undefined;
  /** The display name of the participant: 1 to 256 bytes of text without control characters and marks of direction. */
  name?: string | undefined;
}

/** Google Cloud Storage. */
export interface GcpDestinationConfig {
  /** The bucket that files are written to. */
  bucket: string;
  /** A service account's key, as the JSON text that Google gives; reads back as `***`. */
  credentials?: string | undefined;
  /** A prefix of each file's path. */
  prefix?: string | undefined;
  /** The value of `type` in a configuration for Google Cloud Storage. */
  type: "gcp";
}

/** An ingress endpoint. */
export interface Ingress {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** Absent until deleted. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  deleted_at?: string;
  /** Description of the failure; present while `status` is `error`. */
  error?: string;
  /** The key of an ingress endpoint's record. */
  id: string;
  /** Id for later calls. */
  ingress_id: string;
  /** The protocol by which an encoder publishes. */
  input_type: IngressInputType;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /** Identity with which the encoder joins. */
  participant_identity: string;
  /** Absent when none was given. */
  participant_name?: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** The room it publishes into. */
  room: string;
  /** The status of an ingress endpoint. */
  status: IngressStatus;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
  /** URL that the encoder publishes to, its stream key replaced by `REDACTED`. */
  url: string;
}

/** A created ingress endpoint with its stream key. */
export interface IngressCreated {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** Absent until deleted. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  deleted_at?: string;
  /** Description of the failure; present while `status` is `error`. */
  error?: string;
  /** The key of an ingress endpoint's record. */
  id: string;
  /** Id for later calls. */
  ingress_id: string;
  /** The protocol by which an encoder publishes. */
  input_type: IngressInputType;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /** Identity with which the encoder joins. */
  participant_identity: string;
  /** Absent when none was given. */
  participant_name?: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** The room it publishes into. */
  room: string;
  /** The status of an ingress endpoint. */
  status: IngressStatus;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
  /** URL that the encoder publishes to, its stream key replaced by `REDACTED`. */
  url: string;
  /** Shown only in this response. */
  stream_key: string;
}

/** An encoder has disconnected or stopped publishing. */
export interface IngressEndedEvent {
  type: "ingress.ended";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity of the encoder's participant. */
  participant_identity: string;
  /** The id of the ingress endpoint. */
  ingress_id: string;
  /** Its status at the time of the event. */
  ingress_status: IngressStatus;
}

/** The protocol by which an encoder publishes. */
export type IngressInputType =
  | "rtmp"
  | "whip"
  | (string & {});

/** A page of a list. */
export interface IngressPage {
  has_more: boolean;
  ingresses: Ingress[];
  limit: number;
  offset: number;
}

/** An encoder has connected and publishes. */
export interface IngressStartedEvent {
  type: "ingress.started";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity of the encoder's participant. */
  participant_identity: string;
  /** The id of the ingress endpoint. */
  ingress_id: string;
  /** Its status at the time of the event. */
  ingress_status: IngressStatus;
}

/** The status of an ingress endpoint. */
export type IngressStatus =
  | "inactive"
  | "buffering"
  | "publishing"
  | "error"
  | "complete"
  | "deleted"
  | (string & {});

/** The arrangement of the participants in a composite video of the room. */
export type Layout =
  | "speaker"
  | "grid"
  | (string & {});

/** A room in which a participant is connected. */
export interface LiveRoom {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  empty_timeout_seconds: number;
  /** Absent while open. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  ended_at?: string;
  /** The key of a room's record. */
  id: string;
  max_duration_seconds?: number;
  max_participants: number;
  metadata?: unknown;
  /** The name of a room, which a project uses once. */
  name: string;
  /** The media plane's name: project id, a dot, then the room name. */
  namespaced_name: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** Absent until the first participant joins. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  started_at?: string;
  /** The status of a room. The only transition is from open to ended. */
  status: RoomStatus;
  template_id?: string | null;
  /** Whether a broadcast runs. */
  broadcasting: boolean;
  /** Connected participants, including hidden ones. */
  participant_count: number;
  /** Connected participants that publish a track. */
  publisher_count: number;
  /** Whether a recording runs. */
  recording: boolean;
}

/** A page of a list. */
export interface LiveRoomPage {
  has_more: boolean;
  limit: number;
  offset: number;
  rooms: LiveRoom[];
}

/** A session with the sum of its samples. */
export interface MeasuredSession {
  /** Measured until `left_at`, or until now for an open session. */
  duration_seconds: number;
  /** The id of a session: one join of one participant. */
  id: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  joined_at: string;
  /** Absent while connected. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  left_at?: string;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /**
   * The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
   * as steps in a path.
   */
  participant_identity: string;
  /** The id that the media plane gives to one join of a participant. */
  participant_sid: string;
  role: string | null;
  /** The name of a room, which a project uses once. */
  room: string;
  /** Tracks published during the session. */
  track_count: number;
  /** The sum of a session's samples. */
  quality: SessionQualitySummary;
}

/** A page of a list. */
export interface MeasuredSessionPage {
  has_more: boolean;
  limit: number;
  offset: number;
  sessions: MeasuredSession[];
}

/** Way by which media reaches a participant. */
export type MediaConnection =
  | "udp"
  | "tcp"
  | "turn"
  | (string & {});

/** A track to mute or unmute. */
export interface MuteTrack {
  /** true mutes, false unmutes. */
  muted: boolean;
  /** A track that the participant publishes. */
  track_sid: string;
}

/** A track that was muted or unmuted. */
export interface MutedTrack {
  /** The track after the change. */
  track: Track;
}

/** Azure Blob Storage. */
export interface NewAzureDestinationConfig {
  /** The account's key. */
  account_key: string;
  /** The account's name. */
  account_name: string;
  /** The container that files are written to. */
  container: string;
  /** Prefix for each file's path. */
  prefix?: string | undefined;
  /** Always `azure`. */
  type: "azure";
}

/** Google Cloud Storage. */
export interface NewGcpDestinationConfig {
  /** The bucket that files are written to. */
  bucket: string;
  /** A service account's key, as the JSON text from Google. */
  credentials: string;
  /** Prefix for each file's path. */
  prefix?: string | undefined;
  /** Always `gcp`. */
  type: "gcp";
}

/** Object storage with its credentials, by its type. */
export type NewRecordingDestinationConfig =
  | NewS3DestinationConfig
  | NewGcpDestinationConfig
  | NewAzureDestinationConfig;

/** Amazon S3 or a compatible service. */
export interface NewS3DestinationConfig {
  /** The access key's id. */
  access_key: string;
  /** The bucket that files are written to. */
  bucket: string;
  /** The service's HTTP(S) URL, if it is not Amazon's. */
  endpoint?: string | undefined;
  /** Whether the bucket is in the URL's path, not in its host name. */
  force_path_style?: boolean | undefined;
  /** Prefix for each file's path. */
  prefix?: string | undefined;
  /** The bucket's region. */
  region?: string | undefined;
  /** The access key's secret. */
  secret: string;
  /** Session token for temporary credentials. Empty means none. */
  session_token?: string | undefined;
  /** Always `s3`. */
  type: "s3";
}

/** A participant as the media plane reports it now. */
export interface Participant {
  /** Attributes set by the server, such as `svc.role` and `svc.publish.max_kbps`, and attributes set by its client, if its role permits. */
  attributes: Record<string, string>;
  /** The identity in the participant's token. */
  identity: string;
  /** Whether it publishes at least one track. */
  is_publisher: boolean;
  /** The instant of the join; absent if the media plane does not report it. */
  joined_at?: string;
  /** The kind of client. */
  kind: ParticipantKind;
  /** The metadata in the token, unless its client has set others. */
  metadata: string;
  /** The display name in the token, unless its client has set another; empty if it has none. */
  name: string;
  /** The media plane's id of this join. */
  sid: string;
  /** The progress of the join. */
  state: ParticipantState;
  /** The published tracks. */
  tracks: Track[];
}

/** A join failed, or a connection broke without a clean leave. */
export interface ParticipantConnectionAbortedEvent {
  type: "participant.connection_aborted";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
}

/** A participant has connected. */
export interface ParticipantJoinedEvent {
  type: "participant.joined";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
}

/** The kind of a participant. */
export type ParticipantKind =
  | "standard"
  | "ingress"
  | "egress"
  | "sip"
  | "agent"
  | (string & {});

/** A participant has left cleanly. */
export interface ParticipantLeftEvent {
  type: "participant.left";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
}

/** A page of a list. */
export interface ParticipantPage {
  has_more: boolean;
  limit: number;
  offset: number;
  participants: Participant[];
}

/** The bitrate has stayed below the limit again. */
export interface ParticipantPublishLimitClearedEvent {
  type: "participant.publish_limit_cleared";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The measured bitrate, in kilobits a second. */
  publish_kbps: number;
  /** The limit, in kilobits a second. */
  publish_max_kbps: number;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
  /** The published track; absent unless there is exactly one. */
  track_sid?: string;
}

/** A participant's bitrate has stayed above its role's limit. */
export interface ParticipantPublishLimitExceededEvent {
  type: "participant.publish_limit_exceeded";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The measured bitrate, in kilobits a second. */
  publish_kbps: number;
  /** The limit, in kilobits a second. */
  publish_max_kbps: number;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
  /** The published track; absent unless there is exactly one. */
  track_sid?: string;
}

/** A participant's recording. */
export interface ParticipantRecording {
  /** Id for later calls. */
  egress_id: string;
  /** The key of a recording's or a broadcast's record. */
  id: string;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** The name of a room, which a project uses once. */
  room: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** Destination that was used, if one was named. */
  destination?: string;
  /** The id of a destination: `dst_` and twelve lower-case hex digits. */
  destination_id?: string;
  /** Absent until the status is final. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  ended_at?: string;
  /** Set when the status is `failed`. */
  error?: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  started_at: string;
  /** Path inside the project's recording directory, or the destination. */
  filepath: string;
  paused?: boolean;
  /** The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four. */
  status: EgressStatus;
  /** The part of a room that a recording contains. */
  type: RecordingType;
  /** The recorded participant. */
  identity: string;
}

/** Recordings of a room's participants. */
export interface ParticipantRecordings {
  /** One recording per participant, by the time of the join. A participant that was being recorded keeps its recording. */
  recordings: ParticipantRecording[];
  /** Participants whose recording was not started; absent if there are none. */
  refused?: UnrecordedParticipant[];
}

/** A participant has been given another role. */
export interface ParticipantRoleChangedEvent {
  type: "participant.role_changed";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The prefix of the API key that made the change, or `operator` for the console; absent if a room token made it. */
  changed_by_api_key_prefix?: string;
  /** The participant that made the change; absent unless a room token made it. */
  changed_by_identity?: string;
  /** The role before the change; absent if the participant had none. */
  previous_role?: string;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
}

/** The state of a join. */
export type ParticipantState =
  | "joining"
  | "joined"
  | "active"
  | "disconnected"
  | (string & {});

/** The features that a plan includes. */
export interface PlanFeatures {
  /**
   * Whether rooms can be recorded.
   * @default false
   */
  recording?: boolean;
  /**
   * Whether broadcasts and ingress can be used.
   * @default false
   */
  streaming?: boolean;
}

/** The maximum numbers of a plan; null is unlimited. */
export interface PlanLimits {
  /**
   * Maximum number of open rooms.
   * @default null
   */
  concurrent_rooms?: number | null;
  /**
   * Included participant minutes in a calendar month (UTC).
   * @default null
   */
  participant_minutes_per_month?: number | null;
  /**
   * Maximum number of participants in one room.
   * @default null
   */
  participants_per_room?: number | null;
}

/** A project's status under its plan. */
export interface PlanStatus {
  /** Rooms open now. */
  active_rooms: number;
  display_name: string;
  /** The features that a plan includes. */
  features: PlanFeatures;
  /** The maximum numbers of a plan; null is unlimited. */
  limits: PlanLimits;
  /** Null when the plan has no limit. */
  participant_minutes_remaining?: number | null;
  participant_minutes_used: number;
  /** First day of the billing period. A calendar day in UTC, from 1970 on. */
  period_start: string;
  plan_id: string;
  /** Monthly price in Ugandan shillings. */
  price_ugx: number;
  /**
   * `active`, `suspended` or `exceeded`. If a billing service keeps the wallet, its decision counts; while it is unreachable,
   * `/v1/plan` shows the state by the records alone.
   */
  quota_state: QuotaState;
}

/** A kind of media or data that a role may publish. */
export type PublishKind =
  | "audio"
  | "video"
  | "screen"
  | "data"
  | (string & {});

/** A project's quota, as the plan status shows it. */
export type QuotaState =
  | "active"
  | "suspended"
  | "exceeded"
  | (string & {});

/** Resumes of a session by its client. */
export interface ReconnectCounts {
  /** The client changed its way to the server. */
  candidate: number;
  /** The connection for publishing failed. */
  publisher: number;
  /** The WebSocket was lost. */
  signal: number;
  /** The connection for receiving failed. */
  subscriber: number;
  /** All, including those without a stated reason. */
  total: number;
}

/** Recordings to start. */
export interface RecordParticipants {
  /** A recording destination of the room's template. Without one, the files are written to the project's local directory. */
  destination?: string | undefined;
}

/** A recording. */
export interface Recording {
  /** Id for later calls. */
  egress_id: string;
  /** The key of a recording's or a broadcast's record. */
  id: string;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** The name of a room, which a project uses once. */
  room: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** Destination that was used, if one was named. */
  destination?: string;
  /** The id of a destination: `dst_` and twelve lower-case hex digits. */
  destination_id?: string;
  /** Absent until the status is final. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  ended_at?: string;
  /** Set when the status is `failed`. */
  error?: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  started_at: string;
  /** Path inside the project's recording directory, or the destination. */
  filepath: string;
  paused?: boolean;
  /** The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four. */
  status: EgressStatus;
  /** The part of a room that a recording contains. */
  type: RecordingType;
}

/** A destination. */
export interface RecordingDestination {
  /** Without its secrets. */
  config: RecordingDestinationConfig;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** The id of a destination: `dst_` and twelve lower-case hex digits. */
  id: string;
  kind: "recording";
  /** The name of a destination, unique in its template. */
  name: string;
  /** The id of a template: `tpl_` and twelve lower-case hex digits. */
  template_id: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
}

/** Object storage, by its type. Secrets read back as `***`. */
export type RecordingDestinationConfig =
  | S3DestinationConfig
  | GcpDestinationConfig
  | AzureDestinationConfig;

/** A recording is final. */
export interface RecordingEndedEvent {
  type: "recording.ended";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the recording. */
  egress_id: string;
  /** Its status at the time of the event. */
  recording_status: EgressStatus;
}

/** A recording has failed; sent instead of `recording.ended`. */
export interface RecordingFailedEvent {
  type: "recording.failed";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the recording. */
  egress_id: string;
  /** Its status at the time of the event. */
  recording_status: EgressStatus;
}

/** A page of a list. */
export interface RecordingPage {
  has_more: boolean;
  limit: number;
  offset: number;
  recordings: Recording[];
}

/** A recording has started. */
export interface RecordingStartedEvent {
  type: "recording.started";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the recording. */
  egress_id: string;
  /** Its status at the time of the event. */
  recording_status: EgressStatus;
}

/** The part of a room that a recording contains. */
export type RecordingType =
  | "room_composite"
  | "track"
  | "participant"
  | (string & {});

/** The status of a recording has changed, and is not final. */
export interface RecordingUpdatedEvent {
  type: "recording.updated";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The id of the recording. */
  egress_id: string;
  /** Its status at the time of the event. */
  recording_status: EgressStatus;
}

/** A media region. Stored and validated; it does not change where traffic goes today. */
export type Region =
  | "auto"
  | "af-east"
  | "eu-west"
  | "us-east"
  | (string & {});

/** A role as it is stored, served and turned into grants. */
export interface Role {
  /** Beyond the contract: attributes that participants who join with the role start with. Shown only if there are any. */
  attributes?: Record<string, string>;
  /** Whether holders are invisible to other participants. */
  hidden: boolean;
  /** Maximum number of concurrent holders in a room; -1 admits no participant, 0 is unlimited. */
  max_peer_count: number;
  /** The name, unique in the template. */
  name: string;
  /** The moderation calls that holders may make. */
  permissions: RolePermissions;
  /** The priority; 1 is the most important. */
  priority: number;
  /** The media that holders may publish, and its quality. */
  publish: RolePublish;
  /** The roles whose media holders receive. */
  subscribe: RoleSubscribe;
}

/** One change of a participant's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is present. */
export interface RoleChange {
  /** Set if a project API key made the change; `operator` for a change in the console. */
  changed_by_api_key_prefix?: string;
  /** Set if a room token made the change. */
  changed_by_identity?: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** The id of a change of a participant's role. */
  id: string;
  /**
   * The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
   * as steps in a path.
   */
  participant_identity: string;
  /** The id that the media plane gives to one join of a participant. */
  participant_sid: string;
  /** Absent if the participant had no role. */
  previous_role?: string;
  /** The name of a role, unique in its template. */
  role: string;
  /** The name of a room, which a project uses once. */
  room: string;
}

/** A page of a list. */
export interface RoleChangePage {
  has_more: boolean;
  limit: number;
  offset: number;
  role_changes: RoleChange[];
}

/** Response to a role change. */
export interface RoleChangeResult {
  /** Whether the change applies without a new join; always true. */
  applies_live: boolean;
  /** Explains what does not change until the participant republishes. */
  note: string;
  /** The participant after the change. */
  participant: Participant;
  /** One change of a participant's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is present. */
  role_change: RoleChange;
}

/** A role as a caller sends it. */
export interface RoleInput {
  /** Beyond the contract: attributes that participants who join with the role start with; default none. */
  attributes?: Record<string, string> | undefined;
  /** Whether holders are invisible to other participants; default false. */
  hidden?: boolean | undefined;
  /** Maximum number of concurrent holders in a room; default 0, unlimited. */
  max_peer_count?: number | undefined;
  /** If sent, must be the name of the role in the template. */
  name?: string | undefined;
  /** The moderation calls that holders may make; default none. */
  permissions?: RolePermissions | undefined;
  /** Priority; default 3. */
  priority?: number | undefined;
  /** The media that holders may publish; default everything. */
  publish?: RolePublishInput | undefined;
  /** The roles whose media holders receive; default all. */
  subscribe?: RoleSubscribeInput | undefined;
}

/** The moderation calls that a role may make. All default to false. */
export interface RolePermissions {
  /**
   * May start and stop broadcasts.
   * @default false
   */
  broadcast?: boolean | undefined;
  /**
   * May change the roles of participants.
   * @default false
   */
  change_role?: boolean | undefined;
  /**
   * May end the room.
   * @default false
   */
  end_room?: boolean | undefined;
  /**
   * May mute tracks of other participants.
   * @default false
   */
  mute_others?: boolean | undefined;
  /**
   * May start and stop recordings.
   * @default false
   */
  record?: boolean | undefined;
  /**
   * May remove participants.
   * @default false
   */
  remove_others?: boolean | undefined;
  /**
   * May send data through the server.
   * @default false
   */
  send_data?: boolean | undefined;
  /**
   * May unmute tracks of other participants.
   * @default false
   */
  unmute_others?: boolean | undefined;
  /**
   * Beyond the contract: may change its own name, metadata and attributes by the protocol of clients. Shown only if it is true.
   * @default false
   */
  update_own_metadata?: boolean | undefined;
}

/** The media and data that a role may publish, with all defaults filled in; also the PublishProfile of a token. */
export interface RolePublish {
  /** The kinds that may be published. */
  allowed: PublishKind[];
  /** The encoding of microphone audio. */
  audio: AudioProfile;
  max_kbps: number | null;
  /** The encoding of a shared screen. */
  screen: VideoProfile;
  /** Whether video is sent in several qualities at once. */
  simulcast: boolean;
  /** The encoding of camera video. */
  video: VideoProfile;
}

/** RolePublish as a caller sends it. */
export interface RolePublishInput {
  /** Default all four kinds. */
  allowed?: PublishKind[] | undefined;
  /** The encoding of microphone audio. */
  audio?: AudioProfileInput | undefined;
  max_kbps?: number | null | undefined;
  /** The encoding of a shared screen. */
  screen?: VideoProfileInput | undefined;
  /** Whether video is sent in several qualities at once; default true. */
  simulcast?: boolean | undefined;
  /** The encoding of camera video. */
  video?: VideoProfileInput | undefined;
}

/** The media that a role receives. */
export interface RoleSubscribe {
  max_kbps: number | null;
  /** Roles whose media is received; null is every role, an empty list none. */
  to_roles: string[] | null;
}

/** RoleSubscribe as a caller sends it. */
export interface RoleSubscribeInput {
  max_kbps?: number | null | undefined;
  /** Roles whose media is received; default null, every role. */
  to_roles?: string[] | null | undefined;
}

/** A room. */
export interface Room {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  empty_timeout_seconds: number;
  /** Absent while open. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  ended_at?: string;
  /** The key of a room's record. */
  id: string;
  max_duration_seconds?: number;
  max_participants: number;
  metadata?: unknown;
  /** The name of a room, which a project uses once. */
  name: string;
  /** The media plane's name: project id, a dot, then the room name. */
  namespaced_name: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** Absent until the first participant joins. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  started_at?: string;
  /** The status of a room. The only transition is from open to ended. */
  status: RoomStatus;
  template_id?: string | null;
}

/** A room code. */
export interface RoomCode {
  /** Complete only in the response that creates it, otherwise masked: `abcd-****-****`. */
  code: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  disabled: boolean;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  expires_at: string;
  /** The id of a room code. */
  id: string;
  identity: string | null;
  /** Null: unlimited. */
  max_uses?: number | null;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  /** The role of its tokens. */
  role: string;
  /** The room that its tokens are for. */
  room: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
  /** Number of exchanges so far. */
  uses: number;
}

/** A page of a list. */
export interface RoomCodePage {
  codes: RoomCode[];
  has_more: boolean;
  limit: number;
  offset: number;
}

/** The room has ended, and all its sessions are closed. */
export interface RoomFinishedEvent {
  type: "room.finished";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
}

/** A page of a list. */
export interface RoomPage {
  has_more: boolean;
  limit: number;
  offset: number;
  rooms: Room[];
}

/** The first participant has joined. */
export interface RoomStartedEvent {
  type: "room.started";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
}

/** The status of a room. The only transition is from open to ended. */
export type RoomStatus =
  | "open"
  | "ended"
  | (string & {});

/** The overlap of a webhook endpoint's secrets. */
export interface RotateWebhookSecret {
  /** Time for which deliveries are also signed with the previous secret; 86400 by default, 0 for none. */
  overlap_seconds?: number | undefined;
}

/** A destination. */
export interface RtmpDestination {
  /** Without its secrets. */
  config: RtmpDestinationConfig;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** The id of a destination: `dst_` and twelve lower-case hex digits. */
  id: string;
  kind: "rtmp";
  /** The name of a destination, unique in its template. */
  name: string;
  /** The id of a template: `tpl_` and twelve lower-case hex digits. */
  template_id: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
}

/** Target URLs for broadcasts. Each URL is returned as `rtmp://host/app/REDACTED`. */
export interface RtmpDestinationConfig {
  /** 1 to 8 `rtmp://` or `rtmps://` URLs. */
  urls: string[];
}

/** S3, or a service with its protocol. Credentials that are omitted in a change, or sent as `***`, keep their stored values. */
export interface S3DestinationConfig {
  /** The access key's id. */
  access_key?: string | undefined;
  /** The bucket that files are written to. */
  bucket: string;
  /** The service's http(s) URL, if it is not Amazon's. */
  endpoint?: string | undefined;
  /** The bucket is part of the path and not of the host name. */
  force_path_style?: boolean | undefined;
  /** A prefix of each file's path. */
  prefix?: string | undefined;
  /** The region of the bucket. */
  region?: string | undefined;
  /** The access key's secret; reads back as `***`. */
  secret?: string | undefined;
  /** Session token of temporary credentials; reads back as `***`. An empty text removes it. */
  session_token?: string | undefined;
  /** The value of `type` in a configuration for S3. */
  type: "s3";
}

/** A message from the server. */
export interface SendData {
  /** Message bytes in standard base64. */
  data: string;
  /** Receivers; absent or empty means all participants. */
  destination_identities?: string[] | undefined;
  /** Delivery mode; default reliable. */
  kind?: DataKind | undefined;
  /** Topic that clients can filter by. */
  topic?: string | undefined;
}

/** A session, as lists show it. */
export interface Session {
  /** Measured until `left_at`, or until now for an open session. */
  duration_seconds: number;
  /** The id of a session: one join of one participant. */
  id: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  joined_at: string;
  /** Absent while connected. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  left_at?: string;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /**
   * The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
   * as steps in a path.
   */
  participant_identity: string;
  /** The id that the media plane gives to one join of a participant. */
  participant_sid: string;
  role: string | null;
  /** The name of a room, which a project uses once. */
  room: string;
  /** Tracks published during the session. */
  track_count: number;
}

/** A session with its tracks. */
export interface SessionDetail {
  /** Measured until `left_at`, or until now for an open session. */
  duration_seconds: number;
  /** The id of a session: one join of one participant. */
  id: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  joined_at: string;
  /** Absent while connected. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  left_at?: string;
  /** The name of a room on the media plane: project id, dot, room name. */
  namespaced_room: string;
  /**
   * The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
   * as steps in a path.
   */
  participant_identity: string;
  /** The id that the media plane gives to one join of a participant. */
  participant_sid: string;
  role: string | null;
  /** The name of a room, which a project uses once. */
  room: string;
  /** Tracks published during the session. */
  track_count: number;
  /** In order of start. */
  tracks: SessionTrack[];
}

/** A page of a list. */
export interface SessionPage {
  has_more: boolean;
  limit: number;
  offset: number;
  sessions: Session[];
}

/** A session's quality. */
export interface SessionQuality {
  /** The id of a session: one join of one participant. */
  session_id: string;
  /**
   * Up to a minute old while the session is open. Absent if nothing was measured: with LiveKit as the media plane, for participants of
   * the sandbox, and in a session's first seconds.
   */
  summary?: SessionQualitySummary;
}

/** Measurements of a session in ten seconds. */
export interface SessionQualitySample {
  /** End of the interval. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  at: string;
  /** `udp`, `tcp` or `turn`. */
  connection?: MediaConnection;
  /** Estimated bandwidth to the client. */
  estimate_kbps?: number;
  /** Times without a packet from the client for 10 s. */
  interruptions: number;
  /** Media to the client. */
  received: DirectionQualitySample;
  /** Resumes of the session by its client. */
  reconnects: number;
  /** Mean round-trip time. */
  round_trip_ms?: number;
  /** Mean estimated opinion score, 1 to 4.5. */
  score?: number;
  /** Length of the interval. */
  seconds: number;
  /** Media from the client. */
  sent: DirectionQualitySample;
}

/** A page of a list. */
export interface SessionQualitySamplePage {
  has_more: boolean;
  limit: number;
  offset: number;
  samples: SessionQualitySample[];
}

/** The sum of a session's samples. */
export interface SessionQualitySummary {
  /** The client's program, as it states it. Absent if it states none. */
  client?: ClientProgram;
  /** `udp`, `tcp` or `turn` (this server's TURN server); absent for RTMP encoders. */
  connection?: MediaConnection;
  /**
   * Why the media failed: `negotiation`, `answer_timeout`, `silent`, `closed`, `capacity`, `too_many_commands` or `channels`. Absent if
   * it did not.
   */
  failure?: string;
  /** Times without a packet from the client for 10 s. */
  interruptions: number;
  /** Lowest score of a sample. */
  lowest_score?: number;
  /** Highest round-trip time of a sample. */
  max_round_trip_ms?: number;
  /** Measured time. */
  measured_seconds: number;
  /** Media to the client. */
  received: DirectionQuality;
  /** Resumes of a session by its client. */
  reconnects: ReconnectCounts;
  /** Mean round-trip time. */
  round_trip_ms?: number;
  /** Mean estimated opinion score, 1 to 4.5, from loss and delay. */
  score?: number;
  /** Media from the client. */
  sent: DirectionQuality;
}

/** A track published during a session. */
export interface SessionTrack {
  /** Absent while published. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  ended_at?: string;
  /** The media type of a track. */
  kind: TrackKind;
  /** The source of a track. */
  source: TrackSource;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  started_at: string;
  /** The id that the media plane gives to one published track. */
  track_sid: string;
}

/** A broadcast to start. */
export interface StartBroadcast {
  /** Whether to send audio without video; default false. */
  audio_only?: boolean | undefined;
  /** An RTMP destination of the room's template. Mutually exclusive with `urls`. */
  destination?: string | undefined;
  /** Arrangement of the participants; default grid. */
  layout?: Layout | undefined;
  /** 1 to 8 `rtmp://` or `rtmps://` URLs. Required without `destination`; mutually exclusive with it. */
  urls?: string[] | undefined;
}

/** A recording to start. */
export interface StartParticipantRecording {
  /** A recording destination of the room's template. Without one, the file is written to the project's local directory. */
  destination?: string | undefined;
  /**
   * A relative path inside the project's recording directory, or the destination. Default `{room}-{UTC time}.mp4`, or `.ogg` for
   * audio only, including an audio track.
   */
  filepath?: string | undefined;
  /** The participant. Only for `participant`, where it is required. */
  identity: string;
  type: "participant";
}

/** A recording to start. */
export type StartRecording =
  | StartRoomCompositeRecording
  | StartTrackRecording
  | StartParticipantRecording;

/** A recording to start. */
export interface StartRoomCompositeRecording {
  /** Record audio only. Only for `room_composite`; mutually exclusive with `video_only`. */
  audio_only?: boolean | undefined;
  /** A recording destination of the room's template. Without one, the file is written to the project's local directory. */
  destination?: string | undefined;
  /**
   * A relative path inside the project's recording directory, or the destination. Default `{room}-{UTC time}.mp4`, or `.ogg` for
   * audio only, including an audio track.
   */
  filepath?: string | undefined;
  /** Default speaker. Only for `room_composite`. */
  layout?: Layout | undefined;
  type: "room_composite";
  /** Record video only. Only for `room_composite`; mutually exclusive with `audio_only`. */
  video_only?: boolean | undefined;
}

/** A recording to start. */
export interface StartTrackRecording {
  /** A recording destination of the room's template. Without one, the file is written to the project's local directory. */
  destination?: string | undefined;
  /**
   * A relative path inside the project's recording directory, or the destination. Default `{room}-{UTC time}.mp4`, or `.ogg` for
   * audio only, including an audio track.
   */
  filepath?: string | undefined;
  /** The track. Only for `track`, where it is required. */
  track_id: string;
  type: "track";
}

/** A template. */
export interface Template {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** The id of a template: `tpl_` and twelve lower-case hex digits. */
  id: string;
  /** Used by rooms created without a template; cannot be deleted. */
  is_default: boolean;
  /** The name of a template, unique in its project. */
  name: string;
  /** The id of a project: `prj_` and twelve lower-case hex digits. */
  project_id: string;
  roles: Record<string, Role>;
  /** A template's settings. */
  settings: TemplateSettings;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  updated_at: string;
}

/** A page of a list. */
export interface TemplatePage {
  has_more: boolean;
  limit: number;
  offset: number;
  templates: Template[];
}

/** A template's settings. */
export interface TemplateSettings {
  /** A recording that starts by itself when participants join a room of the template. */
  auto_record?: Record<string, unknown>;
  max_duration_seconds?: number;
  /** A media region. Stored and validated; it does not change where traffic goes today. */
  region: Region;
}

/** A template's settings, and the values they can have. */
export interface TemplateSettingsDetail {
  allowed_regions: Region[];
  /** A recording that starts by itself when participants join a room of the template. */
  auto_record?: Record<string, unknown>;
  max_duration_seconds?: number;
  /** A media region. Stored and validated; it does not change where traffic goes today. */
  region: Region;
  /** False while a single media region runs. */
  region_enforced: boolean;
  region_note: string;
}

/** Settings of a template to create or change. */
export interface TemplateSettingsInput {
  /** A recording that starts by itself when participants join a room of the template. */
  auto_record?: Record<string, unknown> | null | undefined;
  max_duration_seconds?: number | undefined;
  /** Default `auto`; an update without it leaves the region unchanged. */
  region?: Region | undefined;
}

/** A room token. */
export interface Token {
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  expires_at: string;
  /** The media and data that a role may publish, with all defaults filled in; also the PublishProfile of a token. */
  publish_profile?: RolePublish;
  /** Absent when no role was requested. */
  role?: string;
  /** The token, a JWT, safe for a browser. */
  token: string;
  /** WebSocket URL that the client connects to. */
  url: string;
}

/** Plain grants; each defaults to true. */
export interface TokenPermissions {
  can_publish?: boolean | null | undefined;
  can_publish_data?: boolean | null | undefined;
  can_subscribe?: boolean | null | undefined;
}

/** A published track. */
export interface Track {
  /** Height in pixels; absent for audio. */
  height?: number;
  /** Audio, video or data. */
  kind: TrackKind;
  /** The MIME type of the codec. */
  mime_type?: string;
  /** Whether the publisher or a moderator has muted it. */
  muted: boolean;
  /** The name that the publisher gave it, if any. */
  name?: string;
  /** The media plane's id of the track. */
  sid: string;
  /** Whether video is sent in several qualities; absent for audio. */
  simulcast?: boolean;
  /** The device or screen that the track captures. */
  source: TrackSource;
  /** Width in pixels; absent for audio. */
  width?: number;
}

/** The media type of a track. */
export type TrackKind =
  | "audio"
  | "video"
  | "data"
  | (string & {});

/** A participant has started to publish a track. */
export interface TrackPublishedEvent {
  type: "track.published";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The media plane's id of the track. */
  track_sid: string;
  /** Audio, video or data. */
  track_kind: TrackKind;
  /** The device or screen that the track captures. */
  track_source: TrackSource;
  /** Whether the track was muted at the time of the event. */
  track_muted: boolean;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
}

/** The source of a track. */
export type TrackSource =
  | "camera"
  | "microphone"
  | "screen_share"
  | "screen_share_audio"
  | "unknown"
  | (string & {});

/** A track has stopped. */
export interface TrackUnpublishedEvent {
  type: "track.unpublished";
  /** The project that owns the room. */
  project_id: string;
  /** The name of the room, without the project. */
  room: string;
  /** The instant by the media plane's clock if it reports one, else by the server's. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The identity, unique in the room while the participant is connected. */
  participant_identity: string;
  /** The id of the join. */
  participant_sid: string;
  /** The media plane's id of the track. */
  track_sid: string;
  /** Audio, video or data. */
  track_kind: TrackKind;
  /** The device or screen that the track captures. */
  track_source: TrackSource;
  /** Whether the track was muted at the time of the event. */
  track_muted: boolean;
  /** The role at the time of the event; absent if the participant has none. */
  role?: string;
}

/** A participant whose recording was not started. */
export interface UnrecordedParticipant {
  /**
   * The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
   * as steps in a path.
   */
  identity: string;
  /** The reason in words. */
  message: string;
  /** The code of the error that a request for this recording alone would get. */
  reason: string;
}

/** New configuration. It replaces the stored one as a whole, except for omitted credentials. */
export interface UpdateDestination {
  /** By the destination's kind: object storage for recordings, or URLs for broadcasts. */
  config: DestinationConfig;
  /** Must be the stored kind. */
  kind?: DestinationKind | undefined;
}

/** The changes of a template. A sent role is replaced as a whole; an omitted role stays unchanged. */
export interface UpdateTemplate {
  name?: string | null | undefined;
  /** Keyed by role name. */
  roles?: Record<string, RoleInput> | undefined;
  /** Settings of a template to create or change. */
  settings?: TemplateSettingsInput | undefined;
}

/** A region to set. */
export interface UpdateTemplateSettings {
  /** A recording that starts by itself when participants join a room of the template. */
  auto_record?: Record<string, unknown> | null | undefined;
  max_duration_seconds?: number | undefined;
  /** A media region. Stored and validated; it does not change where traffic goes today. */
  region: Region;
}

/** Fields of a webhook endpoint to change. */
export interface UpdateWebhookEndpoint {
  /** False: no event is queued, and pending deliveries wait. True also enables an endpoint that the server has disabled. */
  active?: boolean | undefined;
  /** Up to 500 characters, without control characters. */
  description?: string | undefined;
  /** Event types to queue from now on; empty: all. */
  events?: ("room.started" | "room.finished" | "participant.joined" | "participant.left" | "participant.connection_aborted" | "participant.role_changed" | "participant.publish_limit_exceeded" | "participant.publish_limit_cleared" | "track.published" | "track.unpublished" | "recording.started" | "recording.updated" | "recording.ended" | "recording.failed" | "broadcast.started" | "broadcast.updated" | "broadcast.ended" | "broadcast.failed" | "ingress.started" | "ingress.ended" | (string & {}))[] | undefined;
  /** http or https, resolving to a public address. Deliveries that are already queued go there, too. */
  url?: string | undefined;
}

/** A project's usage. */
export interface Usage {
  /** One for each day in range. */
  days: UsageDay[];
  /** A project's status under its plan. */
  plan: PlanStatus;
  total_participant_minutes: number;
}

/** Usage on one day. */
export interface UsageDay {
  /** A calendar day in UTC, from 1970 on. */
  date: string;
  /** A session over midnight counts on each day; an open session counts until now. */
  participant_minutes: number;
  /** Sessions that started on that day. */
  sessions: number;
}

/** A video codec. */
export type VideoCodec =
  | "vp8"
  | "h264"
  | "vp9"
  | "av1"
  | (string & {});

/** The encoding of video. */
export interface VideoProfile {
  /** The video codec that publishers prefer. */
  codec: VideoCodec;
  /** Frame rate in frames a second. */
  frame_rate: number;
  /** Height in pixels. */
  height: number;
  /** Bitrate in kilobits a second. */
  max_kbps: number;
  /** Width in pixels. */
  width: number;
}

/** VideoProfile as a caller sends it. */
export interface VideoProfileInput {
  /** The video codec; default vp8. */
  codec?: VideoCodec | undefined;
  /** Default 25 for the camera, 10 for the screen. */
  frame_rate?: number | undefined;
  /** Default 720 for the camera, 1080 for the screen. */
  height?: number | undefined;
  /** Default 1200 for the camera, 2500 for the screen. */
  max_kbps?: number | undefined;
  /** Default 1280 for the camera, 1920 for the screen. */
  width?: number | undefined;
}

/** One event's delivery to one webhook endpoint. */
export interface WebhookDelivery {
  /** Number of delivery attempts. */
  attempts: number;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  delivered_at?: string;
  /** The id of a webhook endpoint. */
  endpoint_id: string;
  endpoint_url: string;
  event_type: string;
  /** The id of a webhook delivery: one event for one endpoint. */
  id: string;
  /** Transport or status error of the latest attempt. */
  last_error: string;
  /** Present only while pending. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  next_attempt_at?: string;
  /** The exact request body, byte for byte as signed. */
  payload: Record<string, unknown>;
  /** Null if the request never completed. */
  response_status: number | null;
  /** The status of a delivery. A retry makes a failed delivery pending again. */
  status: DeliveryStatus;
}

/** A page of a list. */
export interface WebhookDeliveryPage {
  has_more: boolean;
  limit: number;
  offset: number;
  webhook_deliveries: WebhookDelivery[];
}

/** A webhook endpoint. */
export interface WebhookEndpoint {
  active: boolean;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  description?: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  disabled_at?: string;
  disabled_reason?: string;
  events?: ("room.started" | "room.finished" | "participant.joined" | "participant.left" | "participant.connection_aborted" | "participant.role_changed" | "participant.publish_limit_exceeded" | "participant.publish_limit_cleared" | "track.published" | "track.unpublished" | "recording.started" | "recording.updated" | "recording.ended" | "recording.failed" | "broadcast.started" | "broadcast.updated" | "broadcast.ended" | "broadcast.failed" | "ingress.started" | "ingress.ended" | (string & {}))[];
  /** The id of a webhook endpoint. */
  id: string;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  previous_secret_expires_at?: string;
  url: string;
}

/** A webhook endpoint, as returned when it is created. */
export interface WebhookEndpointCreated {
  active: boolean;
  /** An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  created_at: string;
  /** The id of a webhook endpoint. */
  id: string;
  /** The signing secret, shown only in this response. */
  secret: string;
  url: string;
}

/** Sent once to an endpoint that the server has disabled, because no delivery was accepted for days. It is about no room. */
export interface WebhookEndpointDisabledEvent {
  type: "webhook.endpoint_disabled";
  /** The instant by the server's clock. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The project that owns the webhook endpoint. */
  project_id: string;
  /** The webhook endpoint's id. */
  endpoint_id: string;
  /** Since when attempts have failed, and the last error. */
  reason: string;
  /** The name of a room, which a project uses once. */
  room?: string;
}

/** A page of a list. */
export interface WebhookEndpointPage {
  has_more: boolean;
  limit: number;
  offset: number;
  webhook_endpoints: WebhookEndpoint[];
}

/** What a webhook reports: one of the 20 events, or the event that tests an endpoint. */
export type WebhookEvent =
  | RoomStartedEvent
  | RoomFinishedEvent
  | ParticipantJoinedEvent
  | ParticipantLeftEvent
  | ParticipantConnectionAbortedEvent
  | ParticipantRoleChangedEvent
  | ParticipantPublishLimitExceededEvent
  | ParticipantPublishLimitClearedEvent
  | TrackPublishedEvent
  | TrackUnpublishedEvent
  | RecordingStartedEvent
  | RecordingUpdatedEvent
  | RecordingEndedEvent
  | RecordingFailedEvent
  | BroadcastStartedEvent
  | BroadcastUpdatedEvent
  | BroadcastEndedEvent
  | BroadcastFailedEvent
  | IngressStartedEvent
  | IngressEndedEvent
  | WebhookEndpointDisabledEvent
  | WebhookTestEvent;

/** The name of an event. */
export type WebhookEventType =
  | "room.started"
  | "room.finished"
  | "participant.joined"
  | "participant.left"
  | "participant.connection_aborted"
  | "participant.role_changed"
  | "participant.publish_limit_exceeded"
  | "participant.publish_limit_cleared"
  | "track.published"
  | "track.unpublished"
  | "recording.started"
  | "recording.updated"
  | "recording.ended"
  | "recording.failed"
  | "broadcast.started"
  | "broadcast.updated"
  | "broadcast.ended"
  | "broadcast.failed"
  | "ingress.started"
  | "ingress.ended"
  | (string & {});

/** A webhook endpoint's new secret. */
export interface WebhookSecretRotated {
  /** The id of a webhook endpoint. */
  id: string;
  /** Time until which deliveries are also signed with the previous secret; absent without an overlap. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  previous_secret_expires_at?: string;
  /** The new signing secret, shown only in this response. */
  secret: string;
}

/** Sent by the console to test an endpoint. It is about no room. */
export interface WebhookTestEvent {
  type: "webhook.test";
  /** The instant by the server's clock. An instant in UTC: RFC 3339 with milliseconds and `Z`. */
  occurred_at: string;
  /** The project that owns the webhook endpoint. */
  project_id: string;
  /** The name of a room, which a project uses once. */
  room?: string;
}

/** The query of `getUsage`. */
export interface GetUsageQuery {
  /** First day, YYYY-MM-DD; default 29 days before `to`. */
  from?: string | undefined;
  /** Last day, YYYY-MM-DD; default today in UTC. */
  to?: string | undefined;
}

/** The query of `listBans`. */
export interface ListBansQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listBroadcasts`. */
export interface ListBroadcastsQuery {
  /** Only for this room. */
  room?: string | undefined;
  /** Only with this status. */
  status?: EgressStatus | undefined;
  /** Started at or after this instant. */
  after?: string | undefined;
  /** Started at or before this instant. */
  before?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listCodes`. */
export interface ListCodesQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listEvents`. */
export interface ListEventsQuery {
  /** Only after this position: the `cursor` of a page, or the `id` of an event. */
  after?: number | undefined;
  /** Only from the first event on that was recorded at or after this instant. */
  since?: string | undefined;
  /** Only in this room. */
  room?: string | undefined;
  /** Only with this event type. */
  type?: WebhookEventType | undefined;
  /** Only about this participant. */
  identity?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listIngresses`. */
export interface ListIngressesQuery {
  /** Only for this room. */
  room?: string | undefined;
  /** Only with this status. */
  status?: IngressStatus | undefined;
  /** Only with this type. */
  input_type?: IngressInputType | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listLiveRooms`. */
export interface ListLiveRoomsQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listParticipants`. */
export interface ListParticipantsQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listRecordings`. */
export interface ListRecordingsQuery {
  /** Only for this room. */
  room?: string | undefined;
  /** Only with this status. */
  status?: EgressStatus | undefined;
  /** Started at or after this instant. */
  after?: string | undefined;
  /** Started at or before this instant. */
  before?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listRoleChanges`. */
export interface ListRoleChangesQuery {
  /** Only with this identity. */
  identity?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listRoomRecordings`. */
export interface ListRoomRecordingsQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listRoomSessions`. */
export interface ListRoomSessionsQuery {
  /** Only with this identity. */
  identity?: string | undefined;
  /** Only with this role. */
  role?: string | undefined;
  /** true: only connected; false: only ended. */
  active?: boolean | undefined;
  /** Joined at or after this instant. */
  after?: string | undefined;
  /** Joined at or before this instant. */
  before?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listRooms`. */
export interface ListRoomsQuery {
  /** Only with this status. */
  status?: RoomStatus | undefined;
  /** Only with a name that starts with this text; the list is then in the order of the names. */
  name_prefix?: string | undefined;
  /** Created at or after this instant. */
  created_after?: string | undefined;
  /** Created at or before this instant. */
  created_before?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listSessionQualitySamples`. */
export interface ListSessionQualitySamplesQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listSessions`. */
export interface ListSessionsQuery {
  /** Only in this room. */
  room?: string | undefined;
  /** Only with this identity. */
  identity?: string | undefined;
  /** Only with this role. */
  role?: string | undefined;
  /** true: only connected; false: only ended. */
  active?: boolean | undefined;
  /** Joined at or after this instant. */
  after?: string | undefined;
  /** Joined at or before this instant. */
  before?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listTemplates`. */
export interface ListTemplatesQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listWebhookDeliveries`. */
export interface ListWebhookDeliveriesQuery {
  /** Only with this status. */
  status?: DeliveryStatus | undefined;
  /** Only with this event type. */
  event_type?: WebhookEventType | undefined;
  /** Only to this endpoint. */
  endpoint_id?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listWebhookEndpoints`. */
export interface ListWebhookEndpointsQuery {
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `listWorstSessions`. */
export interface ListWorstSessionsQuery {
  /** Day of the sessions' last sample, YYYY-MM-DD; default today in UTC. */
  day?: string | undefined;
  /**
   * Items on the page.
   * @default 50
   */
  limit?: number | undefined;
  /**
   * Items skipped.
   * @default 0
   */
  offset?: number | undefined;
}

/** The query of `removeParticipant`. */
export interface RemoveParticipantQuery {
  /** If true, the identity's tokens for the room minted until now are refused, also if it is not connected; room codes give new ones. */
  revoke?: boolean | undefined;
}
