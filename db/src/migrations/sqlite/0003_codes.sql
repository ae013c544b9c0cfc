-- Of a code only its SHA-256 and its first four characters are kept. uses counts exchanges that gave a token.
CREATE TABLE codes (
    id         BLOB    PRIMARY KEY,
    project_id TEXT    NOT NULL REFERENCES projects (id),
    room_id    BLOB    NOT NULL REFERENCES rooms (id),
    room       TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,
    prefix     TEXT    NOT NULL,
    identity   TEXT,
    expires_at INTEGER NOT NULL,
    max_uses   INTEGER,
    uses       INTEGER NOT NULL DEFAULT 0,
    disabled   INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK (max_uses IS NULL OR uses <= max_uses)
) STRICT;
CREATE INDEX codes_of_room ON codes (room_id, created_at DESC, id DESC);
