//! The API from outside. The modules mirror the URLs; what holds for every call stands beside them.

#[path = "../support/mod.rs"]
mod support;

mod codes;
mod contract;
mod debug;
mod docs;
mod event_fields;
mod frame;
mod key_rotation;
mod livekit;
mod metrics;
mod operations;
mod reference;
mod snapshot;
mod stories;
mod tools;
mod v1;
mod walk;
