//! Conclave: a self-hosted control plane for real-time video calls.
//!
//! This crate is the outermost layer: what an operator writes ([`config`]) and types ([`cli`]). The records are
//! `conclave-db`'s, the words and rules `conclave-model`'s.

pub mod cli;
pub mod config;
