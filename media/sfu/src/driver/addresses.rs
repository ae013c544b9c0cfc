//! The workers' addresses: for listening, and as advertised to clients.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::Config;

/// Reason why a worker cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The interfaces' addresses cannot be read.
    #[error("the addresses of the network interfaces cannot be read")]
    Interfaces(#[source] io::Error),
    /// There is no interface except loopback.
    #[error("no network interface has an address; name one in the settings")]
    NoAddress,
    /// The port range is empty.
    #[error("the range of UDP ports is empty")]
    NoPort,
    /// A socket cannot be bound.
    #[error("{address} cannot be bound")]
    Socket {
        /// This machine's address, with the port.
        address: SocketAddr,
        /// Error of the system call.
        #[source]
        error: io::Error,
    },
    /// The thread or its poll cannot be created.
    #[error("a media worker cannot be started")]
    Thread(#[source] io::Error),
}

/// Returns the addresses to listen on, each with its advertised address: itself, or an external one.
///
/// # Errors
///
/// If no address is configured and none can be found.
pub fn candidate_addresses(config: &Config) -> Result<Vec<(IpAddr, IpAddr)>, BindError> {
    let bound = match config.addresses.as_slice() {
        [] => {
            let loopback = config.loopback.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
            interface_addresses()?.into_iter().chain(loopback).collect()
        }
        configured => configured.to_vec(),
    };
    if bound.is_empty() {
        return Err(BindError::NoAddress);
    }
    Ok(with_external(&bound, &config.external_addresses))
}

fn interface_addresses() -> Result<Vec<IpAddr>, BindError> {
    let interfaces = if_addrs::get_if_addrs().map_err(BindError::Interfaces)?;
    let usable = interfaces
        .into_iter()
        // Loopback and link-local addresses mean nothing to clients on other machines.
        .filter(|interface| !interface.is_loopback())
        .map(|interface| interface.ip());
    Ok(usable.filter(|address| !is_link_local(*address)).collect())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Pairs each bound address with the external address at its position in its family, or with the family's last one.
fn with_external(bound: &[IpAddr], external: &[IpAddr]) -> Vec<(IpAddr, IpAddr)> {
    let of_family = |is_ipv4: bool| {
        external
            .iter()
            .copied()
            .filter(move |address| address.is_ipv4() == is_ipv4)
    };
    let position = |address: &IpAddr, at: usize| {
        bound[..at]
            .iter()
            .filter(|other| other.is_ipv4() == address.is_ipv4())
            .count()
    };
    let pairs = bound.iter().enumerate().map(|(at, address)| {
        let family = of_family(address.is_ipv4());
        let advertised = family
            .clone()
            .nth(position(address, at))
            // Usually one external address (a NAT) stands in front of all bound ones.
            .or_else(|| family.clone().next_back())
            .unwrap_or(*address);
        (*address, advertised)
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn external_addresses_stand_for_the_bound_ones_of_their_family() {
        let bound = addresses(&["10.0.0.1", "fd00::1", "10.0.0.2", "10.0.0.3"]);
        let advertised = |external: &[&str]| {
            with_external(&bound, &addresses(external))
                .into_iter()
                .map(|(_, advertised)| advertised.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            advertised(&[]),
            ["10.0.0.1", "fd00::1", "10.0.0.2", "10.0.0.3"]
        );
        assert_eq!(
            advertised(&["192.0.2.1"]),
            ["192.0.2.1", "fd00::1", "192.0.2.1", "192.0.2.1"]
        );
        assert_eq!(
            advertised(&["192.0.2.1", "192.0.2.2"]),
            ["192.0.2.1", "fd00::1", "192.0.2.2", "192.0.2.2"]
        );
    }

    #[test]
    fn the_loopback_address_comes_behind_those_of_the_interfaces() {
        let config = Config {
            loopback: true,
            ..Config::default()
        };
        let told: Vec<_> = candidate_addresses(&config)
            .unwrap()
            .into_iter()
            .map(|(_, told)| told)
            .collect();
        let interfaces = interface_addresses().unwrap();
        assert_eq!(told, [interfaces, addresses(&["127.0.0.1"])].concat());
    }

    #[test]
    fn configured_addresses_are_taken_as_they_are() {
        let config = Config {
            addresses: addresses(&["127.0.0.1"]),
            ..Config::default()
        };
        assert_eq!(
            candidate_addresses(&config).unwrap(),
            [(addresses(&["127.0.0.1"])[0], addresses(&["127.0.0.1"])[0])]
        );
    }
}
