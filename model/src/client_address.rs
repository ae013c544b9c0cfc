//! Which addresses are one client, for limits by address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The bits of an IPv6 address that name its network. A client has the rest of the address for itself.
const IPV6_NETWORK_BITS: u32 = 64;

/// What counts as one client: an IPv4 address, or the /64 network of an IPv6 address. An IPv4 address that is mapped into IPv6 is
/// the IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                Self(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << IPV6_NETWORK_BITS)).into())
            }
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(network) => write!(f, "{network}/{IPV6_NETWORK_BITS}"),
            IpAddr::V4(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
