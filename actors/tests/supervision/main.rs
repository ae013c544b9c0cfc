//! Actors on a media plane that fails: they are rebuilt from the database, callers notice only a delay, and a media plane that hangs does
//! not keep a room from handling its messages.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod admission;
mod commands;
mod fixture;
mod followed;
mod plane;
mod polls;
mod reports;
mod rooms;
mod webhooks;
