-- The last moment that a server on this file is known to have run. A server that stops well leaves no row.
CREATE TABLE heartbeat (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL
) STRICT;
