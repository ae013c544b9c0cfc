-- The schema that migrations/sqlite has after 0017. Instants are milliseconds since the epoch, ids of rows are UUIDs of version 7, which
-- sort by age. Texts sort by their bytes whatever the locale of the database is.

CREATE TABLE projects (
    id                  TEXT COLLATE "C" PRIMARY KEY,
    name                TEXT COLLATE "C" NOT NULL,
    env                 TEXT COLLATE "C" NOT NULL CHECK (env IN ('live', 'test')),
    plan                TEXT COLLATE "C" NOT NULL,
    status              TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'suspended')),
    default_template_id TEXT COLLATE "C",
    balance_ugx         BIGINT           NOT NULL DEFAULT 0,
    created_at          BIGINT           NOT NULL,
    settled_until       BIGINT,
    open_rooms          BIGINT           NOT NULL DEFAULT 0 CHECK (open_rooms >= 0)
);
CREATE INDEX projects_newest ON projects (created_at, id);

-- Of a key only its SHA-256 and its first twelve characters are kept.
CREATE TABLE api_keys (
    prefix     TEXT COLLATE "C" PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    hash       BYTEA            NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX api_keys_of_project ON api_keys (project_id);

CREATE TABLE templates (
    id         TEXT COLLATE "C" PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    name       TEXT COLLATE "C" NOT NULL,
    region     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL,
    UNIQUE (project_id, name)
);
CREATE INDEX templates_newest ON templates (project_id, created_at, id);

ALTER TABLE projects ADD CONSTRAINT projects_default_template_id_fkey FOREIGN KEY (default_template_id) REFERENCES templates (id);

-- A role's body is the JSON of the complete role.
CREATE TABLE roles (
    template_id TEXT COLLATE "C" NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    name        TEXT COLLATE "C" NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (template_id, name)
);

-- template_id is no foreign key: an ended room keeps the id of a deleted template as history.
CREATE TABLE rooms (
    id                    UUID             PRIMARY KEY,
    project_id            TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    name                  TEXT COLLATE "C" NOT NULL,
    max_participants      BIGINT           NOT NULL,
    empty_timeout_seconds BIGINT           NOT NULL,
    metadata              TEXT COLLATE "C",
    status                TEXT COLLATE "C" NOT NULL CHECK (status IN ('open', 'ended')),
    template_id           TEXT COLLATE "C",
    created_at            BIGINT           NOT NULL,
    started_at            BIGINT,
    ended_at              BIGINT,
    empty_deadline        BIGINT,
    UNIQUE (project_id, name)
);
CREATE INDEX rooms_newest ON rooms (project_id, created_at, id);
CREATE INDEX rooms_open ON rooms (project_id, template_id, id) WHERE status = 'open';

CREATE TABLE sessions (
    id                   UUID             PRIMARY KEY,
    project_id           TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id              UUID             NOT NULL REFERENCES rooms (id),
    room                 TEXT COLLATE "C" NOT NULL,
    participant_identity TEXT COLLATE "C" NOT NULL,
    participant_sid      TEXT COLLATE "C" NOT NULL,
    kind                 TEXT COLLATE "C" NOT NULL,
    role                 TEXT COLLATE "C",
    joined_at            BIGINT           NOT NULL,
    left_at              BIGINT,
    UNIQUE (room_id, participant_sid)
);
CREATE INDEX sessions_newest ON sessions (project_id, joined_at, id);
CREATE INDEX sessions_of_identity ON sessions (project_id, participant_identity, joined_at, id);
CREATE INDEX sessions_of_identity_in_room ON sessions (room_id, participant_identity, joined_at, id);
CREATE INDEX sessions_of_role ON sessions (project_id, role, joined_at, id) WHERE role IS NOT NULL;
CREATE INDEX sessions_of_role_in_room ON sessions (room_id, role, joined_at, id) WHERE role IS NOT NULL;
CREATE INDEX sessions_of_room ON sessions (room_id, joined_at, id);
CREATE INDEX sessions_open_in_room ON sessions (room_id, joined_at, id) WHERE left_at IS NULL;
CREATE INDEX sessions_open_of_project ON sessions (project_id, joined_at, id) WHERE left_at IS NULL;

CREATE TABLE tracks (
    session_id UUID             NOT NULL REFERENCES sessions (id),
    track_sid  TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    source     TEXT COLLATE "C" NOT NULL,
    muted      BIGINT           NOT NULL,
    started_at BIGINT           NOT NULL,
    ended_at   BIGINT,
    PRIMARY KEY (session_id, track_sid)
);

-- A secret is sealed with the encryption key named by secret_key_id; a deployment without a key keeps it as it is. A deleted endpoint
-- stays, inactive and without its secret, until its pending deliveries are deleted.
CREATE TABLE webhook_endpoints (
    id            UUID             PRIMARY KEY,
    project_id    TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    url           TEXT COLLATE "C" NOT NULL,
    secret        BYTEA            NOT NULL,
    secret_key_id TEXT COLLATE "C",
    active        BIGINT           NOT NULL,
    created_at    BIGINT           NOT NULL
);
CREATE INDEX webhook_endpoints_deleted ON webhook_endpoints (id) WHERE active = 0;
CREATE INDEX webhook_endpoints_newest ON webhook_endpoints (project_id, created_at, id);

-- The outbox: an event stands here in the transaction of the change it reports, and a delivery for each endpoint. Its numbers are in the
-- order of the commits within a project, which has one writer, and not across projects.
CREATE TABLE events (
    id         BIGINT           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room       TEXT COLLATE "C" NOT NULL,
    type       TEXT COLLATE "C" NOT NULL,
    payload    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL
);
CREATE INDEX events_by_age ON events (created_at);

-- endpoint_id is no foreign key: deliveries stay in the log when their endpoint is deleted.
CREATE TABLE webhook_deliveries (
    seq             BIGINT           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id              UUID             NOT NULL UNIQUE,
    project_id      TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    endpoint_id     UUID             NOT NULL,
    endpoint_url    TEXT COLLATE "C" NOT NULL,
    event_id        BIGINT           NOT NULL REFERENCES events (id),
    status          TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts        BIGINT           NOT NULL DEFAULT 0,
    next_attempt_at BIGINT,
    delivered_at    BIGINT,
    created_at      BIGINT           NOT NULL,
    last_error      TEXT COLLATE "C" NOT NULL DEFAULT '',
    response_status BIGINT,
    event_type      TEXT COLLATE "C" NOT NULL DEFAULT '',
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
);
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (project_id, status, seq);
CREATE INDEX webhook_deliveries_by_type ON webhook_deliveries (project_id, event_type, seq);
CREATE INDEX webhook_deliveries_by_type_and_status ON webhook_deliveries (project_id, event_type, status, seq);
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (endpoint_id, status, seq) WHERE status = 'pending' AND attempts = 0;
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (project_id, seq);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, seq);
CREATE INDEX webhook_deliveries_of_endpoint_by_status ON webhook_deliveries (endpoint_id, status, seq);
CREATE INDEX webhook_deliveries_of_endpoint_by_type ON webhook_deliveries (endpoint_id, event_type, seq);
CREATE INDEX webhook_deliveries_of_event ON webhook_deliveries (event_id);
CREATE INDEX webhook_deliveries_retries ON webhook_deliveries (endpoint_id, next_attempt_at, seq) WHERE status = 'pending' AND attempts > 0;

CREATE TABLE role_changes (
    id                        UUID             PRIMARY KEY,
    project_id                TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id                   UUID             NOT NULL REFERENCES rooms (id),
    room                      TEXT COLLATE "C" NOT NULL,
    participant_identity      TEXT COLLATE "C" NOT NULL,
    participant_sid           TEXT COLLATE "C" NOT NULL,
    role                      TEXT COLLATE "C" NOT NULL,
    previous_role             TEXT COLLATE "C",
    changed_by_identity       TEXT COLLATE "C",
    changed_by_api_key_prefix TEXT COLLATE "C",
    created_at                BIGINT           NOT NULL
);
CREATE INDEX role_changes_of_identity ON role_changes (room_id, participant_identity, created_at, id);
CREATE INDEX role_changes_of_room ON role_changes (room_id, created_at, id);

-- Of a code only its SHA-256 and its first four characters are kept. uses counts exchanges that gave a token.
CREATE TABLE codes (
    id         UUID             PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id    UUID             NOT NULL REFERENCES rooms (id),
    room       TEXT COLLATE "C" NOT NULL,
    role       TEXT COLLATE "C" NOT NULL,
    hash       BYTEA            NOT NULL UNIQUE,
    prefix     TEXT COLLATE "C" NOT NULL,
    identity   TEXT COLLATE "C",
    expires_at BIGINT           NOT NULL,
    max_uses   BIGINT,
    uses       BIGINT           NOT NULL DEFAULT 0,
    disabled   BIGINT           NOT NULL DEFAULT 0,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL,
    CHECK (max_uses IS NULL OR uses <= max_uses)
);
CREATE INDEX codes_of_room ON codes (room_id, created_at, id);

-- What each day saw of a project, kept as sessions begin and end.
CREATE TABLE usage_days (
    project_id     TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    day            BIGINT           NOT NULL,
    participant_ms BIGINT           NOT NULL DEFAULT 0,
    sessions       BIGINT           NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, day)
);

-- config is JSON as it is shown, without secrets; sealed is the whole configuration, under the encryption key key_id.
CREATE TABLE destinations (
    id          TEXT COLLATE "C" PRIMARY KEY,
    template_id TEXT COLLATE "C" NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    name        TEXT COLLATE "C" NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL CHECK (kind IN ('recording', 'rtmp')),
    config      TEXT COLLATE "C" NOT NULL,
    sealed      BYTEA            NOT NULL,
    key_id      TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT           NOT NULL,
    updated_at  BIGINT           NOT NULL,
    UNIQUE (template_id, name)
);

-- Recordings and broadcasts. urls is a JSON array with the stream keys redacted. destination_id is no foreign key: an egress that is over
-- keeps the id of a deleted destination as history.
CREATE TABLE egresses (
    id             UUID             PRIMARY KEY,
    project_id     TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id        UUID             NOT NULL REFERENCES rooms (id),
    room           TEXT COLLATE "C" NOT NULL,
    egress_id      TEXT COLLATE "C" NOT NULL UNIQUE,
    kind           TEXT COLLATE "C" NOT NULL CHECK (kind IN ('recording', 'broadcast')),
    recording_type TEXT COLLATE "C",
    filepath       TEXT COLLATE "C",
    urls           TEXT COLLATE "C",
    destination    TEXT COLLATE "C",
    destination_id TEXT COLLATE "C",
    status         TEXT COLLATE "C" NOT NULL,
    error          TEXT COLLATE "C",
    started_at     BIGINT           NOT NULL,
    ended_at       BIGINT,
    created_at     BIGINT           NOT NULL,
    CHECK ((kind = 'recording') = (recording_type IS NOT NULL AND filepath IS NOT NULL)),
    CHECK ((kind = 'broadcast') = (urls IS NOT NULL)),
    CHECK ((ended_at IS NOT NULL) = (status IN ('complete', 'failed', 'aborted', 'limit_reached')))
);
CREATE INDEX egresses_by_filepath ON egresses (project_id, destination_id, filepath) WHERE destination_id IS NOT NULL;
CREATE INDEX egresses_by_status ON egresses (project_id, kind, status, started_at, id);
CREATE INDEX egresses_newest ON egresses (project_id, kind, started_at, id);
CREATE INDEX egresses_of_room ON egresses (project_id, kind, room, started_at, id);
CREATE INDEX egresses_of_room_by_status ON egresses (project_id, kind, room, status, started_at, id);
CREATE INDEX egresses_running ON egresses (project_id) WHERE ended_at IS NULL;
CREATE INDEX egresses_to_destination ON egresses (destination_id) WHERE ended_at IS NULL;

-- Ingress endpoints. Of a stream key only its SHA-256 is kept; url has REDACTED in its place.
CREATE TABLE ingresses (
    id                   UUID             PRIMARY KEY,
    project_id           TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id              UUID             NOT NULL REFERENCES rooms (id),
    room                 TEXT COLLATE "C" NOT NULL,
    ingress_id           TEXT COLLATE "C" NOT NULL UNIQUE,
    input_type           TEXT COLLATE "C" NOT NULL CHECK (input_type IN ('rtmp', 'whip')),
    participant_identity TEXT COLLATE "C" NOT NULL,
    participant_name     TEXT COLLATE "C",
    url                  TEXT COLLATE "C" NOT NULL,
    key_hash             BYTEA            NOT NULL,
    status               TEXT COLLATE "C" NOT NULL,
    error                TEXT COLLATE "C",
    created_at           BIGINT           NOT NULL,
    updated_at           BIGINT           NOT NULL,
    deleted_at           BIGINT,
    CHECK ((status = 'error') = (error IS NOT NULL)),
    CHECK ((status = 'deleted') = (deleted_at IS NOT NULL))
);
CREATE INDEX ingresses_by_status ON ingresses (project_id, status, created_at, id);
CREATE INDEX ingresses_by_type ON ingresses (project_id, input_type, created_at, id);
CREATE INDEX ingresses_by_type_and_status ON ingresses (project_id, input_type, status, created_at, id);
CREATE INDEX ingresses_live ON ingresses (project_id) WHERE status NOT IN ('complete', 'deleted');
CREATE INDEX ingresses_live_in_room ON ingresses (room_id) WHERE status NOT IN ('complete', 'deleted');
CREATE INDEX ingresses_newest ON ingresses (project_id, created_at, id);
CREATE INDEX ingresses_of_room ON ingresses (project_id, room, created_at, id);
CREATE INDEX ingresses_of_room_by_status ON ingresses (project_id, room, status, created_at, id);
CREATE INDEX ingresses_of_room_by_type ON ingresses (project_id, room, input_type, created_at, id);

-- Stored responses. body is sealed when body_key_id names a key. caller is the room and identity of a participant that was refused, and
-- empty for what belongs to the whole project; made_by is the participant that made the call.
CREATE TABLE idempotency (
    project_id  TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    operation   TEXT COLLATE "C" NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    caller      TEXT COLLATE "C" NOT NULL,
    made_by     TEXT COLLATE "C",
    fingerprint BYTEA            NOT NULL,
    status      BIGINT           NOT NULL,
    body        BYTEA            NOT NULL,
    body_key_id TEXT COLLATE "C",
    created_at  BIGINT           NOT NULL,
    PRIMARY KEY (project_id, operation, key, caller)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE heartbeat (
    id BIGINT           PRIMARY KEY CHECK (id = 1),
    at BIGINT           NOT NULL
);

-- Recordings whose file is on a machine until it has been uploaded. result and error are how the recording ended.
CREATE TABLE uploads (
    egress_id    TEXT COLLATE "C" PRIMARY KEY REFERENCES egresses (egress_id),
    project_id   TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    result       TEXT COLLATE "C",
    error        TEXT COLLATE "C",
    multipart_id TEXT COLLATE "C",
    CHECK (result IS NULL OR result IN ('complete', 'failed', 'aborted', 'limit_reached'))
);
CREATE INDEX uploads_of_project ON uploads (project_id);

-- The last job that each lane of a writer has committed, for when a connection ends before the answer to a COMMIT.
CREATE TABLE lanes (
    lane BIGINT PRIMARY KEY,
    job  UUID   NOT NULL
);
