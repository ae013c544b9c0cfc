-- An index for each filter of a list and each pair of filters, in the order of the list, so that no list searches the rows of a
-- whole project. The indexes of open sessions hold the few that are open, and serve every filter of those.
CREATE INDEX sessions_of_identity ON sessions (project_id, participant_identity, joined_at DESC, id DESC);
CREATE INDEX sessions_of_role ON sessions (project_id, role, joined_at DESC, id DESC) WHERE role IS NOT NULL;
CREATE INDEX sessions_of_identity_in_room ON sessions (room_id, participant_identity, joined_at DESC, id DESC);
CREATE INDEX sessions_of_role_in_room ON sessions (room_id, role, joined_at DESC, id DESC) WHERE role IS NOT NULL;
DROP INDEX sessions_open;
DROP INDEX sessions_open_of_project;
CREATE INDEX sessions_open_in_room ON sessions (room_id, joined_at DESC, id DESC) WHERE left_at IS NULL;
CREATE INDEX sessions_open_of_project ON sessions (project_id, joined_at DESC, id DESC) WHERE left_at IS NULL;

-- The event's type, so that a list by type need not look up the events.
ALTER TABLE webhook_deliveries ADD COLUMN event_type TEXT NOT NULL DEFAULT '';
UPDATE webhook_deliveries SET event_type = (SELECT type FROM events WHERE events.id = event_id);
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (project_id, status, seq DESC);
CREATE INDEX webhook_deliveries_by_type ON webhook_deliveries (project_id, event_type, seq DESC);
CREATE INDEX webhook_deliveries_by_type_and_status ON webhook_deliveries (project_id, event_type, status, seq DESC);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, seq DESC);
CREATE INDEX webhook_deliveries_of_endpoint_by_status ON webhook_deliveries (endpoint_id, status, seq DESC);
CREATE INDEX webhook_deliveries_of_endpoint_by_type ON webhook_deliveries (endpoint_id, event_type, seq DESC);

CREATE INDEX egresses_by_status ON egresses (project_id, kind, status, started_at DESC, id DESC);
CREATE INDEX egresses_of_room_by_status ON egresses (project_id, kind, room, status, started_at DESC, id DESC);

CREATE INDEX ingresses_by_status ON ingresses (project_id, status, created_at DESC, id DESC);
CREATE INDEX ingresses_by_type ON ingresses (project_id, input_type, created_at DESC, id DESC);
CREATE INDEX ingresses_by_type_and_status ON ingresses (project_id, input_type, status, created_at DESC, id DESC);
CREATE INDEX ingresses_of_room_by_status ON ingresses (project_id, room, status, created_at DESC, id DESC);
CREATE INDEX ingresses_of_room_by_type ON ingresses (project_id, room, input_type, created_at DESC, id DESC);

CREATE INDEX role_changes_of_identity ON role_changes (room_id, participant_identity, created_at DESC, id DESC);

-- What the planner knows of the tables, instead of what ANALYZE would find in them: it then chooses the same indexes in each
-- deployment, also in a new one. The rows of each index, and for each of its columns how many of them have one value.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('sessions', 'sessions_newest', '1000000 100000 1 1'),
    ('sessions', 'sessions_of_room', '1000000 500 1 1'),
    ('sessions', 'sqlite_autoindex_sessions_1', '1000000 1'),
    ('sessions', 'sqlite_autoindex_sessions_2', '1000000 500 1'),
    ('sessions', 'sessions_of_identity', '1000000 100000 1000 1 1'),
    ('sessions', 'sessions_of_role', '1000000 100000 30000 1 1'),
    ('sessions', 'sessions_of_identity_in_room', '1000000 500 50 1 1'),
    ('sessions', 'sessions_of_role_in_room', '1000000 500 200 1 1'),
    ('sessions', 'sessions_open_in_room', '1000 10 1 1'),
    ('sessions', 'sessions_open_of_project', '1000 100 1 1'),
    ('webhook_deliveries', 'sqlite_autoindex_webhook_deliveries_1', '1000000 1'),
    ('webhook_deliveries', 'webhook_deliveries_due', '1000 10 1 1'),
    ('webhook_deliveries', 'webhook_deliveries_newest', '1000000 100000 1'),
    ('webhook_deliveries', 'webhook_deliveries_of_event', '1000000 2'),
    ('webhook_deliveries', 'webhook_deliveries_by_status', '1000000 100000 30000 1'),
    ('webhook_deliveries', 'webhook_deliveries_by_type', '1000000 100000 10000 1'),
    ('webhook_deliveries', 'webhook_deliveries_by_type_and_status', '1000000 100000 10000 3000 1'),
    ('webhook_deliveries', 'webhook_deliveries_of_endpoint', '1000000 50000 1'),
    ('webhook_deliveries', 'webhook_deliveries_of_endpoint_by_status', '1000000 50000 15000 1'),
    ('webhook_deliveries', 'webhook_deliveries_of_endpoint_by_type', '1000000 50000 5000 1'),
    ('egresses', 'sqlite_autoindex_egresses_1', '100000 1'),
    ('egresses', 'sqlite_autoindex_egresses_2', '100000 1'),
    ('egresses', 'egresses_newest', '100000 10000 5000 1 1'),
    ('egresses', 'egresses_of_room', '100000 10000 5000 10 1 1'),
    ('egresses', 'egresses_running', '100 10'),
    ('egresses', 'egresses_to_destination', '100 10'),
    ('egresses', 'egresses_by_status', '100000 10000 5000 1000 1 1'),
    ('egresses', 'egresses_of_room_by_status', '100000 10000 5000 10 5 1 1'),
    ('ingresses', 'sqlite_autoindex_ingresses_1', '10000 1'),
    ('ingresses', 'sqlite_autoindex_ingresses_2', '10000 1'),
    ('ingresses', 'ingresses_newest', '10000 1000 1 1'),
    ('ingresses', 'ingresses_of_room', '10000 1000 10 1 1'),
    ('ingresses', 'ingresses_live', '100 10'),
    ('ingresses', 'ingresses_live_in_room', '100 2'),
    ('ingresses', 'ingresses_by_status', '10000 1000 200 1 1'),
    ('ingresses', 'ingresses_by_type', '10000 1000 500 1 1'),
    ('ingresses', 'ingresses_by_type_and_status', '10000 1000 500 100 1 1'),
    ('ingresses', 'ingresses_of_room_by_status', '10000 1000 10 3 1 1'),
    ('ingresses', 'ingresses_of_room_by_type', '10000 1000 10 5 1 1');
-- Read what was written.
ANALYZE sqlite_schema;
