-- The open rooms of a template have a complete order, so that their pages are the same on every engine.
DROP INDEX rooms_open;
CREATE INDEX rooms_open ON rooms (project_id, template_id, id) WHERE status = 'open';
