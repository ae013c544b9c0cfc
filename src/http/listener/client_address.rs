//! A client's address, directly or from trusted proxies.

use std::net::{IpAddr, SocketAddr};

use actix_web::HttpRequest;
use conclave_model::ClientAddress;
use ipnet::IpNet;

/// Reverse proxies whose forwarding headers are trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(pub Vec<IpNet>);

impl TrustedProxies {
    /// Returns whether an address belongs to a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&address))
    }

    /// Returns whether a request comes from a trusted proxy, so that its forwarding headers count.
    pub fn have_sent(&self, request: &HttpRequest) -> bool {
        request
            .peer_addr()
            .is_some_and(|peer| self.contains(peer.ip().to_canonical()))
    }

    /// Returns a request's client, see [`Self::client_ip`], as limits count it.
    pub fn client(&self, request: &HttpRequest) -> Option<ClientAddress> {
        // IPv6 counts by /64, the least that a provider assigns to a customer (S-4).
        self.client_ip(request).map(ClientAddress::from)
    }

    /// Returns the address of a request's client: the peer, or behind trusted proxies the last address that none of them added.
    pub fn client_ip(&self, request: &HttpRequest) -> Option<IpAddr> {
        // A listener on `::` sees IPv4 peers as `::ffff:a.b.c.d`, which no IPv4 network in the settings would contain.
        let peer = request.peer_addr()?.ip().to_canonical();
        if !self.contains(peer) {
            return Some(peer);
        }
        let forwarded = request
            .headers()
            .get_all("x-forwarded-for")
            // No proxy appends an address that is not ASCII, so such a value is the client's own.
            .filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = forwarded
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect();
        // Each proxy appends the address of its own peer, so the header is trustworthy only from the right, up to the first address
        // that is not a proxy's. Addresses left of it come from the client. A hop that does not parse ends the search for the same
        // reason.
        let mut hops = hops.into_iter().rev().map_while(parse_hop);
        Some(hops.find(|hop| !self.contains(*hop)).unwrap_or(peer))
    }
}

/// Parses a hop of `X-Forwarded-For`: an address, optionally in brackets or with a port (Azure's gateways append one).
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bracketed = hop
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = bracketed.unwrap_or(hop).parse().ok();
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    address
        .or_else(with_port)
        .map(|address| address.to_canonical())
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
        for other in [
            "",
            "unknown",
            "_hidden",
            "203.0.113.1:",
            "[2001:db8::1",
            "2001:db8::1]:80",
            "203.0.113.1:99999",
        ] {
            assert_eq!(parse_hop(other), None, "{other}");
        }
    }
}
