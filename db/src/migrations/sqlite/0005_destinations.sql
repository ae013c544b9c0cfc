-- config is JSON as it is shown, without secrets; sealed is the whole configuration, under the encryption key key_id.
CREATE TABLE destinations (
    id          TEXT    PRIMARY KEY,
    template_id TEXT    NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    name        TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('recording', 'rtmp')),
    config      TEXT    NOT NULL,
    sealed      BLOB    NOT NULL,
    key_id      TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (template_id, name)
) STRICT;
