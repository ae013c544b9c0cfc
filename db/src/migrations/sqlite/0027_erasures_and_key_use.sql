-- Erasures of identities that have begun and are not complete. A row, and with it the identity, is deleted when its erasure is complete.
CREATE TABLE erasures (
    project_id  TEXT    NOT NULL REFERENCES projects (id),
    identity    TEXT    NOT NULL,
    replacement TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (project_id, identity)
) STRICT, WITHOUT ROWID;

-- The participant or the track that a recording was started for. source_identity of a track is its publisher, as far as it is known.
ALTER TABLE egresses ADD COLUMN source_identity TEXT;
ALTER TABLE egresses ADD COLUMN source_track TEXT;
CREATE INDEX egresses_of_identity ON egresses (project_id, source_identity, ended_at, id) WHERE source_identity IS NOT NULL;
CREATE INDEX egresses_of_unknown_publisher ON egresses (project_id, id) WHERE source_track IS NOT NULL AND source_identity IS NULL;
CREATE INDEX role_changes_of_participant ON role_changes (project_id, participant_identity);
CREATE INDEX role_changes_by_participant ON role_changes (project_id, changed_by_identity) WHERE changed_by_identity IS NOT NULL;
CREATE INDEX codes_of_identity ON codes (project_id, identity) WHERE identity IS NOT NULL;
CREATE INDEX ingresses_of_identity ON ingresses (project_id, participant_identity);
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('egresses', 'egresses_of_identity', '10000 1000 10 1 1'),
    ('egresses', 'egresses_of_unknown_publisher', '10 10 1'),
    ('role_changes', 'sqlite_autoindex_role_changes_1', '100000 1'),
    ('role_changes', 'role_changes_of_room', '100000 100 1 1'),
    ('role_changes', 'role_changes_of_identity', '100000 100 10 1 1'),
    ('role_changes', 'role_changes_of_participant', '100000 10000 100'),
    ('role_changes', 'role_changes_by_participant', '100000 10000 100'),
    ('codes', 'sqlite_autoindex_codes_1', '1000000 1'),
    ('codes', 'sqlite_autoindex_codes_2', '1000000 1'),
    ('codes', 'codes_of_room', '1000000 2 1 1'),
    ('codes', 'codes_of_identity', '1000000 100000 10'),
    ('ingresses', 'ingresses_of_identity', '10000 1000 10');
ANALYZE sqlite_schema;

-- last_used_on is the number of the day, as in usage_days.
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN last_used_on INTEGER;
