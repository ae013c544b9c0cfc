//! Connections and requests, before routing.
//!
//! An accepted socket is counted ([`connections`]), encrypted by `crate::tls`, and wrapped in a [`client_stream`], which closes it
//! when the client keeps the server waiting, and reads one request at a time ([`request_boundary`]). [`trace`] surrounds every
//! request: id, log line, and `HEAD`.
//!
//! A request's client is the peer, or the address that a trusted proxy forwards ([`client_address`]). Nodes of a cluster forward
//! requests to the active one ([`forwarded`]).

pub mod client_address;
pub mod client_stream;
pub mod connections;
pub mod forwarded;
pub mod request_boundary;
pub mod trace;
