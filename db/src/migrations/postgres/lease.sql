-- The lease of the active server. A server creates these tables before it is the active one, which creates the others. They are of
-- every version: a standby of an older or a newer one reads and claims the lease by them.

-- The server that writes. epoch grows with each takeover; each transaction of a server reads the row, so that none of an older epoch can
-- commit. holder is NULL once that server has released the lease. The keys are those that the records need: a server with others does not take over.
CREATE TABLE IF NOT EXISTS leadership (
    id                BIGINT           PRIMARY KEY CHECK (id = 1),
    epoch             BIGINT           NOT NULL,
    holder            TEXT COLLATE "C",
    url               TEXT COLLATE "C",
    encryption_key_id TEXT COLLATE "C",
    media_key_id      TEXT COLLATE "C"
);
INSERT INTO leadership (id, epoch) VALUES (1, 0) ON CONFLICT DO NOTHING;

-- What that server renews each second: a row of its own, since a renewal must not wait for transactions that read the other.
CREATE TABLE IF NOT EXISTS beats (
    id    BIGINT PRIMARY KEY CHECK (id = 1),
    epoch BIGINT NOT NULL,
    beat  BIGINT NOT NULL
);
INSERT INTO beats (id, epoch, beat) VALUES (1, 0, 0) ON CONFLICT DO NOTHING;

-- What each server says of itself every few seconds, active or not: what a takeover, a migration or a rotation of the keys can count on.
-- Keys are named by their ids, separated by spaces. seen_at is in milliseconds by the clock of the database; a row that is 15 s old
-- is of a server that has gone.
CREATE TABLE IF NOT EXISTS nodes (
    id                 TEXT COLLATE "C" PRIMARY KEY,
    url                TEXT COLLATE "C" NOT NULL,
    admin_url          TEXT COLLATE "C",
    version            TEXT COLLATE "C" NOT NULL,
    schema             BIGINT           NOT NULL,
    encryption_key_ids TEXT COLLATE "C" NOT NULL,
    media_key_id       TEXT COLLATE "C" NOT NULL,
    seen_at            BIGINT           NOT NULL
);
