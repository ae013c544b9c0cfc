CREATE TABLE role_changes (
    id                        BLOB    PRIMARY KEY,
    project_id                TEXT    NOT NULL REFERENCES projects (id),
    room_id                   BLOB    NOT NULL REFERENCES rooms (id),
    room                      TEXT    NOT NULL,
    participant_identity      TEXT    NOT NULL,
    participant_sid           TEXT    NOT NULL,
    role                      TEXT    NOT NULL,
    previous_role             TEXT,
    changed_by_identity       TEXT,
    changed_by_api_key_prefix TEXT,
    created_at                INTEGER NOT NULL
) STRICT;
CREATE INDEX role_changes_of_room ON role_changes (room_id, created_at DESC, id DESC);
