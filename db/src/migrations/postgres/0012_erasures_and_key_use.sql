-- Erasures of identities that have begun and are not complete. A row, and with it the identity, is deleted when its erasure is complete.
CREATE TABLE erasures (
    project_id  TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    identity    TEXT COLLATE "C" NOT NULL,
    replacement TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT           NOT NULL,
    PRIMARY KEY (project_id, identity)
);

-- The participant or the track that a recording was started for. source_identity of a track is its publisher, as far as it is known.
ALTER TABLE egresses ADD COLUMN source_identity TEXT COLLATE "C";
ALTER TABLE egresses ADD COLUMN source_track TEXT COLLATE "C";
CREATE INDEX IF NOT EXISTS egresses_of_identity ON egresses (project_id, source_identity, ended_at, id) WHERE source_identity IS NOT NULL;
CREATE INDEX IF NOT EXISTS egresses_of_unknown_publisher ON egresses (project_id, id) WHERE source_track IS NOT NULL AND source_identity IS NULL;
CREATE INDEX IF NOT EXISTS role_changes_of_participant ON role_changes (project_id, participant_identity);
CREATE INDEX IF NOT EXISTS role_changes_by_participant ON role_changes (project_id, changed_by_identity) WHERE changed_by_identity IS NOT NULL;
CREATE INDEX IF NOT EXISTS codes_of_identity ON codes (project_id, identity) WHERE identity IS NOT NULL;
CREATE INDEX IF NOT EXISTS ingresses_of_identity ON ingresses (project_id, participant_identity);

-- last_used_on is the number of the day, as in usage_days.
ALTER TABLE api_keys ADD COLUMN expires_at BIGINT;
ALTER TABLE api_keys ADD COLUMN last_used_on BIGINT;
