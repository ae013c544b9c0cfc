//! The program as a process with the system clock: kills, graceful stops, and secrets in its log and files.

#[path = "../support/mod.rs"]
mod support;

mod deployment;
mod kills;
mod secrets;
mod signals;
