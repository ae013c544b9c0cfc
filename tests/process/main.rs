//! The program as a process with the system clock: kills, graceful stops, and secrets in its log and files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod commands;
mod crash;
mod damage;
mod data_directory;
mod deployment;
mod dev;
mod edges;
mod faults;
mod handover;
mod kills;
mod listen;
mod listener;
mod outage;
mod pipelining;
mod secrets;
mod signals;
mod standby;
mod trigger;
mod upgrade;
mod webrtc;
