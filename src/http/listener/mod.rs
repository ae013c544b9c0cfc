//! Connections.

pub mod activity;
pub mod client_address;
pub mod client_stream;
pub mod connections;
pub mod head;
pub mod open_connections;
pub mod passed_on;
pub mod request_boundary;
pub mod response_body;
pub mod trace;
