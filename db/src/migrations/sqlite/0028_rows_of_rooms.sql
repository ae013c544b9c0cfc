-- The deletion of a room looks for the rows that refer to it. Without these indexes, it would read the rows of all projects.
CREATE INDEX egresses_referring_to_room ON egresses (room_id);
CREATE INDEX ingresses_referring_to_room ON ingresses (room_id);
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('egresses', 'egresses_referring_to_room', '100000 10'),
    ('ingresses', 'ingresses_referring_to_room', '10000 10');
ANALYZE sqlite_schema;
