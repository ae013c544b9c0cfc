-- What a participant is refused under an idempotency key is kept for it alone: caller is its room and identity then, and
-- empty for the answers that belong to the whole project. Of those, made_by is the participant that made the call, which has
-- its answer again whatever it may do by then.
CREATE TABLE kept_answers (
    project_id  TEXT    NOT NULL REFERENCES projects (id),
    operation   TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    caller      TEXT    NOT NULL,
    made_by     TEXT,
    fingerprint BLOB    NOT NULL,
    status      INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    body_key_id TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (project_id, operation, key, caller)
) STRICT, WITHOUT ROWID;
INSERT INTO kept_answers
    SELECT project_id, operation, key, '', NULL, fingerprint, status, body, body_key_id, created_at FROM idempotency;
DROP TABLE idempotency;
ALTER TABLE kept_answers RENAME TO idempotency;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
