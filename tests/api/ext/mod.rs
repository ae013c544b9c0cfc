//! `/ext/v1/*`.

mod auto_record;
mod codes;
mod frame;
mod recordings;
