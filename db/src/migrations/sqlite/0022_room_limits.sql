-- The longest time in seconds from a room's first join to its end, and a template's default for new rooms. NULL is unlimited.
ALTER TABLE rooms ADD COLUMN max_duration_seconds INTEGER;
ALTER TABLE templates ADD COLUMN max_duration_seconds INTEGER;
-- Rooms by the start of their names, with the time of creation, so that a range of it costs no look-up of each room.
CREATE INDEX rooms_named ON rooms (project_id, name, created_at);
-- The few open rooms, for each order of the list; a connected participant stops the empty timer.
CREATE INDEX rooms_live ON rooms (project_id, started_at, id) WHERE status = 'open' AND empty_deadline IS NULL;
CREATE INDEX rooms_open_named ON rooms (project_id, name, created_at) WHERE status = 'open';
CREATE INDEX rooms_open_newest ON rooms (project_id, created_at, id) WHERE status = 'open';
-- Without statistics, the planner prefers the unique index of names, which lacks the time. So rooms_named is a little more selective here.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('rooms', 'sqlite_autoindex_rooms_1', '1000000 1'),
    ('rooms', 'sqlite_autoindex_rooms_2', '1000000 100000 1'),
    ('rooms', 'rooms_newest', '1000000 100000 2 1'),
    ('rooms', 'rooms_named', '1000000 90000 1 1'),
    ('rooms', 'rooms_open', '1000 100 50 1'),
    ('rooms', 'rooms_live', '1000 100 2 1'),
    ('rooms', 'rooms_open_named', '1000 100 1 1'),
    ('rooms', 'rooms_open_newest', '1000 100 2 1');
ANALYZE sqlite_schema;
