-- Quality of sessions. A sample is written each ten seconds, and deleted after quality.retention; measures is its encoding, which
-- conclave_model::quality defines.
CREATE TABLE quality_samples (
    session_id UUID   NOT NULL REFERENCES sessions (id),
    at         BIGINT NOT NULL,
    measures   BYTEA  NOT NULL,
    PRIMARY KEY (session_id, at)
);
CREATE INDEX IF NOT EXISTS quality_samples_by_age ON quality_samples (at);

-- The sum of a session's samples, which stays. day is the day of its last sample in UTC, since 1970; score is the mean in hundredths.
CREATE TABLE session_quality (
    session_id UUID             PRIMARY KEY REFERENCES sessions (id),
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    day        BIGINT           NOT NULL,
    score      BIGINT,
    summary    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX IF NOT EXISTS session_quality_worst ON session_quality (project_id, day, score, session_id);
