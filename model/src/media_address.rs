//! Where media workers listen.

use std::net::SocketAddr;

/// The address of a UDP socket of a media worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaAddress {
    /// The address of this machine that it is bound to.
    pub bound: SocketAddr,
    /// The address that clients are given.
    pub advertised: SocketAddr,
}
