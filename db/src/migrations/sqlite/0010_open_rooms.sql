-- The number of a project's open rooms, kept as rooms are created and end: most requests that start work read it.
ALTER TABLE projects ADD COLUMN open_rooms INTEGER NOT NULL DEFAULT 0 CHECK (open_rooms >= 0);
UPDATE projects SET open_rooms = (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open');
