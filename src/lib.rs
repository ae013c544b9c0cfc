//! Conclave: a self-hosted control plane for real-time video calls.
//!
//! This crate is the outermost layer:
//!
//! - [`cli`], [`config`], [`error`]: the command line, the settings, and the error that both the commands and the server's
//!   start return.
//! - [`server`], [`data_dir`], [`runtime`]: start and stop of the server, the files it uses, the runtime it needs.
//! - [`cluster`]: a standby's proxy to the active server.
//! - [`http`], [`tls`]: the API and the admin listener, and the API's encryption.
//! - `starter_template`: the default template of a new project.
//! - [`billing`], [`livekit_config`], [`backups`]: the client of an external billing service, the check of LiveKit's configuration,
//!   and copies of the database.
//!
//! The actors are in `conclave-actors`, the media planes in `conclave-media`, the database in `conclave-db`, and types and
//! rules without I/O in `conclave-model`.

pub mod backups;
pub mod billing;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod data_dir;
pub mod error;
pub mod http;
pub mod livekit_config;
pub mod runtime;
pub mod server;
mod starter_template;
pub mod tls;
