-- Instants are milliseconds since the epoch. UUIDs are 16-byte blobs of version 7, so they sort by age.

CREATE TABLE projects (
    id                  TEXT    PRIMARY KEY,
    name                TEXT    NOT NULL,
    env                 TEXT    NOT NULL CHECK (env IN ('live', 'test')),
    plan                TEXT    NOT NULL,
    status              TEXT    NOT NULL CHECK (status IN ('active', 'suspended')),
    default_template_id TEXT    REFERENCES templates (id),
    balance_ugx         INTEGER NOT NULL DEFAULT 0,
    created_at          INTEGER NOT NULL
) STRICT;

-- Of a key only its SHA-256 and its first twelve characters are kept.
CREATE TABLE api_keys (
    prefix     TEXT    PRIMARY KEY,
    project_id TEXT    NOT NULL REFERENCES projects (id),
    hash       BLOB    NOT NULL,
    label      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX api_keys_of_project ON api_keys (project_id);

CREATE TABLE templates (
    id         TEXT    PRIMARY KEY,
    project_id TEXT    NOT NULL REFERENCES projects (id),
    name       TEXT    NOT NULL,
    region     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (project_id, name)
) STRICT;
CREATE INDEX templates_newest ON templates (project_id, created_at DESC, id DESC);

-- A role's body is the JSON of the complete role.
CREATE TABLE roles (
    template_id TEXT NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (template_id, name)
) STRICT, WITHOUT ROWID;

-- template_id is no foreign key: an ended room keeps the id of a deleted template as history.
CREATE TABLE rooms (
    id                    BLOB    PRIMARY KEY,
    project_id            TEXT    NOT NULL REFERENCES projects (id),
    name                  TEXT    NOT NULL,
    max_participants      INTEGER NOT NULL,
    empty_timeout_seconds INTEGER NOT NULL,
    metadata              TEXT,
    status                TEXT    NOT NULL CHECK (status IN ('open', 'ended')),
    template_id           TEXT,
    created_at            INTEGER NOT NULL,
    started_at            INTEGER,
    ended_at              INTEGER,
    empty_deadline        INTEGER,
    UNIQUE (project_id, name)
) STRICT;
CREATE INDEX rooms_newest ON rooms (project_id, created_at DESC, id DESC);
CREATE INDEX rooms_open ON rooms (project_id) WHERE status = 'open';
CREATE INDEX rooms_open_of_template ON rooms (template_id) WHERE status = 'open';

CREATE TABLE sessions (
    id                   BLOB    PRIMARY KEY,
    project_id           TEXT    NOT NULL REFERENCES projects (id),
    room_id              BLOB    NOT NULL REFERENCES rooms (id),
    room                 TEXT    NOT NULL,
    participant_identity TEXT    NOT NULL,
    participant_sid      TEXT    NOT NULL,
    kind                 TEXT    NOT NULL,
    role                 TEXT,
    joined_at            INTEGER NOT NULL,
    left_at              INTEGER,
    UNIQUE (room_id, participant_sid)
) STRICT;
CREATE INDEX sessions_newest ON sessions (project_id, joined_at DESC, id DESC);
CREATE INDEX sessions_of_room ON sessions (room_id, joined_at DESC, id DESC);
CREATE INDEX sessions_open ON sessions (room_id) WHERE left_at IS NULL;

CREATE TABLE tracks (
    session_id BLOB    NOT NULL REFERENCES sessions (id),
    track_sid  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    muted      INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (session_id, track_sid)
) STRICT, WITHOUT ROWID;

-- A secret is sealed with the encryption key named by secret_key_id; a deployment without a key keeps it as it is.
CREATE TABLE webhook_endpoints (
    id            BLOB    PRIMARY KEY,
    project_id    TEXT    NOT NULL REFERENCES projects (id),
    url           TEXT    NOT NULL,
    secret        BLOB    NOT NULL,
    secret_key_id TEXT,
    active        INTEGER NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_endpoints_newest ON webhook_endpoints (project_id, created_at DESC, id DESC);

-- The outbox: an event stands here in the transaction of the change it reports, and a delivery for each endpoint.
CREATE TABLE events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT    NOT NULL REFERENCES projects (id),
    room       TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    payload    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_age ON events (created_at);

-- endpoint_id is no foreign key: deliveries stay in the log when their endpoint is deleted.
CREATE TABLE webhook_deliveries (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB    NOT NULL UNIQUE,
    project_id      TEXT    NOT NULL REFERENCES projects (id),
    endpoint_id     BLOB    NOT NULL,
    endpoint_url    TEXT    NOT NULL,
    event_id        INTEGER NOT NULL REFERENCES events (id),
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    delivered_at    INTEGER,
    created_at      INTEGER NOT NULL,
    last_error      TEXT    NOT NULL DEFAULT '',
    response_status INTEGER,
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
) STRICT;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at, seq) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (project_id, seq DESC);
CREATE INDEX webhook_deliveries_of_event ON webhook_deliveries (event_id);

-- Answers kept for replay. body is sealed when body_key_id names a key.
CREATE TABLE idempotency (
    project_id  TEXT    NOT NULL REFERENCES projects (id),
    operation   TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    status      INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    body_key_id TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (project_id, operation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
