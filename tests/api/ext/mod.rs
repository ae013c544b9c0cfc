//! `/ext/v1/*`.

mod auto_record;
mod bans;
mod codes;
mod events;
mod frame;
mod identities;
mod quality;
mod recordings;
mod rooms;
mod webhooks;
