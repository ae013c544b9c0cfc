//! The address of a client, as far as it can be known, and which addresses are one client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::HttpRequest;
use ipnet::IpNet;

/// The bits of an IPv6 address that name its network. A client has the rest of the address for itself.
const IPV6_NETWORK_BITS: u32 = 64;

/// The reverse proxies that are believed about whom they forward for.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(pub Vec<IpNet>);

impl TrustedProxies {
    /// Whether an address is one of a proxy.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&address))
    }

    /// Returns the client of a request: the peer, or behind trusted proxies the last address that none of them added.
    #[must_use]
    pub fn client(&self, request: &HttpRequest) -> Option<Client> {
        let peer = request.peer_addr()?.ip().to_canonical();
        if !self.contains(peer) {
            return Some(Client::from(peer));
        }
        let forwarded = request.headers().get_all("x-forwarded-for").filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
        let mut hops = hops.into_iter().rev().map_while(parse_hop);
        Some(hops.find(|hop| !self.contains(*hop)).unwrap_or(peer).into())
    }
}

/// A hop of `X-Forwarded-For`: an address, which may be in brackets and have a port.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bracketed = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bracketed.unwrap_or(hop).parse().ok();
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    address.or_else(with_port).map(|address| address.to_canonical())
}

/// What counts as one client: an IPv4 address, or the /64 network of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client(IpAddr);

impl Client {
    /// Returns the address, or the first one of the network.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(network) => write!(f, "{network}/{IPV6_NETWORK_BITS}"),
            IpAddr::V4(address) => address.fmt(f),
        }
    }
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << IPV6_NETWORK_BITS)).into()),
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

impl From<Client> for IpAddr {
    fn from(Client(address): Client) -> Self {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_an_address_with_or_without_a_port() {
        for (hop, address) in [
            ("203.0.113.1", "203.0.113.1"),
            ("203.0.113.1:4711", "203.0.113.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("::ffff:203.0.113.1", "203.0.113.1"),
        ] {
            assert_eq!(parse_hop(hop), Some(address.parse().unwrap()), "{hop}");
        }
        for other in ["", "unknown", "_hidden", "203.0.113.1:", "[2001:db8::1", "2001:db8::1]:80", "203.0.113.1:99999"]
        {
            assert_eq!(parse_hop(other), None, "{other}");
        }
    }

    #[test]
    fn a_64_bit_network_of_ipv6_is_one_client() {
        let client = |address: &str| Client::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:203.0.113.1"), client("203.0.113.1"));
        assert_ne!(client("203.0.113.1"), client("203.0.113.2"));
    }
}
