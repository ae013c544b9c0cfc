-- The participant that an event is about, which its payload contains.
ALTER TABLE events ADD COLUMN identity TEXT COLLATE "C";
UPDATE events SET identity = CAST(payload AS JSON) ->> 'participant_identity'
    WHERE type LIKE 'participant.%' OR type LIKE 'track.%' OR type LIKE 'ingress.%';
-- The history is read in the order of events, from any event on, also with a filter.
CREATE INDEX IF NOT EXISTS events_of_room ON events (project_id, room, id);
CREATE INDEX IF NOT EXISTS events_of_type ON events (project_id, type, id);
CREATE INDEX IF NOT EXISTS events_of_identity ON events (project_id, identity, id) WHERE identity IS NOT NULL;
