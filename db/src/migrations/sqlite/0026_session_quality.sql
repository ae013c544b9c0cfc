-- Quality of sessions. A sample is written each ten seconds, and deleted after quality.retention; measures is its encoding, which
-- conclave_model::quality defines. WITHOUT ROWID, since a sample is hardly larger than its key.
CREATE TABLE quality_samples (
    session_id BLOB    NOT NULL REFERENCES sessions (id),
    at         INTEGER NOT NULL,
    measures   BLOB    NOT NULL,
    PRIMARY KEY (session_id, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX quality_samples_by_age ON quality_samples (at);

-- The sum of a session's samples, which stays. day is the day of its last sample in UTC, since 1970; score is the mean in hundredths.
CREATE TABLE session_quality (
    session_id BLOB    PRIMARY KEY REFERENCES sessions (id),
    project_id TEXT    NOT NULL REFERENCES projects (id),
    day        INTEGER NOT NULL,
    score      INTEGER,
    summary    TEXT    NOT NULL
) STRICT;
CREATE INDEX session_quality_worst ON session_quality (project_id, day, score, session_id);
