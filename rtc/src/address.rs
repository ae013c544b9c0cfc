//! Addresses of clients.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address that limits count a client by: its own, or its /64 of IPv6.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}
