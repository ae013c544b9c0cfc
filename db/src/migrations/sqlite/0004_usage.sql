-- What each day saw of a project. Kept as sessions begin and end, so that a month is a sum of at most 31 rows; the time
-- of sessions that are still open is added when it is read.
CREATE TABLE usage_days (
    project_id     TEXT    NOT NULL REFERENCES projects (id),
    day            INTEGER NOT NULL,
    participant_ms INTEGER NOT NULL DEFAULT 0,
    sessions       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_open_of_project ON sessions (project_id) WHERE left_at IS NULL;

-- Overage of the months before this day has been taken from the wallet.
ALTER TABLE projects ADD COLUMN settled_until INTEGER;
