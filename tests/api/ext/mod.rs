//! `/ext/v1/*`.

mod bans;
mod codes;
mod events;
mod frame;
mod quality;
mod rooms;
mod webhooks;
