// Written by sdk/generate from the description of the API.

import { type CallOptions, ConclaveClient, Extension } from "../client.js";
import { items } from "../pages.js";
import type {
  Ban,
  BanPage,
  BanParticipant,
  Broadcast,
  BroadcastPage,
  ChangeRole,
  CreateCode,
  CreateDestination,
  CreateIngress,
  CreateRoom,
  CreateTemplate,
  CreateToken,
  CreateWebhookEndpoint,
  DataSent,
  Destination,
  DestinationList,
  ErasedIdentity,
  EventRecord,
  EventRecordPage,
  ExchangeCode,
  GetUsageQuery,
  Ingress,
  IngressCreated,
  IngressPage,
  ListBansQuery,
  ListBroadcastsQuery,
  ListCodesQuery,
  ListEventsQuery,
  ListIngressesQuery,
  ListLiveRoomsQuery,
  ListParticipantsQuery,
  ListRecordingsQuery,
  ListRoleChangesQuery,
  ListRoomRecordingsQuery,
  ListRoomSessionsQuery,
  ListRoomsQuery,
  ListSessionQualitySamplesQuery,
  ListSessionsQuery,
  ListTemplatesQuery,
  ListWebhookDeliveriesQuery,
  ListWebhookEndpointsQuery,
  ListWorstSessionsQuery,
  LiveRoom,
  LiveRoomPage,
  MeasuredSession,
  MeasuredSessionPage,
  MuteTrack,
  MutedTrack,
  Participant,
  ParticipantPage,
  ParticipantRecordings,
  PlanStatus,
  RecordParticipants,
  Recording,
  RecordingPage,
  RemoveParticipantQuery,
  Role,
  RoleChange,
  RoleChangePage,
  RoleChangeResult,
  RoleInput,
  Room,
  RoomCode,
  RoomCodePage,
  RoomPage,
  RotateWebhookSecret,
  SendData,
  Session,
  SessionDetail,
  SessionPage,
  SessionQuality,
  SessionQualitySample,
  SessionQualitySamplePage,
  StartBroadcast,
  StartRecording,
  Template,
  TemplatePage,
  TemplateSettingsDetail,
  Token,
  UpdateDestination,
  UpdateTemplate,
  UpdateTemplateSettings,
  UpdateWebhookEndpoint,
  Usage,
  WebhookDelivery,
  WebhookDeliveryPage,
  WebhookEndpoint,
  WebhookEndpointCreated,
  WebhookEndpointPage,
  WebhookSecretRotated,
} from "./types.gen.js";

/** The `ext` of `Conclave`: a method for each operation below `/ext/v1`, beyond the contract. */
export class Extensions extends Extension {
  /**
   * Ban an identity from a room, and disconnect its participant; change the terms of its ban.
   *
   * @param room The room's name.
   * @param identity The participant's identity.
   * @param body A ban's terms.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `permission_denied`, `room_not_found`, `ban_limit_reached`, `room_ended`, `media_unavailable`
   */
  banParticipant(room: string, identity: string, body?: BanParticipant, options?: CallOptions): Promise<Ban> {
    return this.call("PUT /ext/v1/rooms/{name}/bans/{identity}", { path: { name: room, identity }, body }, options);
  }

  /**
   * Disable a room code by its id; tokens from earlier exchanges stay valid.
   *
   * @param room The room's name.
   * @param codeId The code's id.
   * @throws {ConclaveError} `invalid_room_name`, `code_not_found`, `room_not_found`
   */
  disableRoomCode(room: string, codeId: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /ext/v1/rooms/{name}/codes/{id}", { path: { name: room, id: codeId } }, options);
  }

  /**
   * Erase a person: remove the participant, delete its recordings, and replace the identity in all records.
   *
   * @param identity The identity.
   * @throws {ConclaveError} `invalid_identity`, `idempotency_key_reuse`, `media_unavailable`
   */
  eraseIdentity(identity: string, options?: CallOptions): Promise<ErasedIdentity> {
    return this.call("DELETE /ext/v1/identities/{identity}", { path: { identity } }, options);
  }

  /**
   * Read the summary of a session's quality.
   *
   * @param sessionId The session's id.
   * @throws {ConclaveError} `session_not_found`
   */
  getSessionQuality(sessionId: string, options?: CallOptions): Promise<SessionQuality> {
    return this.call("GET /ext/v1/sessions/{id}/quality", { path: { id: sessionId } }, options);
  }

  /**
   * Lift a ban; the identity's tokens are valid again, unless they were revoked.
   *
   * @param room The room's name.
   * @param identity The participant's identity.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `ban_not_found`, `room_not_found`
   */
  liftBan(room: string, identity: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /ext/v1/rooms/{name}/bans/{identity}", { path: { name: room, identity } }, options);
  }

  /**
   * List a room's bans, newest first, including bans that are over.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_room_name`, `room_not_found`
   */
  listBans(room: string, query?: ListBansQuery, options?: CallOptions): Promise<BanPage> {
    return this.call("GET /ext/v1/rooms/{name}/bans", { path: { name: room }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Extensions.listBans}.
   *
   * @param room The room's name.
   */
  allBans(room: string, query?: ListBansQuery, options?: CallOptions): AsyncGenerator<Ban, void, void> {
    return items(query, (page) => this.listBans(room, page, options));
  }

  /**
   * List events, oldest first, from a position or an instant on.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`
   */
  listEvents(query?: ListEventsQuery, options?: CallOptions): Promise<EventRecordPage> {
    return this.call("GET /ext/v1/events", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Extensions.listEvents}. */
  allEvents(query?: ListEventsQuery, options?: CallOptions): AsyncGenerator<EventRecord, void, void> {
    return items(query, (page) => this.listEvents(page, options));
  }

  /** List rooms in which a participant is connected, latest first join first. */
  listLiveRooms(query?: ListLiveRoomsQuery, options?: CallOptions): Promise<LiveRoomPage> {
    return this.call("GET /ext/v1/rooms/live", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Extensions.listLiveRooms}. */
  allLiveRooms(query?: ListLiveRoomsQuery, options?: CallOptions): AsyncGenerator<LiveRoom, void, void> {
    return items(query, (page) => this.listLiveRooms(page, options));
  }

  /**
   * List a session's quality samples, one for each ten seconds while connected, newest first.
   *
   * @param sessionId The session's id.
   * @throws {ConclaveError} `session_not_found`
   */
  listSessionQualitySamples(sessionId: string, query?: ListSessionQualitySamplesQuery, options?: CallOptions): Promise<SessionQualitySamplePage> {
    return this.call("GET /ext/v1/sessions/{id}/quality/samples", { path: { id: sessionId }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Extensions.listSessionQualitySamples}.
   *
   * @param sessionId The session's id.
   */
  allSessionQualitySamples(sessionId: string, query?: ListSessionQualitySamplesQuery, options?: CallOptions): AsyncGenerator<SessionQualitySample, void, void> {
    return items(query, (page) => this.listSessionQualitySamples(sessionId, page, options));
  }

  /** List a day's measured sessions, lowest mean score first. */
  listWorstSessions(query?: ListWorstSessionsQuery, options?: CallOptions): Promise<MeasuredSessionPage> {
    return this.call("GET /ext/v1/sessions/worst", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Extensions.listWorstSessions}. */
  allWorstSessions(query?: ListWorstSessionsQuery, options?: CallOptions): AsyncGenerator<MeasuredSession, void, void> {
    return items(query, (page) => this.listWorstSessions(page, options));
  }

  /**
   * Pause a recording; its file continues without the pause.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `permission_denied`, `recording_not_found`, `idempotency_key_reuse`, `recording_ended`, `media_unavailable`
   */
  pauseRecording(egressId: string, options?: CallOptions): Promise<Recording> {
    return this.call("POST /ext/v1/recordings/{egress_id}/pause", { path: { egress_id: egressId } }, options);
  }

  /**
   * Start a recording of each participant in the room, unless it is being recorded.
   *
   * @param room The room's name.
   * @param body Recordings to start.
   * @throws {ConclaveError} `invalid_room_name`, `feature_not_in_plan`, `insufficient_balance`, `quota_exceeded`, `permission_denied`, `destination_not_found`, `room_not_found`, `template_not_found`, `idempotency_key_reuse`, `room_ended`, `billing_unavailable`, `destination_unusable`, `media_unavailable`
   */
  recordParticipants(room: string, body?: RecordParticipants, options?: CallOptions): Promise<ParticipantRecordings> {
    return this.call("POST /ext/v1/rooms/{name}/recordings/participants", { path: { name: room }, body }, options);
  }

  /**
   * Resume a paused recording.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `permission_denied`, `recording_not_found`, `idempotency_key_reuse`, `recording_ended`, `media_unavailable`
   */
  resumeRecording(egressId: string, options?: CallOptions): Promise<Recording> {
    return this.call("POST /ext/v1/recordings/{egress_id}/resume", { path: { egress_id: egressId } }, options);
  }

  /**
   * Replace a webhook endpoint's signing secret, with an overlap of both.
   *
   * @param webhookEndpointId The endpoint's id.
   * @param body The overlap of a webhook endpoint's secrets.
   * @throws {ConclaveError} `endpoint_not_found`, `idempotency_key_reuse`
   */
  rotateWebhookSecret(webhookEndpointId: string, body?: RotateWebhookSecret, options?: CallOptions): Promise<WebhookSecretRotated> {
    return this.call("POST /ext/v1/webhook-endpoints/{id}/rotate-secret", { path: { id: webhookEndpointId }, body }, options);
  }

  /**
   * Change a webhook endpoint; omitted fields stay unchanged.
   *
   * @param webhookEndpointId The endpoint's id.
   * @param body Fields of a webhook endpoint to change.
   * @throws {ConclaveError} `blocked_url`, `invalid_url`, `endpoint_not_found`
   */
  updateWebhookEndpoint(webhookEndpointId: string, body: UpdateWebhookEndpoint, options?: CallOptions): Promise<WebhookEndpoint> {
    return this.call("PATCH /ext/v1/webhook-endpoints/{id}", { path: { id: webhookEndpointId }, body }, options);
  }
}

/**
 * A project, by the URL of its server and one of its API keys. Has a method for each operation of the API, and for each list an
 * iterator over the items of all its pages, from `offset` on; `limit` is the size of a page. Each call throws `ConclaveError`.
 */
export class Conclave extends ConclaveClient {
  /** The operations below `/ext/v1`, beyond the contract. */
  readonly ext = new Extensions((operation, parameters, options) => this.call(operation, parameters, options));

  /**
   * Change a connected participant's role.
   *
   * @param room The room's name.
   * @param identity The participant's identity.
   * @param body A participant's new role.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `permission_denied`, `participant_not_found`, `role_not_found`, `room_not_found`, `template_not_found`, `idempotency_key_reuse`, `media_unavailable`
   */
  changeRole(room: string, identity: string, body: ChangeRole, options?: CallOptions): Promise<RoleChangeResult> {
    return this.call("POST /v1/rooms/{name}/participants/{identity}/role", { path: { name: room, identity }, body }, options);
  }

  /**
   * Create a room code; the complete code is shown only in this response.
   *
   * @param room The room's name.
   * @param body A room code to create.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `role_not_found`, `room_not_found`, `template_not_found`, `idempotency_key_reuse`
   */
  createCode(room: string, body: CreateCode, options?: CallOptions): Promise<RoomCode> {
    return this.call("POST /v1/rooms/{name}/codes", { path: { name: room }, body }, options);
  }

  /**
   * Create a destination.
   *
   * @param templateId The template's id.
   * @param body A destination to create, by its kind.
   * @throws {ConclaveError} `blocked_url`, `invalid_url`, `feature_not_in_plan`, `template_not_found`, `destination_exists`, `idempotency_key_reuse`, `encryption_unavailable`
   */
  createDestination(templateId: string, body: CreateDestination, options?: CallOptions): Promise<Destination> {
    return this.call("POST /v1/templates/{id}/destinations", { path: { id: templateId }, body }, options);
  }

  /**
   * Create an endpoint for an encoder; its stream key is shown only in this response.
   *
   * @param room The room's name.
   * @param body An ingress endpoint to create.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `feature_not_in_plan`, `insufficient_balance`, `quota_exceeded`, `room_not_found`, `ingress_exists`, `room_ended`, `billing_unavailable`, `media_unavailable`
   */
  createIngress(room: string, body: CreateIngress, options?: CallOptions): Promise<IngressCreated> {
    return this.call("POST /v1/rooms/{name}/ingress", { path: { name: room }, body }, options);
  }

  /**
   * Create a room.
   *
   * @param body A room to create.
   * @throws {ConclaveError} `invalid_room_name`, `insufficient_balance`, `quota_exceeded`, `room_limit_reached`, `template_not_found`, `idempotency_key_reuse`, `room_exists`
   */
  createRoom(body: CreateRoom, options?: CallOptions): Promise<Room> {
    return this.call("POST /v1/rooms", { body }, options);
  }

  /**
   * Create a template and its roles.
   *
   * @param body A template to create.
   * @throws {ConclaveError} `idempotency_key_reuse`, `template_exists`
   */
  createTemplate(body: CreateTemplate, options?: CallOptions): Promise<Template> {
    return this.call("POST /v1/templates", { body }, options);
  }

  /**
   * Mint a room token.
   *
   * @param body A token to mint.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `insufficient_balance`, `quota_exceeded`, `role_not_found`, `room_not_found`, `template_not_found`, `idempotency_key_reuse`, `role_capacity_reached`, `room_ended`, `identity_banned`, `billing_unavailable`, `database_unavailable`
   */
  createToken(body: CreateToken, options?: CallOptions): Promise<Token> {
    return this.call("POST /v1/tokens", { body }, options);
  }

  /**
   * Register a webhook endpoint.
   *
   * @param body A webhook endpoint to register.
   * @throws {ConclaveError} `blocked_url`, `invalid_url`, `idempotency_key_reuse`
   */
  createWebhookEndpoint(body: CreateWebhookEndpoint, options?: CallOptions): Promise<WebhookEndpointCreated> {
    return this.call("POST /v1/webhook-endpoints", { body }, options);
  }

  /**
   * Delete a destination that no running egress uses.
   *
   * @param templateId The template's id.
   * @param destination The destination's name.
   * @throws {ConclaveError} `destination_not_found`, `template_not_found`, `destination_in_use`
   */
  deleteDestination(templateId: string, destination: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/templates/{id}/destinations/{name}", { path: { id: templateId, name: destination } }, options);
  }

  /**
   * Delete an endpoint; its stream key is invalid at once.
   *
   * @param ingressId The endpoint's id.
   * @throws {ConclaveError} `ingress_not_found`, `media_unavailable`
   */
  deleteIngress(ingressId: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/ingress/{ingress_id}", { path: { ingress_id: ingressId } }, options);
  }

  /**
   * Delete a role.
   *
   * @param templateId The template's id.
   * @param role The role's name.
   * @throws {ConclaveError} `role_not_found`, `template_not_found`, `role_referenced`
   */
  deleteRole(templateId: string, role: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/templates/{id}/roles/{name}", { path: { id: templateId, name: role } }, options);
  }

  /**
   * Delete a template with its roles.
   *
   * @param templateId The template's id.
   * @throws {ConclaveError} `template_not_found`, `template_in_use`, `template_is_default`
   */
  deleteTemplate(templateId: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/templates/{id}", { path: { id: templateId } }, options);
  }

  /**
   * Stop delivery to an endpoint and drop its queued deliveries.
   *
   * @param webhookEndpointId The endpoint's id.
   * @throws {ConclaveError} `endpoint_not_found`
   */
  deleteWebhookEndpoint(webhookEndpointId: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/webhook-endpoints/{id}", { path: { id: webhookEndpointId } }, options);
  }

  /**
   * Disable a room code; tokens from earlier exchanges stay valid.
   *
   * @param code The room code.
   * @throws {ConclaveError} `code_not_found`
   */
  disableCode(code: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/codes/{code}", { path: { code } }, options);
  }

  /**
   * End a room and disconnect its participants.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_room_name`, `permission_denied`, `room_not_found`, `media_unavailable`
   */
  endRoom(room: string, options?: CallOptions): Promise<void> {
    return this.call("DELETE /v1/rooms/{name}", { path: { name: room } }, options);
  }

  /**
   * Exchange a room code for a room token.
   *
   * @param code The room code.
   * @param body The participant that joins with the token.
   * @throws {ConclaveError} `invalid_identity`, `insufficient_balance`, `quota_exceeded`, `code_not_found`, `role_not_found`, `identity_taken`, `role_capacity_reached`, `room_ended`, `identity_banned`, `billing_unavailable`, `database_unavailable`
   */
  exchangeCode(code: string, body?: ExchangeCode, options?: CallOptions): Promise<Token> {
    return this.call("POST /v1/codes/{code}/exchange", { path: { code }, body }, options);
  }

  /**
   * Read a broadcast; while it runs, with its current status from the media plane.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `broadcast_not_found`, `media_unavailable`
   */
  getBroadcast(egressId: string, options?: CallOptions): Promise<Broadcast> {
    return this.call("GET /v1/broadcasts/{egress_id}", { path: { egress_id: egressId } }, options);
  }

  /**
   * Read a destination, without its secrets.
   *
   * @param templateId The template's id.
   * @param destination The destination's name.
   * @throws {ConclaveError} `destination_not_found`, `template_not_found`
   */
  getDestination(templateId: string, destination: string, options?: CallOptions): Promise<Destination> {
    return this.call("GET /v1/templates/{id}/destinations/{name}", { path: { id: templateId, name: destination } }, options);
  }

  /**
   * Read an endpoint, with its current status from the media plane.
   *
   * @param ingressId The endpoint's id.
   * @throws {ConclaveError} `ingress_not_found`, `media_unavailable`
   */
  getIngress(ingressId: string, options?: CallOptions): Promise<Ingress> {
    return this.call("GET /v1/ingress/{ingress_id}", { path: { ingress_id: ingressId } }, options);
  }

  /**
   * Read one participant.
   *
   * @param room The room's name.
   * @param identity The participant's identity.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `participant_not_found`, `room_not_found`, `media_unavailable`
   */
  getParticipant(room: string, identity: string, options?: CallOptions): Promise<Participant> {
    return this.call("GET /v1/rooms/{name}/participants/{identity}", { path: { name: room, identity } }, options);
  }

  /** Read the project's status under its plan. */
  getPlan(options?: CallOptions): Promise<PlanStatus> {
    return this.call("GET /v1/plan", {}, options);
  }

  /**
   * Read a recording; while it runs, with its current status from the media plane.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `recording_not_found`, `media_unavailable`
   */
  getRecording(egressId: string, options?: CallOptions): Promise<Recording> {
    return this.call("GET /v1/recordings/{egress_id}", { path: { egress_id: egressId } }, options);
  }

  /**
   * Read a role.
   *
   * @param templateId The template's id.
   * @param role The role's name.
   * @throws {ConclaveError} `role_not_found`, `template_not_found`
   */
  getRole(templateId: string, role: string, options?: CallOptions): Promise<Role> {
    return this.call("GET /v1/templates/{id}/roles/{name}", { path: { id: templateId, name: role } }, options);
  }

  /**
   * Read a room's record.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `room_not_found`
   */
  getRoom(room: string, options?: CallOptions): Promise<Room> {
    return this.call("GET /v1/rooms/{name}", { path: { name: room } }, options);
  }

  /**
   * Read a session with its tracks.
   *
   * @param sessionId The session's id.
   * @throws {ConclaveError} `session_not_found`
   */
  getSession(sessionId: string, options?: CallOptions): Promise<SessionDetail> {
    return this.call("GET /v1/sessions/{id}", { path: { id: sessionId } }, options);
  }

  /**
   * Read a template.
   *
   * @param templateId The template's id.
   * @throws {ConclaveError} `template_not_found`
   */
  getTemplate(templateId: string, options?: CallOptions): Promise<Template> {
    return this.call("GET /v1/templates/{id}", { path: { id: templateId } }, options);
  }

  /**
   * Read a template's settings.
   *
   * @param templateId The template's id.
   * @throws {ConclaveError} `template_not_found`
   */
  getTemplateSettings(templateId: string, options?: CallOptions): Promise<TemplateSettingsDetail> {
    return this.call("GET /v1/templates/{id}/settings", { path: { id: templateId } }, options);
  }

  /**
   * Read participant minutes by day.
   * @throws {ConclaveError} `billing_unavailable`, `database_unavailable`
   */
  getUsage(query?: GetUsageQuery, options?: CallOptions): Promise<Usage> {
    return this.call("GET /v1/usage", { query }, options);
  }

  /**
   * List the project's broadcasts, newest first.
   * @throws {ConclaveError} `invalid_room_name`
   */
  listBroadcasts(query?: ListBroadcastsQuery, options?: CallOptions): Promise<BroadcastPage> {
    return this.call("GET /v1/broadcasts", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listBroadcasts}. */
  allBroadcasts(query?: ListBroadcastsQuery, options?: CallOptions): AsyncGenerator<Broadcast, void, void> {
    return items(query, (page) => this.listBroadcasts(page, options));
  }

  /**
   * List a room's codes, newest first, including unusable ones.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_room_name`, `room_not_found`
   */
  listCodes(room: string, query?: ListCodesQuery, options?: CallOptions): Promise<RoomCodePage> {
    return this.call("GET /v1/rooms/{name}/codes", { path: { name: room }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Conclave.listCodes}.
   *
   * @param room The room's name.
   */
  allCodes(room: string, query?: ListCodesQuery, options?: CallOptions): AsyncGenerator<RoomCode, void, void> {
    return items(query, (page) => this.listCodes(room, page, options));
  }

  /**
   * List a template's destinations.
   *
   * @param templateId The template's id.
   * @throws {ConclaveError} `template_not_found`
   */
  listDestinations(templateId: string, options?: CallOptions): Promise<DestinationList> {
    return this.call("GET /v1/templates/{id}/destinations", { path: { id: templateId } }, options);
  }

  /**
   * List endpoints, newest first, including deleted ones.
   * @throws {ConclaveError} `invalid_room_name`
   */
  listIngresses(query?: ListIngressesQuery, options?: CallOptions): Promise<IngressPage> {
    return this.call("GET /v1/ingress", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listIngresses}. */
  allIngresses(query?: ListIngressesQuery, options?: CallOptions): AsyncGenerator<Ingress, void, void> {
    return items(query, (page) => this.listIngresses(page, options));
  }

  /**
   * List a room's participants.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_room_name`, `room_not_found`, `media_unavailable`
   */
  listParticipants(room: string, query?: ListParticipantsQuery, options?: CallOptions): Promise<ParticipantPage> {
    return this.call("GET /v1/rooms/{name}/participants", { path: { name: room }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Conclave.listParticipants}.
   *
   * @param room The room's name.
   */
  allParticipants(room: string, query?: ListParticipantsQuery, options?: CallOptions): AsyncGenerator<Participant, void, void> {
    return items(query, (page) => this.listParticipants(room, page, options));
  }

  /**
   * List the project's recordings, newest first.
   * @throws {ConclaveError} `invalid_room_name`
   */
  listRecordings(query?: ListRecordingsQuery, options?: CallOptions): Promise<RecordingPage> {
    return this.call("GET /v1/recordings", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listRecordings}. */
  allRecordings(query?: ListRecordingsQuery, options?: CallOptions): AsyncGenerator<Recording, void, void> {
    return items(query, (page) => this.listRecordings(page, options));
  }

  /**
   * List a room's role changes, newest first.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `room_not_found`
   */
  listRoleChanges(room: string, query?: ListRoleChangesQuery, options?: CallOptions): Promise<RoleChangePage> {
    return this.call("GET /v1/rooms/{name}/role-changes", { path: { name: room }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Conclave.listRoleChanges}.
   *
   * @param room The room's name.
   */
  allRoleChanges(room: string, query?: ListRoleChangesQuery, options?: CallOptions): AsyncGenerator<RoleChange, void, void> {
    return items(query, (page) => this.listRoleChanges(room, page, options));
  }

  /**
   * List a room's recordings, newest first.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_room_name`, `room_not_found`
   */
  listRoomRecordings(room: string, query?: ListRoomRecordingsQuery, options?: CallOptions): Promise<RecordingPage> {
    return this.call("GET /v1/rooms/{name}/recordings", { path: { name: room }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Conclave.listRoomRecordings}.
   *
   * @param room The room's name.
   */
  allRoomRecordings(room: string, query?: ListRoomRecordingsQuery, options?: CallOptions): AsyncGenerator<Recording, void, void> {
    return items(query, (page) => this.listRoomRecordings(room, page, options));
  }

  /**
   * List a room's sessions, newest first.
   *
   * @param room The room's name.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `room_not_found`
   */
  listRoomSessions(room: string, query?: ListRoomSessionsQuery, options?: CallOptions): Promise<SessionPage> {
    return this.call("GET /v1/rooms/{name}/sessions", { path: { name: room }, query }, options);
  }

  /**
   * Iterate over the items of all pages of {@link Conclave.listRoomSessions}.
   *
   * @param room The room's name.
   */
  allRoomSessions(room: string, query?: ListRoomSessionsQuery, options?: CallOptions): AsyncGenerator<Session, void, void> {
    return items(query, (page) => this.listRoomSessions(room, page, options));
  }

  /** List rooms, newest first, including ended ones. */
  listRooms(query?: ListRoomsQuery, options?: CallOptions): Promise<RoomPage> {
    return this.call("GET /v1/rooms", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listRooms}. */
  allRooms(query?: ListRoomsQuery, options?: CallOptions): AsyncGenerator<Room, void, void> {
    return items(query, (page) => this.listRooms(page, options));
  }

  /**
   * List sessions, newest first.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`
   */
  listSessions(query?: ListSessionsQuery, options?: CallOptions): Promise<SessionPage> {
    return this.call("GET /v1/sessions", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listSessions}. */
  allSessions(query?: ListSessionsQuery, options?: CallOptions): AsyncGenerator<Session, void, void> {
    return items(query, (page) => this.listSessions(page, options));
  }

  /** List templates. */
  listTemplates(query?: ListTemplatesQuery, options?: CallOptions): Promise<TemplatePage> {
    return this.call("GET /v1/templates", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listTemplates}. */
  allTemplates(query?: ListTemplatesQuery, options?: CallOptions): AsyncGenerator<Template, void, void> {
    return items(query, (page) => this.listTemplates(page, options));
  }

  /** List deliveries, newest first. */
  listWebhookDeliveries(query?: ListWebhookDeliveriesQuery, options?: CallOptions): Promise<WebhookDeliveryPage> {
    return this.call("GET /v1/webhook-deliveries", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listWebhookDeliveries}. */
  allWebhookDeliveries(query?: ListWebhookDeliveriesQuery, options?: CallOptions): AsyncGenerator<WebhookDelivery, void, void> {
    return items(query, (page) => this.listWebhookDeliveries(page, options));
  }

  /** List webhook endpoints. */
  listWebhookEndpoints(query?: ListWebhookEndpointsQuery, options?: CallOptions): Promise<WebhookEndpointPage> {
    return this.call("GET /v1/webhook-endpoints", { query }, options);
  }

  /** Iterate over the items of all pages of {@link Conclave.listWebhookEndpoints}. */
  allWebhookEndpoints(query?: ListWebhookEndpointsQuery, options?: CallOptions): AsyncGenerator<WebhookEndpoint, void, void> {
    return items(query, (page) => this.listWebhookEndpoints(page, options));
  }

  /**
   * Mute or unmute a participant's track.
   *
   * @param room The room's name.
   * @param identity The participant's identity.
   * @param body A track to mute or unmute.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `permission_denied`, `participant_not_found`, `room_not_found`, `track_not_found`, `idempotency_key_reuse`, `media_unavailable`
   */
  muteTrack(room: string, identity: string, body: MuteTrack, options?: CallOptions): Promise<MutedTrack> {
    return this.call("POST /v1/rooms/{name}/participants/{identity}/mute", { path: { name: room, identity }, body }, options);
  }

  /**
   * Create or replace a role.
   *
   * @param templateId The template's id.
   * @param role The role's name.
   * @param body A role as a caller sends it.
   * @throws {ConclaveError} `template_not_found`
   */
  putRole(templateId: string, role: string, body: RoleInput, options?: CallOptions): Promise<Role> {
    return this.call("PUT /v1/templates/{id}/roles/{name}", { path: { id: templateId, name: role }, body }, options);
  }

  /**
   * Disconnect a participant; its token stays valid, unless `revoke` is true.
   *
   * @param room The room's name.
   * @param identity The participant's identity.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `permission_denied`, `participant_not_found`, `room_not_found`, `media_unavailable`
   */
  removeParticipant(room: string, identity: string, options?: CallOptions, query?: RemoveParticipantQuery): Promise<void> {
    return this.call("DELETE /v1/rooms/{name}/participants/{identity}", { path: { name: room, identity }, query }, options);
  }

  /**
   * Queue a failed delivery again.
   *
   * @param webhookDeliveryId The delivery's id.
   * @throws {ConclaveError} `delivery_not_found`, `delivery_not_retryable`, `idempotency_key_reuse`
   */
  retryWebhookDelivery(webhookDeliveryId: string, options?: CallOptions): Promise<WebhookDelivery> {
    return this.call("POST /v1/webhook-deliveries/{id}/retry", { path: { id: webhookDeliveryId } }, options);
  }

  /**
   * Send data to all or some of a room's participants.
   *
   * @param room The room's name.
   * @param body A message from the server.
   * @throws {ConclaveError} `invalid_identity`, `invalid_room_name`, `permission_denied`, `room_not_found`, `idempotency_key_reuse`, `media_unavailable`
   */
  sendData(room: string, body: SendData, options?: CallOptions): Promise<DataSent> {
    return this.call("POST /v1/rooms/{name}/send-data", { path: { name: room }, body }, options);
  }

  /**
   * Start a broadcast.
   *
   * @param room The room's name.
   * @param body A broadcast to start.
   * @throws {ConclaveError} `blocked_url`, `invalid_room_name`, `invalid_url`, `feature_not_in_plan`, `insufficient_balance`, `quota_exceeded`, `permission_denied`, `destination_not_found`, `room_not_found`, `template_not_found`, `broadcast_exists`, `idempotency_key_reuse`, `room_ended`, `billing_unavailable`, `destination_unusable`, `media_unavailable`
   */
  startBroadcast(room: string, body: StartBroadcast, options?: CallOptions): Promise<Broadcast> {
    return this.call("POST /v1/rooms/{name}/broadcasts", { path: { name: room }, body }, options);
  }

  /**
   * Start a recording.
   *
   * @param room The room's name.
   * @param body A recording to start.
   * @throws {ConclaveError} `invalid_filepath`, `invalid_identity`, `invalid_room_name`, `feature_not_in_plan`, `insufficient_balance`, `quota_exceeded`, `permission_denied`, `destination_not_found`, `room_not_found`, `template_not_found`, `track_not_found`, `idempotency_key_reuse`, `recording_exists`, `room_ended`, `billing_unavailable`, `destination_unusable`, `media_unavailable`
   */
  startRecording(room: string, body: StartRecording, options?: CallOptions): Promise<Recording> {
    return this.call("POST /v1/rooms/{name}/recordings", { path: { name: room }, body }, options);
  }

  /**
   * Stop a broadcast.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `permission_denied`, `broadcast_not_found`, `idempotency_key_reuse`, `media_unavailable`
   */
  stopBroadcast(egressId: string, options?: CallOptions): Promise<Broadcast> {
    return this.call("POST /v1/broadcasts/{egress_id}/stop", { path: { egress_id: egressId } }, options);
  }

  /**
   * Stop a recording; its file is complete shortly after.
   *
   * @param egressId The egress id.
   * @throws {ConclaveError} `permission_denied`, `recording_not_found`, `idempotency_key_reuse`, `media_unavailable`
   */
  stopRecording(egressId: string, options?: CallOptions): Promise<Recording> {
    return this.call("POST /v1/recordings/{egress_id}/stop", { path: { egress_id: egressId } }, options);
  }

  /**
   * Replace a destination's configuration; credentials left out are kept.
   *
   * @param templateId The template's id.
   * @param destination The destination's name.
   * @param body New configuration. It replaces the stored one as a whole, except for omitted credentials.
   * @throws {ConclaveError} `blocked_url`, `invalid_url`, `feature_not_in_plan`, `destination_not_found`, `template_not_found`, `destination_unusable`, `encryption_unavailable`
   */
  updateDestination(templateId: string, destination: string, body: UpdateDestination, options?: CallOptions): Promise<Destination> {
    return this.call("PATCH /v1/templates/{id}/destinations/{name}", { path: { id: templateId, name: destination }, body }, options);
  }

  /**
   * Change a template; omitted fields stay unchanged.
   *
   * @param templateId The template's id.
   * @param body The changes of a template. A sent role is replaced as a whole; an omitted role stays unchanged.
   * @throws {ConclaveError} `template_not_found`, `template_exists`
   */
  updateTemplate(templateId: string, body: UpdateTemplate, options?: CallOptions): Promise<Template> {
    return this.call("PATCH /v1/templates/{id}", { path: { id: templateId }, body }, options);
  }

  /**
   * Set a template's region.
   *
   * @param templateId The template's id.
   * @param body A region to set.
   * @throws {ConclaveError} `template_not_found`
   */
  updateTemplateSettings(templateId: string, body: UpdateTemplateSettings, options?: CallOptions): Promise<TemplateSettingsDetail> {
    return this.call("PATCH /v1/templates/{id}/settings", { path: { id: templateId }, body }, options);
  }
}
