//! `/v1/*`.

mod events;
mod moderation;
mod participants;
mod role_changes;
mod roles;
mod rooms;
mod sessions;
mod template_settings;
mod templates;
mod timers;
mod tokens;
mod webhook_deliveries;
mod webhook_endpoints;
mod webhook_retries;
