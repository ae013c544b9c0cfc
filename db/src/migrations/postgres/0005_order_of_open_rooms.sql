-- The index of open rooms is read backward: rooms without a template are the last of their list, as in a file.
CREATE INDEX IF NOT EXISTS rooms_open_in_order ON rooms (project_id, template_id NULLS FIRST, id) WHERE status = 'open';
DROP INDEX rooms_open;
ALTER INDEX rooms_open_in_order RENAME TO rooms_open;
