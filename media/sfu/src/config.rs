//! Settings of the media workers.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use conclave_model::address::AddressFilter;

/// Settings of the media workers (`media.rtc`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// UDP ports: the first worker uses the first port, and so on. A range that starts at 0 lets the system choose.
    pub udp_ports: RangeInclusive<u16>,
    /// Whether each worker also accepts ICE over TCP, at the port number of its UDP socket.
    pub tcp: bool,
    /// Addresses of this machine that sockets are bound to; empty for those of all interfaces without loopback.
    pub addresses: Vec<IpAddr>,
    /// Whether 127.0.0.1 is added to the addresses of the interfaces, for clients on this machine.
    pub loopback: bool,
    /// Addresses that clients are given instead of the bound ones: those of a 1:1 NAT, which must keep ports. Each stands
    /// for the bound address at the same position among those of its family; the last one for all that follow.
    pub external_addresses: Vec<IpAddr>,
    /// Addresses of clients with a full ICE agent that a worker may contact before they have sent anything: public ones, those in the
    /// special networks that the advertised addresses are in, and what the filter allows.
    pub contactable: AddressFilter,
    /// The number of worker threads; 0 for one per processor. There are never more than UDP ports.
    pub workers: usize,
    /// Bounds on what clients and strangers can make a worker hold.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            udp_ports: 7882..=7897,
            tcp: true,
            addresses: Vec::new(),
            loopback: false,
            external_addresses: Vec::new(),
            contactable: AddressFilter::default(),
            workers: 0,
            limits: Limits::default(),
        }
    }
}

/// Bounds on what clients and strangers can make a worker hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Participants on one worker. A peer beyond it fails.
    pub peers: usize,
    /// Open TCP connections of one worker. More are closed.
    pub tcp_connections: usize,
    /// Open TCP connections from one address (IPv6: from one /64).
    pub tcp_connections_per_address: usize,
    /// How long a TCP connection may stay open without having been bound to a participant by a valid STUN request.
    pub tcp_unbound: Duration,
    /// Connections from one address (IPv6: from one /64) that are still in their handshake. STUN requests for more are
    /// dropped.
    pub handshakes_per_address: usize,
    /// The most bytes of an SDP text. A longer one fails the peer. It has room for an answer of a browser with as many media sections
    /// as are allowed, of 1 to 1.5 kB each.
    pub sdp_bytes: usize,
    /// The most lines of an SDP text. More fail the peer, as do those below.
    pub sdp_lines: usize,
    /// The most lines of an offer without what it says of codecs that are not forwarded: a browser takes 90 for each video to receive,
    /// and the server does not ask for more of them. str0m takes 3 µs for each line on a core of 2.5 GHz, so the largest offer holds up
    /// the media thread for 50 ms.
    pub offer_lines: usize,
    /// The most lines of an answer for each section that the server has offered.
    pub answer_lines: usize,
    /// The most bytes of a line of an SDP text.
    pub sdp_line_bytes: usize,
    /// The most media sections of one connection.
    pub media_sections: usize,
    /// The bytes of the offers that clients of a room are asked for at once. The others are asked when these have come.
    pub asked_bytes: usize,
    /// The most ICE candidates in an SDP text.
    pub candidates: usize,
    /// The most bytes of reliable messages that wait for one slow participant. It does not get further ones.
    pub data_backlog_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 10_000,
            tcp_connections: 4096,
            tcp_connections_per_address: 256,
            tcp_unbound: Duration::from_secs(10),
            handshakes_per_address: 1024,
            sdp_bytes: 2_000 * 1024,
            sdp_lines: 80_000,
            offer_lines: 16_000,
            answer_lines: 96,
            sdp_line_bytes: 16 * 1024,
            media_sections: 1024,
            asked_bytes: 8 * 1024 * 1024,
            candidates: 256,
            data_backlog_bytes: 4 * 1024 * 1024,
        }
    }
}
