-- The order of the console's list of projects.
CREATE INDEX projects_newest ON projects (created_at, id);
