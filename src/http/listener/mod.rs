//! Connections and requests, before anyone looks at what is asked.
//!
//! A socket that a listener has accepted is counted ([`connections`]), encrypted by `crate::tls`, and wrapped in a [`client_stream`], which
//! closes it when the client keeps the server waiting and reads one request at a time ([`request_boundary`]). Around every request is
//! [`trace`]: its id, its log line, and `HEAD`.
//!
//! Who has sent a request is the peer, or whom a trusted proxy forwards for ([`client_address`]). Nodes of a cluster forward requests to
//! the active one ([`passed_on`]).

pub mod client_address;
pub mod client_stream;
pub mod connections;
pub mod passed_on;
pub mod request_boundary;
pub mod trace;
