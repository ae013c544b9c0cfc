//! The real program on the real clock: killed at any moment, stopped in order, and what it says to whom.

#[path = "../support/mod.rs"]
mod support;

mod deployment;
mod kills;
mod secrets;
mod signals;
