-- The deletion of a room looks for the rows that refer to it. Without these indexes, it would read the rows of all projects.
CREATE INDEX IF NOT EXISTS egresses_referring_to_room ON egresses (room_id);
CREATE INDEX IF NOT EXISTS ingresses_referring_to_room ON ingresses (room_id);
