-- When the file of a recording was removed from the machine because of its age.
ALTER TABLE egresses ADD COLUMN file_removed_at BIGINT;
CREATE INDEX IF NOT EXISTS egresses_with_local_file ON egresses (ended_at, id)
    WHERE kind = 'recording' AND destination_id IS NULL AND ended_at IS NOT NULL AND file_removed_at IS NULL;
