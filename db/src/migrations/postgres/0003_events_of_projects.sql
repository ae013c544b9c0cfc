-- The events of a project are read in their order, from any one on.
CREATE INDEX IF NOT EXISTS events_of_project ON events (project_id, id);
-- The last event of the project that was deleted because of its age.
ALTER TABLE projects ADD COLUMN events_deleted BIGINT NOT NULL DEFAULT 0;
