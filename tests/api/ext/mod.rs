//! `/ext/v1/*`.

mod codes;
mod events;
mod frame;
