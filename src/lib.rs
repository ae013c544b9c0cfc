//! Conclave: a self-hosted control plane for real-time video calls.
//!
//! This crate is the outermost layer: what an operator writes ([`config`]) and types ([`cli`]), the two HTTP listeners
//! ([`http`]), the billing service where there is one ([`billing`]), what was found of a LiveKit server's settings
//! ([`livekit_config`]), and the wiring of everything below them ([`server`]). The living part is `conclave-actors`, the media
//! plane `conclave-media`, the records `conclave-db`, the words and rules `conclave-model`.

pub mod billing;
pub mod cli;
pub mod config;
pub mod http;
pub mod livekit_config;
pub mod server;
