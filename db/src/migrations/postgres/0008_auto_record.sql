-- The recording that starts by itself, as JSON: a template's setting, and a room's copy of it. A room's is NULL once its composite has started.
ALTER TABLE templates ADD COLUMN auto_record TEXT COLLATE "C";
ALTER TABLE rooms ADD COLUMN auto_record TEXT COLLATE "C";
-- Whether a recording is paused; NULL if it has never been.
ALTER TABLE egresses ADD COLUMN paused BIGINT;
