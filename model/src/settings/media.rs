//! Sections `media`, `media.rtc` and `media.rtc.turn`.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Rule, TextSetting};
use crate::Secret;

/// Port registered for TURN.
pub const TURN_PORT: u16 = 3478;

crate::settings! {
    /// Media plane, which forwards audio and video.
    pub struct MediaConfig {
        /// Media plane: `embedded`, in this process, or `livekit`, a [LiveKit server](livekit.md).
        pub kind: MediaKind = MediaKind::Embedded;
        /// Simulated participants, by `/sandbox/*` on the admin listener, and failures that clients may simulate.
        ///
        /// Clients simulate failures of the server (`simulateScenario` of LiveKit's SDKs). Embedded media plane only.
        pub sandbox: bool = false;
        /// URL by which this server reaches LiveKit.
        pub url: Option<String> = None, Rule::Url(&["ws", "wss", "http", "https"]);
        /// URL by which clients reach the media plane, if it differs from `media.url`. Without it, the embedded media plane has the API's address.
        /// If the API listens on all addresses (`0.0.0.0`), tokens, ingress endpoints and the call page contain the request's `Host`, or a
        /// trusted proxy's `X-Forwarded-Host`, `-Proto` and `-Port`; the log and `conclave check` warn of this.
        pub public_url: Option<String> = None, Rule::Url(&["ws", "wss"]);
        /// Address for RTMP encoders on the embedded media plane, such as "0.0.0.0:1935"; with TLS (`rtmps://`) if the API has it.
        ///
        /// `conclave dev` uses its default only if the port is free.
        pub rtmp_listen: Option<SocketAddr> = None;
        /// API key for the media plane.
        ///
        /// By default, the embedded media plane's key is generated and stored in the data directory.
        pub api_key: Option<String> = None;
        /// API secret for the media plane, which signs room tokens.
        ///
        /// By default, it is generated together with the key.
        pub api_secret: Option<Secret> = None;
        /// File with the API secret, as an alternative to api_secret.
        pub api_secret_file: Option<PathBuf> = None;
        /// Timeout of a call to LiveKit. The start of a recording or broadcast has at least 30 seconds.
        pub timeout: Duration = Duration::from_secs(10);
        /// Interval at which records are reconciled with the media plane, which corrects them after a lost report.
        ///
        /// It is shortened by up to a tenth, so that not all projects start at once.
        pub reconcile: Duration = Duration::from_secs(60);
        /// Number of consecutive calls to LiveKit without a response that open the circuit: further calls get 503 with Retry-After at once.
        pub circuit_failures: u32 = 5, Rule::COUNT;
        /// Time for which the circuit stays open before one call is tried.
        pub circuit_open: Duration = Duration::from_secs(5);
        /// Maximum number of tracks per participant at once, including announced ones, on the embedded media plane.
        ///
        /// A further track is refused with a message to the client. LiveKit has its own limits.
        pub max_tracks: u32 = 100, Rule::COUNT;
        section rtc: RtcConfig;
    }
}

/// Kind of media plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// In this process.
    #[default]
    Embedded,
    /// A LiveKit server.
    Livekit,
}

crate::plain_setting!(
    MediaKind,
    json!({"enum": ["embedded", "livekit"]}),
    |_value, _| Ok(())
);

crate::settings! {
    /// WebRTC in the embedded media plane: how clients send and receive audio and video. Has no effect with LiveKit.
    pub struct RtcConfig {
        /// Whether WebRTC clients can connect. If not, the media plane has only the sandbox's participants.
        pub enabled: bool = true;
        /// Ports of the media workers, UDP and TCP: the first worker uses the first port. Clients must be able to reach them, or the TURN
        /// server. With a single port, such as "7882", there is one worker, which uses one core. Default: `7882-7897`, or free ports if
        /// those are in use.
        ///
        /// A configured range must be free.
        pub udp_ports: Option<PortRange> = None;
        /// Media over TCP on the same port numbers, for clients whose network blocks UDP.
        pub tcp: bool = true;
        /// Addresses of this machine to listen on. Default: the addresses of all network interfaces except loopback.
        pub addresses: Vec<IpAddr> = Vec::new();
        /// Media at 127.0.0.1 in addition to the interfaces' addresses, for clients on this machine.
        pub loopback: bool = false;
        /// Addresses that clients get instead, for a server behind a 1:1 NAT that keeps ports.
        ///
        /// Each replaces the address at the same position in its address family; the last one also replaces all that follow.
        pub external_addresses: Vec<IpAddr> = Vec::new();
        /// Non-public networks, besides the server's own, in which the server may contact clients first.
        ///
        /// It does so for a client that requests a full ICE agent (`disable_ice_lite`). The networks of the server's own addresses, such as
        /// 10.0.0.0/8 or loopback, are always allowed.
        pub allow_networks: Vec<IpNet> = Vec::new();
        /// Number of media workers; 0 for one per core. A large room uses several.
        pub workers: usize = 0, Rule::THREADS;
        /// Sustained changes per second that a participant may make by signalling: mutes, new tracks, offers, and changes of subscription
        /// permissions. A participant that exceeds this is disconnected.
        ///
        /// The burst is ten times as large. A participant is also disconnected if it sends more than 200 messages or 1 MiB per second for
        /// long, sends a message larger than a client with 1,000 tracks needs, or leaves 2 MiB unread. All participants at one address (or
        /// IPv6 /64 network) together may send twenty times as much, and make a hundred times as many changes. An offer that the server
        /// requested counts neither as a change nor towards these bytes; a participant may send 4 MiB of such offers per second. The metric
        /// `conclave_rtc_excesses_total` counts such excesses.
        pub changes_per_second: u32 = 20, Rule::NumbersAs(1, 10_000, "must be 1 to 10000");
        section turn: TurnConfig;
    }
}

crate::settings! {
    /// TURN servers, which relay media for clients in restrictive networks: one in this process, and others, for example coturn with
    /// `use-auth-secret`. Each client gets its own credentials, which expire.
    pub struct TurnConfig {
        /// TURN server in this process: `on`, `off`, or `auto` for one if `tls.domain` is set. See [Network](clients.md#network).
        ///
        /// Its addresses are http.listen (with TLS if the API has it, so one open port is enough for everything) and udp_port. It relays to
        /// the media workers only.
        pub server: TurnMode = TurnMode::Auto;
        /// UDP port of that TURN server, at the addresses of media.rtc; 0 for a free one. 3478 is not used if it is taken; any other port
        /// must be free.
        pub udp_port: u16 = TURN_PORT;
        /// URLs of other TURN servers.
        ///
        /// Example: `["turn:turn.example.com:3478?transport=udp", "turns:turn.example.com:443?transport=tcp"]`.
        pub urls: Vec<String> = Vec::new(), Rule::TurnUrl;
        /// Secret shared with the other servers (coturn's `static-auth-secret`).
        pub secret: Option<Secret> = None;
        /// Validity of a client's credentials. Each connection gets new ones.
        pub ttl: Duration = Duration::from_secs(12 * 3_600);
    }
}

/// Whether this process has a TURN server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnMode {
    /// If `tls.domain` is set: clients then reach it by TLS, without a further port.
    Auto,
    /// With or without `tls.domain`.
    On,
    /// Never; clients use the servers in `urls`, if there are any.
    Off,
}

crate::plain_setting!(
    TurnMode,
    json!({"enum": ["auto", "on", "off"]}),
    |_value, _| Ok(())
);

/// Range of ports, such as `7882-7897`. `0` stands for free ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRange(pub RangeInclusive<u16>);

impl TextSetting for PortRange {
    const EXPECTED: &'static str = "a port or a range of ports such as \"7882-7897\"";
    const PATTERN: Option<&'static str> = Some("^ *[0-9]+ *(- *[0-9]+ *)?$");

    fn parse(text: &str) -> Result<Self, String> {
        // A single port is a range of one.
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = first.trim().parse().ok().zip(last.trim().parse().ok());
        let ports =
            // A range from 0 would mix free ports and fixed ones.
            ports.filter(|(first, last): &(u16, u16)| first <= last && (*first > 0 || *last == 0));
        let (first, last) =
            ports.ok_or_else(|| format!("must be {}, not {text:?}", Self::EXPECTED))?;
        Ok(Self(first..=last))
    }

    fn format(&self) -> String {
        format!("{}-{}", self.0.start(), self.0.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_two_ports_in_order_or_one() {
        assert_eq!(
            PortRange::parse("7882-7897").unwrap(),
            PortRange(7882..=7897)
        );
        assert_eq!(PortRange::parse("7882").unwrap(), PortRange(7882..=7882));
        assert_eq!(PortRange::parse("0").unwrap(), PortRange(0..=0));
        for other in ["", "-", "2-1", "0-5", "70000", "a-b", "1-2-3"] {
            assert!(PortRange::parse(other).is_err(), "{other}");
        }
    }
}
