//! `/v1/*`.

mod events;
mod participants;
mod rooms;
mod sessions;
mod timers;
mod webhook_deliveries;
mod webhook_endpoints;
mod webhook_retries;
