//! IP addresses: which ones the server may dial if a client supplies the URL, which ones count as
//! one client, and the media workers' addresses.
//!
//! A webhook URL makes the server send a request for an untrusted party, from inside the operator's
//! network. Therefore only public unicast addresses are dialled. Addresses in the IANA
//! special-purpose registries are refused, even if listed as globally reachable, unless the
//! operator allows their network.
//!
//! An IPv6 address may contain an IPv4 address. If that is the one reached in the end (mapped,
//! NAT64's well-known prefix), it is checked instead. If a relay or a local translator decides
//! (6to4, Teredo, local NAT64), the address is refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv6 network prefix length. A client may use all addresses within it.
const IPV6_NETWORK_BITS: u32 = 64;

/// Filter for public addresses. Does not resolve names: callers check every address that a name
/// resolves to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressFilter {
    allow: Vec<IpNet>,
}

impl AddressFilter {
    /// Creates a filter that permits public addresses, and any address in `allow`. A v4-mapped
    /// network means the IPv4 network.
    pub fn new(allow: Vec<IpNet>) -> Self {
        Self {
            // Addresses are compared as IPv4, so mapped networks have to be, too.
            allow: allow.into_iter().map(unmapped_net).collect(),
        }
    }

    /// Returns a filter that also permits the special-purpose networks around these addresses, such
    /// as 10.0.0.0/8 for 10.1.2.3. Multicast and unspecified addresses add nothing.
    #[must_use]
    pub fn with_networks_of(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let networks = addresses
            .into_iter()
            .filter_map(|address| special_network(unmapped(address)));
        Self {
            // The operator's networks stay allowed.
            allow: self.allow.iter().copied().chain(networks).collect(),
        }
    }

    /// Returns whether `address` may be dialled.
    pub fn permits(&self, address: IpAddr) -> bool {
        self.refusal(address).is_none()
    }

    /// Returns the range for which `address` is refused; `None` if it may be dialled.
    pub fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        // Otherwise `::ffff:127.0.0.1` would pass as IPv6.
        let address = unmapped(address);
        if self.allows(address) {
            // Before the special networks: the operator's word overrides them.
            return None;
        }
        match address {
            IpAddr::V4(v4) => special_v4(v4),
            // The gateway sends the packet to the IPv4 address inside.
            IpAddr::V6(v6) => match nat64_target(v6) {
                // An allowed IPv4 network is allowed through NAT64, too.
                Some(v4) if self.allows(v4.into()) => None,
                Some(v4) => special_v4(v4),
                None => special_v6(v6),
            },
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|net| net.contains(&address))
    }
}

/// Address that counts as one client: an IPv4 address, or an IPv6 /64 network. A v4-mapped address
/// counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                // Limits per address would be useless: a client has 2^64 of them.
                Self(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << IPV6_NETWORK_BITS)).into())
            }
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // In logs, the prefix length shows that more than one address is meant.
            IpAddr::V6(network) => write!(f, "{network}/{IPV6_NETWORK_BITS}"),
            IpAddr::V4(address) => address.fmt(f),
        }
    }
}

/// A media worker's UDP socket address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaAddress {
    /// Local address that the socket is bound to.
    pub bound: SocketAddr,
    /// Address given to clients.
    pub advertised: SocketAddr,
}

/// Returns the address that dialling `address` reaches: for a mapped one, its IPv4 address.
fn unmapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn unmapped_net(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    // 96 bits precede the IPv4 address (RFC 4291, section 2.5.5.2). A shorter prefix contains more
    // than mapped addresses.
    match (
        v6.network().to_ipv4_mapped(),
        v6.prefix_len().checked_sub(96),
    ) {
        (Some(v4), Some(len)) => Ipv4Net::new(v4, len).map_or(net, IpNet::V4),
        _ => net,
    }
}

/// Returns the IPv4 address behind NAT64's well-known prefix.
fn nat64_target(address: Ipv6Addr) -> Option<Ipv4Addr> {
    // RFC 6052, section 2.1. With this prefix, the IPv4 address is the last 32 bits (section 2.2).
    const WELL_KNOWN: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);
    let [.., a, b, c, d] = address.octets();
    WELL_KNOWN
        .contains(&address)
        .then_some(Ipv4Addr::new(a, b, c, d))
}

/// Returns a host address's special-purpose network.
fn special_network(address: IpAddr) -> Option<IpNet> {
    // No host has such an address, so allowing its network cannot be intended.
    if address.is_multicast() || address.is_unspecified() {
        return None;
    }
    match address {
        IpAddr::V4(v4) => special_v4_entry(v4).map(|(net, _)| IpNet::V4(*net)),
        IpAddr::V6(v6) => special_v6_entry(v6).map(|(net, _)| IpNet::V6(*net)),
    }
}

fn special_v4_entry(address: Ipv4Addr) -> Option<&'static (Ipv4Net, &'static str)> {
    SPECIAL_V4.iter().find(|(net, _)| net.contains(&address))
}

fn special_v6_entry(address: Ipv6Addr) -> Option<&'static (Ipv6Net, &'static str)> {
    SPECIAL_V6.iter().find(|(net, _)| net.contains(&address))
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    special_v4_entry(address).map(|(_, name)| *name)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    // IANA assigns public addresses only from 2000::/3, so others need no entry to be refused.
    let listed = special_v6_entry(address).map(|(_, name)| *name);
    listed.or_else(|| (!GLOBAL_UNICAST_V6.contains(&address)).then_some("outside global unicast"))
}

/// Creates a network from its first octets.
const fn v4(a: u8, b: u8, c: u8, len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), len)
}

/// Creates a network from its first four groups.
const fn v6(lead: [u16; 4], len: u8) -> Ipv6Net {
    Ipv6Net::new_assert(
        Ipv6Addr::new(lead[0], lead[1], lead[2], lead[3], 0, 0, 0, 0),
        len,
    )
}

/// IPv4 networks that are not public unicast (IANA IPv4 Special-Purpose Address Registry).
const SPECIAL_V4: &[(Ipv4Net, &str)] = &[
    // RFC 1122, section 3.2.1.3.
    (v4(0, 0, 0, 8), "this network"),
    // RFC 1918, as are the two other private networks.
    (v4(10, 0, 0, 8), "private"),
    // RFC 6598: shared between a provider and its customers.
    (v4(100, 64, 0, 10), "carrier-grade NAT"),
    // RFC 1122, section 3.2.1.3: this server and its other programs.
    (v4(127, 0, 0, 8), "loopback"),
    // RFC 3927. Clouds serve their machines' credentials at 169.254.169.254.
    (v4(169, 254, 0, 16), "link-local"),
    (v4(172, 16, 0, 12), "private"),
    // RFC 6890, section 2.1.
    (v4(192, 0, 0, 24), "protocol assignments"),
    // RFC 5737, as are the two other networks for documentation.
    (v4(192, 0, 2, 24), "documentation"),
    // RFC 7535: a sink for reverse look-ups of private addresses, as is the other one (RFC 7534).
    (v4(192, 31, 196, 24), "AS112"),
    // RFC 7450.
    (v4(192, 52, 193, 24), "multicast tunnelling"),
    // RFC 7526: deprecated; a relay would choose the target.
    (v4(192, 88, 99, 24), "6to4 relay"),
    (v4(192, 168, 0, 16), "private"),
    (v4(192, 175, 48, 24), "AS112"),
    // RFC 2544.
    (v4(198, 18, 0, 15), "benchmark"),
    (v4(198, 51, 100, 24), "documentation"),
    (v4(203, 0, 113, 24), "documentation"),
    // RFC 5771.
    (v4(224, 0, 0, 4), "multicast"),
    // RFC 1112, section 4.
    (v4(240, 0, 0, 4), "reserved and broadcast"),
];

/// Public IPv6 addresses. All others are refused, with or without a name below.
const GLOBAL_UNICAST_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

/// Named IPv6 networks that are refused: first those in global unicast, then others, whose names
/// only serve the error (IANA IPv6 Special-Purpose Address Registry). The first match counts, so
/// parts of 2001::/23 stand before it.
const SPECIAL_V6: &[(Ipv6Net, &str)] = &[
    // RFC 4380: a relay chooses the target.
    (v6([0x2001, 0, 0, 0], 32), "Teredo"),
    // RFC 5180.
    (v6([0x2001, 2, 0, 0], 48), "benchmark"),
    // RFC 4843, and its successor RFC 7343: identifiers that are not routed.
    (v6([0x2001, 0x10, 0, 0], 28), "ORCHID"),
    (v6([0x2001, 0x20, 0, 0], 28), "ORCHID"),
    // RFC 2928.
    (v6([0x2001, 0, 0, 0], 23), "protocol assignments"),
    // RFC 3849.
    (v6([0x2001, 0xdb8, 0, 0], 32), "documentation"),
    // RFC 3056: contains an IPv4 address that a relay sends to.
    (v6([0x2002, 0, 0, 0], 16), "6to4"),
    // RFC 7534.
    (v6([0x2620, 0x4f, 0x8000, 0], 48), "AS112"),
    // RFC 9637.
    (v6([0x3fff, 0, 0, 0], 20), "documentation"),
    (
        Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128),
        "unspecified",
    ),
    (Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128), "loopback"),
    (v6([0, 0, 0, 0], 96), "IPv4-compatible"),
    // RFC 8215: translated by the operator's own network.
    (v6([0x64, 0xff9b, 1, 0], 48), "local NAT64"),
    // RFC 6666.
    (v6([0x100, 0, 0, 0], 64), "discard"),
    (v6([0x100, 0, 0, 1], 64), "dummy prefix"),
    // RFC 9602.
    (v6([0x5f00, 0, 0, 0], 16), "segment routing"),
    // RFC 4193.
    (v6([0xfc00, 0, 0, 0], 7), "unique local"),
    (v6([0xfe80, 0, 0, 0], 10), "link-local"),
    // RFC 3879: deprecated.
    (v6([0xfec0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0], 8), "multicast"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn allowing(nets: &[&str]) -> AddressFilter {
        AddressFilter::new(nets.iter().map(|net| net.parse().unwrap()).collect())
    }

    #[test]
    fn the_networks_of_addresses_can_be_allowed() {
        let filter = allowing(&["192.168.7.0/24"]).with_networks_of(
            [
                "10.1.2.3",
                "127.0.0.1",
                "8.8.8.8",
                "fd00::1",
                "::1",
                "224.0.0.1",
                "0.0.0.0",
            ]
            .map(ip),
        );
        for allowed in [
            "10.255.0.1",
            "127.9.9.9",
            "9.9.9.9",
            "fc00::2",
            "::1",
            "192.168.7.1",
        ] {
            assert!(filter.permits(ip(allowed)), "{allowed}");
        }
        for refused in [
            "192.168.1.1",
            "172.16.0.1",
            "fe80::1",
            "224.0.0.1",
            "0.0.0.1",
            "100.64.0.1",
            "255.255.255.255",
        ] {
            assert!(!filter.permits(ip(refused)), "{refused}");
        }
    }

    /// Ranges that must be refused, with their first and last address.
    const REFUSED: &[(&str, &str)] = &[
        ("0.0.0.0", "0.255.255.255"),
        ("10.0.0.0", "10.255.255.255"),
        ("100.64.0.0", "100.127.255.255"),
        ("127.0.0.0", "127.255.255.255"),
        ("169.254.0.0", "169.254.255.255"),
        ("172.16.0.0", "172.31.255.255"),
        ("192.0.0.0", "192.0.0.255"),
        ("192.0.2.0", "192.0.2.255"),
        ("192.31.196.0", "192.31.196.255"),
        ("192.52.193.0", "192.52.193.255"),
        ("192.88.99.0", "192.88.99.255"),
        ("192.168.0.0", "192.168.255.255"),
        ("192.175.48.0", "192.175.48.255"),
        ("198.18.0.0", "198.19.255.255"),
        ("198.51.100.0", "198.51.100.255"),
        ("203.0.113.0", "203.0.113.255"),
        ("224.0.0.0", "239.255.255.255"),
        ("240.0.0.0", "255.255.255.255"),
        ("::", "::1"),
        ("::2", "::ffff:ffff"),
        ("::8.8.8.8", "::8.8.8.8"),
        ("::ffff:0:8.8.8.8", "::ffff:0:ffff:ffff"),
        ("::1:0:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("64:ff9b:0:0:0:1::", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff"),
        ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
        ("64:ff9b:1::808:808", "64:ff9b:2::808:808"),
        ("100::", "100::1:ffff:ffff:ffff:ffff"),
        ("200::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
        ("2001:10::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:30::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2002:808:808::1", "2002:7f00:1::1"),
        ("2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"),
        ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("6000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];

    /// Nearest public addresses on both sides of those ranges.
    const NEIGHBOURS: &[&str] = &[
        "1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0",
        "169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.1.255 192.0.3.0",
        "192.31.195.255 192.31.197.0 192.52.192.255 192.52.194.0 192.88.98.255 192.88.100.0",
        "192.167.255.255 192.169.0.0 192.175.47.255 192.175.49.0 198.17.255.255 198.20.0.0",
        "198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 8.8.8.8",
        "2000:: 2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2001:200:: 2001:db7:ffff:ffff:ffff:ffff:ffff:ffff 2001:db9::",
        "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2003:: 2620:4f:7fff:ffff:ffff:ffff:ffff:ffff 2620:4f:8001::",
        "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff 3fff:1000:: 3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2606:4700:4700::1111 64:ff9b::8.8.8.8 ::ffff:8.8.8.8",
    ];

    #[test]
    fn the_first_and_last_address_of_each_special_range_are_refused() {
        for (first, last) in REFUSED {
            for edge in [first, last] {
                assert!(!AddressFilter::default().permits(ip(edge)), "{edge}");
            }
        }
    }

    #[test]
    fn the_neighbours_of_the_special_ranges_are_permitted() {
        for public in NEIGHBOURS.iter().flat_map(|line| line.split(' ')) {
            assert_eq!(
                AddressFilter::default().refusal(ip(public)),
                None,
                "{public}"
            );
        }
    }

    #[test]
    fn a_refusal_names_its_range() {
        let filter = AddressFilter::default();
        let named = [
            ("::ffff:127.0.0.1", "loopback"),
            ("64:ff9b::10.0.0.1", "private"),
            ("2001::1", "Teredo"),
        ];
        for (address, name) in named {
            assert_eq!(filter.refusal(ip(address)), Some(name), "{address}");
        }
        assert_eq!(
            filter.refusal(ip("4000::1")),
            Some("outside global unicast")
        );
    }

    #[test]
    fn an_allowed_network_covers_its_mapped_and_nat64_spellings_and_nothing_more() {
        let filter = allowing(&["127.0.0.0/8"]);
        for address in [
            "127.0.0.1",
            "127.255.255.255",
            "::ffff:127.0.0.1",
            "64:ff9b::127.0.0.1",
        ] {
            assert!(filter.permits(ip(address)), "{address}");
        }
        for address in [
            "::1",
            "10.0.0.1",
            "::127.0.0.1",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::1",
            "2001::80ff:fffe",
        ] {
            assert!(!filter.permits(ip(address)), "{address}");
        }
    }

    #[test]
    fn the_embedding_forms_are_permitted_only_by_their_own_networks() {
        for (net, address) in [
            ("2002::/16", "2002:a00:1::1"),
            ("2001::/32", "2001::1"),
            ("fd00::/8", "fd00::1"),
        ] {
            assert!(allowing(&[net]).permits(ip(address)), "{net}");
        }
        assert!(allowing(&["64:ff9b:1::/48"]).permits(ip("64:ff9b:1::a00:1")));
        assert!(allowing(&["64:ff9b::/96"]).permits(ip("64:ff9b::10.0.0.1")));
    }

    #[test]
    fn an_allowed_network_in_mapped_spelling_is_its_ipv4_network() {
        let filter = allowing(&["::ffff:10.1.0.0/112"]);
        assert!(filter.permits(ip("10.1.255.255")) && filter.permits(ip("::ffff:10.1.0.0")));
        assert!(!filter.permits(ip("10.2.0.0")) && !filter.permits(ip("10.0.255.255")));
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_permitted_exactly_when_its_ipv4_address_is(bits: u32, net: u32, len in 0u8..=32) {
            let (address, net) = (Ipv4Addr::from(bits), Ipv4Net::new(net.into(), len).unwrap());
            for filter in [AddressFilter::default(), AddressFilter::new(vec![net.into()])] {
                let mapped = filter.permits(address.to_ipv6_mapped().into());
                prop_assert_eq!(mapped, filter.permits(address.into()));
            }
        }

        #[test]
        fn nothing_outside_global_unicast_is_permitted_but_what_embeds_ipv4(bits: u128) {
            let address = Ipv6Addr::from(bits);
            let judged_as_v6 = address.to_ipv4_mapped().is_none() && nat64_target(address).is_none();
            if judged_as_v6 && AddressFilter::default().permits(address.into()) {
                prop_assert_eq!(address.segments()[0] >> 13, 1);
            }
        }
    }

    #[test]
    fn a_64_bit_network_of_ipv6_is_one_client() {
        let client = |address: &str| ClientAddress::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(
            client("2001:db8:0:1::1"),
            client("2001:db8:0:1:ffff:ffff:ffff:ffff")
        );
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:203.0.113.1"), client("203.0.113.1"));
        assert_ne!(client("203.0.113.1"), client("203.0.113.2"));
        assert_eq!(client("2001:db8:0:1::1").to_string(), "2001:db8:0:1::/64");
        assert_eq!(client("203.0.113.1").to_string(), "203.0.113.1");
    }
}
