//! `/v1/*`.

mod rooms;
