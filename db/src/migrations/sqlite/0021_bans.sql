-- An identity that may not join a room: until a time, or while the row exists.
CREATE TABLE bans (
    id                   BLOB    PRIMARY KEY,
    project_id           TEXT    NOT NULL REFERENCES projects (id),
    room_id              BLOB    NOT NULL REFERENCES rooms (id),
    room                 TEXT    NOT NULL,
    participant_identity TEXT    NOT NULL,
    until                INTEGER,
    reason               TEXT,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    UNIQUE (room_id, participant_identity)
) STRICT;
CREATE INDEX bans_of_room ON bans (room_id, created_at, id);

-- The last revocation of an identity's tokens for a room. A token that was minted later has its id; others are refused.
CREATE TABLE revocations (
    id                   BLOB    PRIMARY KEY,
    project_id           TEXT    NOT NULL REFERENCES projects (id),
    room_id              BLOB    NOT NULL REFERENCES rooms (id),
    room                 TEXT    NOT NULL,
    participant_identity TEXT    NOT NULL,
    tokens_minted_until  INTEGER NOT NULL,
    UNIQUE (room_id, participant_identity)
) STRICT;

-- For the erasure of a person.
CREATE INDEX bans_of_person ON bans (project_id, participant_identity);
CREATE INDEX revocations_of_person ON revocations (project_id, participant_identity);
