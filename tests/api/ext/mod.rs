//! `/ext/v1/*`.

mod codes;
mod frame;
mod identities;
