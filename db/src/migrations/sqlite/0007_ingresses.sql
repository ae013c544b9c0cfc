-- Ingress endpoints. Of a stream key only its SHA-256 is kept; url has REDACTED in its place.
-- An endpoint that is neither complete nor deleted belongs to an open room.
CREATE TABLE ingresses (
    id                   BLOB    PRIMARY KEY,
    project_id           TEXT    NOT NULL REFERENCES projects (id),
    room_id              BLOB    NOT NULL REFERENCES rooms (id),
    room                 TEXT    NOT NULL,
    ingress_id           TEXT    NOT NULL UNIQUE,
    input_type           TEXT    NOT NULL CHECK (input_type IN ('rtmp', 'whip')),
    participant_identity TEXT    NOT NULL,
    participant_name     TEXT,
    url                  TEXT    NOT NULL,
    key_hash             BLOB    NOT NULL,
    status               TEXT    NOT NULL,
    error                TEXT,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    deleted_at           INTEGER,
    CHECK ((status = 'error') = (error IS NOT NULL)),
    CHECK ((status = 'deleted') = (deleted_at IS NOT NULL))
) STRICT;
CREATE INDEX ingresses_newest ON ingresses (project_id, created_at DESC, id DESC);
CREATE INDEX ingresses_of_room ON ingresses (project_id, room, created_at DESC, id DESC);
CREATE INDEX ingresses_live ON ingresses (project_id) WHERE status NOT IN ('complete', 'deleted');
CREATE INDEX ingresses_live_in_room ON ingresses (room_id) WHERE status NOT IN ('complete', 'deleted');
