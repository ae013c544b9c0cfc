//! `/ext/v1/*`.

mod bans;
mod codes;
mod events;
mod frame;
mod identities;
mod quality;
mod rooms;
mod webhooks;
