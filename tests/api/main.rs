//! The API from outside. The modules mirror the URLs.

#[path = "../support/mod.rs"]
mod support;

mod debug;
mod v1;
