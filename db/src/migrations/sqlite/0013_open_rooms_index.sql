-- One index of open rooms for a project and for a template of it, instead of two: each room that opens or ends writes them.
DROP INDEX rooms_open_of_template;
DROP INDEX rooms_open;
CREATE INDEX rooms_open ON rooms (project_id, template_id) WHERE status = 'open';
