//! Settings of WebRTC in the embedded media plane.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use conclave_model::Secret;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::text::{self, TextSetting};

/// The port that is registered for TURN.
pub const TURN_PORT: u16 = 3478;

/// Section `media.rtc`: how clients reach the embedded media plane. Without effect for LiveKit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RtcConfig {
    /// Lets WebRTC clients connect. Without it, the media plane has only the participants of the sandbox.
    pub enabled: bool,
    /// UDP ports: the first media worker uses the first port, and so on. Default: 7882-7897, or free ports if those are in use.
    #[serde(with = "text::optional")]
    pub udp_ports: Option<PortRange>,
    /// Accepts media over TCP too, at the port numbers of `udp_ports`.
    pub tcp: bool,
    /// Addresses of this machine to listen on. Empty for all of its interfaces but the loopback.
    #[serde(with = "text::list")]
    pub addresses: Vec<IpAddr>,
    /// Adds 127.0.0.1 to the addresses of the interfaces.
    pub loopback: bool,
    /// Addresses that clients are given instead of `addresses`, behind a 1:1 NAT.
    #[serde(with = "text::list")]
    pub external_addresses: Vec<IpAddr>,
    /// Networks that the server may contact although they are not public, when a client asks for a full ICE agent.
    #[serde(with = "text::list")]
    pub allow_networks: Vec<IpNet>,
    /// Number of media workers. 0 for one for each core.
    pub workers: usize,
    /// Changes a second that a participant may make by signalling, sustained: mute toggles, new tracks, offers, permissions. Ten
    /// times as many at once.
    pub changes_per_second: u32,
    /// Section `media.rtc.turn`: the TURN server in this process, and others that clients are given.
    pub turn: TurnConfig,
}

/// Section `media.rtc.turn`: the TURN server in this process, and others that clients are given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnConfig {
    /// Whether there is a TURN server in this process, at the API listener and at `udp_port`. It relays to the media workers only.
    pub server: TurnMode,
    /// Its UDP port. Default: 3478, or none if that is in use. 0 for a free one.
    pub udp_port: u16,
    /// Urls of other servers: `turn:` or `turns:`. Empty for none.
    #[serde(with = "text::list")]
    pub urls: Vec<String>,
    /// The secret that the other servers share with this one (coturn's `static-auth-secret`).
    #[serde(with = "text::optional")]
    pub secret: Option<Secret>,
    /// How long the credentials of a client are valid.
    #[serde(with = "text::required")]
    pub ttl: Duration,
}

/// Whether there is a TURN server in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnMode {
    /// If `tls.domain` is set: then clients reach it by TLS, without a further port.
    Auto,
    /// It is started with or without `tls.domain`.
    On,
    /// None is started; clients use those of `urls`, if there are any.
    Off,
}

impl Default for TurnConfig {
    fn default() -> Self {
        Self {
            server: TurnMode::Auto,
            udp_port: TURN_PORT,
            urls: Vec::new(),
            secret: None,
            ttl: Duration::from_secs(12 * 3_600),
        }
    }
}

impl Default for RtcConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            udp_ports: None,
            tcp: true,
            addresses: Vec::new(),
            loopback: false,
            external_addresses: Vec::new(),
            allow_networks: Vec::new(),
            workers: 0,
            changes_per_second: 20,
            turn: TurnConfig::default(),
        }
    }
}

/// A range of ports, such as `7882-7897`. `0` stands for free ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRange(pub RangeInclusive<u16>);

impl TextSetting for PortRange {
    const EXPECTED: &'static str = "a port or a range of ports such as \"7882-7897\"";

    fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = first.trim().parse().ok().zip(last.trim().parse().ok());
        let ports =
            ports.filter(|(first, last): &(u16, u16)| first <= last && (*first > 0 || *last == 0));
        let (first, last) =
            ports.ok_or_else(|| format!("must be {}, not {text:?}", Self::EXPECTED))?;
        Ok(Self(first..=last))
    }

    fn format(&self) -> String {
        format!("{}-{}", self.0.start(), self.0.end())
    }
}

impl TextSetting for IpAddr {
    const EXPECTED: &'static str = "an address such as \"192.0.2.1\" or \"2001:db8::1\"";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("must be {}, not {text:?}", Self::EXPECTED))
    }

    fn format(&self) -> String {
        self.to_string()
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
