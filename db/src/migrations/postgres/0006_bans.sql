-- An identity that may not join a room: until a time, or while the row exists.
CREATE TABLE bans (
    id                   UUID             PRIMARY KEY,
    project_id           TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id              UUID             NOT NULL REFERENCES rooms (id),
    room                 TEXT COLLATE "C" NOT NULL,
    participant_identity TEXT COLLATE "C" NOT NULL,
    until                BIGINT,
    reason               TEXT COLLATE "C",
    created_at           BIGINT           NOT NULL,
    updated_at           BIGINT           NOT NULL,
    UNIQUE (room_id, participant_identity)
);
CREATE INDEX IF NOT EXISTS bans_of_room ON bans (room_id, created_at, id);

-- The last revocation of an identity's tokens for a room. A token that was minted later has its id; others are refused.
CREATE TABLE revocations (
    id                   UUID             PRIMARY KEY,
    project_id           TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    room_id              UUID             NOT NULL REFERENCES rooms (id),
    room                 TEXT COLLATE "C" NOT NULL,
    participant_identity TEXT COLLATE "C" NOT NULL,
    tokens_minted_until  BIGINT           NOT NULL,
    UNIQUE (room_id, participant_identity)
);

-- For the erasure of a person.
CREATE INDEX IF NOT EXISTS bans_of_person ON bans (project_id, participant_identity);
CREATE INDEX IF NOT EXISTS revocations_of_person ON revocations (project_id, participant_identity);
