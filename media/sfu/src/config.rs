//! Settings of the media workers.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use conclave_model::address::AddressFilter;

/// Settings of the media workers (`media.rtc`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// UDP ports: the first worker uses the first port, and so on. With a range from 0, the system chooses.
    pub udp_ports: RangeInclusive<u16>,
    /// Whether each worker also accepts ICE over TCP, at the port number of its UDP socket.
    pub tcp: bool,
    /// This machine's addresses to which sockets are bound; empty for all interfaces except loopback.
    pub addresses: Vec<IpAddr>,
    /// Whether 127.0.0.1 is added to the interfaces' addresses, for clients on this machine.
    pub loopback: bool,
    /// Addresses that clients are given instead of the bound ones, for a 1:1 NAT that keeps ports. Each replaces the
    /// bound address at the same position in its family; the last one also replaces all that follow.
    pub external_addresses: Vec<IpAddr>,
    /// Addresses of clients with a full ICE agent that a worker may contact before they have sent anything: public
    /// ones, addresses in the same special-purpose networks as the advertised ones, and addresses that the filter
    /// allows.
    pub contactable: AddressFilter,
    /// Number of worker threads; 0 for one per processor. There are never more workers than UDP ports.
    pub workers: usize,
    /// Limits for clients, including unauthenticated ones.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // LiveKit's port for UDP and those after it, enough for 16 processors.
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

/// Limits on the work and memory that clients, including unauthenticated ones, can cause in a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Participants per worker. Further ones fail.
    pub peers: usize,
    /// Open TCP connections per worker. Further ones are closed.
    pub tcp_connections: usize,
    /// Open TCP connections from one address (IPv6: from one /64).
    pub tcp_connections_per_address: usize,
    /// Maximum time for which a TCP connection may stay open before a valid STUN request binds it to a participant.
    pub tcp_unbound: Duration,
    /// Connections from one address (IPv6: from one /64) that are still in their handshake. STUN requests for further
    /// ones are dropped.
    pub handshakes_per_address: usize,
    /// Maximum bytes of an SDP text; a longer one fails the peer. The default has room for a browser's answer with the
    /// maximum number of media sections, of 1 to 1.5 kB each.
    pub sdp_bytes: usize,
    /// Maximum lines of an SDP text. Exceeding this or a later limit fails the peer.
    pub sdp_lines: usize,
    /// Maximum lines of an offer, without codecs that are not forwarded. A browser needs 90 per received video, and the
    /// server does not request more of them than fit. str0m takes 3 µs per line on a 2.5 GHz core, so the largest offer
    /// holds up the media thread for 50 ms.
    pub offer_lines: usize,
    /// Maximum lines of an answer, per section that the server has offered.
    pub answer_lines: usize,
    /// Maximum bytes per line of an SDP text.
    pub sdp_line_bytes: usize,
    /// Maximum media sections per connection.
    pub media_sections: usize,
    /// Bytes of offers that are requested from a room's clients at once. Further offers are requested when these have
    /// arrived.
    pub asked_bytes: usize,
    /// Maximum ICE candidates in an SDP text.
    pub candidates: usize,
    /// Maximum bytes of reliable messages queued for one slow participant. Further messages are dropped.
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
            // 1,024 sections with up to 1.5 kB each, and a margin.
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
