//! `/ext/v1/*`.

mod bans;
mod codes;
mod frame;
mod rooms;
