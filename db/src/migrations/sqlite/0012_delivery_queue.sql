-- First attempts are posted in the order of their sequence numbers, retries by their due times. The status is a column of the
-- first index so that the planner prefers it to the index of lists by status, which holds retries too.
DROP INDEX webhook_deliveries_due;
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (endpoint_id, status, seq)
    WHERE status = 'pending' AND attempts = 0;
CREATE INDEX webhook_deliveries_retries ON webhook_deliveries (endpoint_id, next_attempt_at, seq)
    WHERE status = 'pending' AND attempts > 0;
DELETE FROM sqlite_stat1 WHERE idx = 'webhook_deliveries_due';
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('webhook_deliveries', 'webhook_deliveries_first', '1000 10 10 1'),
    ('webhook_deliveries', 'webhook_deliveries_retries', '1000 10 1 1');

-- A deleted endpoint stays, inactive and without its secret, until its pending deliveries are deleted, some at a time.
CREATE INDEX webhook_endpoints_deleted ON webhook_endpoints (id) WHERE active = 0;

-- Read what was written.
ANALYZE sqlite_schema;
