//! The command line: runs the program and checks its output, its exit code and its files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod addresses;
mod check;
mod data;
mod deployment;
mod options;
mod postgres;
mod projects;
mod settings;
