-- Recordings whose file is on this machine until it has been uploaded to their destination. result and error are how the recording
-- ended; they are NULL while it runs. multipart_id is the upload in parts that was begun last, so that it can be aborted.
CREATE TABLE uploads (
    egress_id    TEXT PRIMARY KEY REFERENCES egresses (egress_id),
    project_id   TEXT NOT NULL REFERENCES projects (id),
    result       TEXT,
    error        TEXT,
    multipart_id TEXT,
    CHECK (result IS NULL OR result IN ('complete', 'failed', 'aborted', 'limit_reached'))
) STRICT;
CREATE INDEX uploads_of_project ON uploads (project_id);
CREATE INDEX egresses_by_filepath ON egresses (project_id, destination_id, filepath) WHERE destination_id IS NOT NULL;

-- What the planner knows, as in 0009: of the recordings at a destination, few have the same path.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('egresses', 'egresses_by_filepath', '10000 1000 100 1');
-- Read what was written.
ANALYZE sqlite_schema;
