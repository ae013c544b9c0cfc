//! API tests over HTTP. The modules below `v1` and `ext` mirror the URLs; the others test behaviour common to all calls.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod acme;
mod admin_hosts;
mod backups;
mod call;
mod clock_steps;
mod cluster;
mod codes;
mod coming_from;
mod console;
mod contract;
mod debug;
mod description;
mod docs;
mod event_fields;
mod every_operation;
mod ext;
mod faults;
mod files;
mod frame;
mod head;
mod key_rotation;
mod livekit;
mod metrics;
mod model;
mod operations;
mod private_authorities;
mod project_events;
mod reference;
mod scenarios;
mod sdk;
mod signalling;
mod snapshot;
mod stop;
mod tls;
mod tools;
mod v1;
mod webrtc;
