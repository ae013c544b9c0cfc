//! Shared parts of the fuzz targets: the app in this process, its description as an oracle, a JSON mutator, signatures, a media worker
//! with clients in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a finding is a panic"
)]

pub mod api;
pub mod json;
pub mod jwt;
pub mod records;
pub mod rtc;
pub mod rtmp_client;
pub mod seeds;

#[path = "../../support/mod.rs"]
pub mod support;
