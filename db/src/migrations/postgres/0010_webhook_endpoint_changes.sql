-- Changes of webhook endpoints. An endpoint with active = 0 is deleted. One with enabled = 0 stays, and no event is queued for it.
-- events is a JSON array of event types, or null for all of them. failing_since is the time of the first failed attempt since the last
-- success. While previous_secret_until has not passed, deliveries are signed with the previous secret, too.
ALTER TABLE webhook_endpoints ADD COLUMN enabled BIGINT NOT NULL DEFAULT 1;
ALTER TABLE webhook_endpoints ADD COLUMN events TEXT COLLATE "C";
ALTER TABLE webhook_endpoints ADD COLUMN description TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret BYTEA;
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret_key_id TEXT COLLATE "C";
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret_until BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN failing_since BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN disabled_at BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN disabled_reason TEXT COLLATE "C";
