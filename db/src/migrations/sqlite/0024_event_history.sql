-- The participant that an event is about, which its payload contains.
ALTER TABLE events ADD COLUMN identity TEXT;
UPDATE events SET identity = json_extract(payload, '$.participant_identity')
    WHERE type LIKE 'participant.%' OR type LIKE 'track.%' OR type LIKE 'ingress.%';
-- The history is read in the order of events, from any event on, also with a filter.
CREATE INDEX events_of_room ON events (project_id, room, id);
CREATE INDEX events_of_type ON events (project_id, type, id);
CREATE INDEX events_of_identity ON events (project_id, identity, id) WHERE identity IS NOT NULL;
-- With several filters, the planner takes the identity's index before the room's, and the room's before the type's.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('events', 'events_by_age', '1000000 2'),
    ('events', 'events_of_project', '1000000 100000 1'),
    ('events', 'events_of_room', '1000000 100000 20 1'),
    ('events', 'events_of_type', '1000000 100000 5000 1'),
    ('events', 'events_of_identity', '500000 50000 10 1');
ANALYZE sqlite_schema;
