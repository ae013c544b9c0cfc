-- Recordings and broadcasts. egress_id is unique, so that one egress is never both, nor twice one of them.
-- urls is a JSON array with the stream keys redacted; the keys themselves are kept nowhere.
-- destination_id is no foreign key: a job that is over keeps the id of a deleted destination as history.
CREATE TABLE egresses (
    id             BLOB    PRIMARY KEY,
    project_id     TEXT    NOT NULL REFERENCES projects (id),
    room_id        BLOB    NOT NULL REFERENCES rooms (id),
    room           TEXT    NOT NULL,
    egress_id      TEXT    NOT NULL UNIQUE,
    kind           TEXT    NOT NULL CHECK (kind IN ('recording', 'broadcast')),
    recording_type TEXT,
    filepath       TEXT,
    urls           TEXT,
    destination    TEXT,
    destination_id TEXT,
    status         TEXT    NOT NULL,
    error          TEXT,
    started_at     INTEGER NOT NULL,
    ended_at       INTEGER,
    created_at     INTEGER NOT NULL,
    CHECK ((kind = 'recording') = (recording_type IS NOT NULL AND filepath IS NOT NULL)),
    CHECK ((kind = 'broadcast') = (urls IS NOT NULL)),
    CHECK ((ended_at IS NOT NULL) = (status IN ('complete', 'failed', 'aborted', 'limit_reached')))
) STRICT;
CREATE INDEX egresses_newest ON egresses (project_id, kind, started_at DESC, id DESC);
CREATE INDEX egresses_of_room ON egresses (project_id, kind, room, started_at DESC, id DESC);
CREATE INDEX egresses_running ON egresses (project_id) WHERE ended_at IS NULL;
CREATE INDEX egresses_to_destination ON egresses (destination_id) WHERE ended_at IS NULL;
