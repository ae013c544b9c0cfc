//! `/v1/*`.

mod code_exchange;
mod codes;
mod events;
mod participants;
mod roles;
mod rooms;
mod sessions;
mod template_settings;
mod templates;
mod timers;
mod tokens;
mod usage;
mod webhook_deliveries;
mod webhook_endpoints;
mod webhook_retries;
