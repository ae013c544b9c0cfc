//! Hosts as they are written in a `Host` header.

use std::fmt;
use std::net::IpAddr;

use rustls::pki_types::DnsName;
use url::Host;

use super::text::TextSetting;

/// The host of a `Host` header without its port: a name in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(Host);

impl HostName {
    /// Parses a name or an address; an IPv6 address may be in brackets. `None` for anything else, also with a port.
    pub fn parse(text: &str) -> Option<Self> {
        let address = || {
            text.parse::<IpAddr>()
                .ok()
                .map(|address| address.to_string())
        };
        let bracketed = address()
            .filter(|_| text.contains(':'))
            .map(|address| format!("[{address}]"));
        let host = Host::parse(bracketed.as_deref().unwrap_or(text)).ok()?;
        Some(Self(host))
    }

    /// Whether it means this machine: `localhost`, or a loopback address.
    pub fn is_loopback(&self) -> bool {
        match &self.0 {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Returns the name of a single host; `None` for an address and for a name with a wildcard.
    pub fn domain(&self) -> Option<&str> {
        let Host::Domain(name) = &self.0 else {
            return None;
        };
        let is_name = DnsName::try_from(name.as_str()).is_ok() && !name.ends_with('.');
        is_name.then_some(name)
    }
}

impl fmt::Display for HostName {
    /// Writes the host as in a url: an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TextSetting for HostName {
    const EXPECTED: &'static str =
        "a host without a port such as \"conclave.internal\" or \"10.0.0.5\"";

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| format!("must be {}, not {text:?}", Self::EXPECTED))
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_in_one_form() {
        let same = |one: &str, other: &str| {
            HostName::parse(one).unwrap() == HostName::parse(other).unwrap()
        };
        assert!(same("Conclave.Internal", "conclave.internal"));
        assert!(same("fd00::1", "[FD00:0::1]"));
        assert!(!same("conclave.internal", "internal"));
        for wrong in [
            "",
            "a b",
            "conclave.internal:8081",
            "http://conclave.internal",
            "[fd00::1]:80",
            "user@localhost",
        ] {
            assert_eq!(HostName::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_domain_is_the_name_of_a_single_host() {
        let domain = |text: &str| {
            HostName::parse(text).and_then(|host| host.domain().map(ToOwned::to_owned))
        };
        assert_eq!(
            domain("Meet.Example.org").as_deref(),
            Some("meet.example.org")
        );
        assert_eq!(
            domain("b\u{fc}ro.example").as_deref(),
            Some("xn--bro-hoa.example")
        );
        for other in [
            "*.example.org",
            "192.0.2.1",
            "[2001:db8::1]",
            "example.org.",
            "a..b",
            "..",
            "a/b",
            "-a.example",
        ] {
            assert_eq!(domain(other), None, "{other}");
        }
    }

    #[test]
    fn loopback_is_a_name_or_an_address() {
        let is_loopback = |text: &str| HostName::parse(text).unwrap().is_loopback();
        for own in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "127.8.9.1",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(own), "{own}");
        }
        for foreign in [
            "localhost.example",
            "127.0.0.1.example",
            "10.0.0.1",
            "::",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(foreign), "{foreign}");
        }
    }
}
