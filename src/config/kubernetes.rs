//! Environment variables that Kubernetes sets for each service in a pod's namespace.
//!
//! Unless a pod has `enableServiceLinks: false`, a service called `conclave-api` adds `CONCLAVE_API_SERVICE_HOST`, `CONCLAVE_API_PORT` and
//! so on to its containers: the variables of Docker's links, which have the same prefix as settings. They are recognised by name and value,
//! so that a misspelt setting is still an error.

use std::net::{IpAddr, SocketAddr};

const MAX_SERVICE_NAME: usize = 63;
const MAX_PORT_NAME: usize = 15;

/// Returns whether Kubernetes sets a variable with this name and value for a service.
pub(super) fn is_service_variable(name: &str, value: &str) -> bool {
    is_host(name, value)
        || is_port(name, value)
        || is_named_port(name, value)
        || is_link(name, value)
}

/// Matches `{SERVICE}_SERVICE_HOST=10.0.0.1`.
fn is_host(name: &str, value: &str) -> bool {
    name.strip_suffix("_SERVICE_HOST").is_some_and(is_service) && value.parse::<IpAddr>().is_ok()
}

/// Matches `{SERVICE}_SERVICE_PORT=80` and `{SERVICE}_PORT=tcp://10.0.0.1:80`.
fn is_port(name: &str, value: &str) -> bool {
    match name.strip_suffix("_SERVICE_PORT") {
        Some(service) if is_service(service) => port_number(value).is_some(),
        _ => name.strip_suffix("_PORT").is_some_and(is_service) && Address::parse(value).is_some(),
    }
}

/// Matches `{SERVICE}_SERVICE_PORT_{NAME OF PORT}=80`.
fn is_named_port(name: &str, value: &str) -> bool {
    let is_name = |port: &str| {
        // A double underscore separates a setting's section from its key, so it is never taken for a port name.
        is_label(port, MAX_PORT_NAME)
            && !port.contains("__")
            && port.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    name.rsplit_once("_SERVICE_PORT_")
        .is_some_and(|(service, port)| is_service(service) && is_name(port))
        && port_number(value).is_some()
}

/// Matches `{SERVICE}_PORT_80_TCP=tcp://10.0.0.1:80`, and the same with `_PROTO`, `_PORT` and `_ADDR`.
fn is_link(name: &str, value: &str) -> bool {
    let Some((_, link)) = name
        .rsplit_once("_PORT_")
        .filter(|(service, _)| is_service(service))
    else {
        return false;
    };
    // `{SERVICE}_PORT_80_TCP_PORT` has no further `_PORT_`, so the link is `80_TCP_PORT`.
    let mut parts = link.split('_');
    let (Some(number), Some(protocol)) = (parts.next().and_then(port_number), parts.next()) else {
        return false;
    };
    if !["TCP", "UDP", "SCTP"].contains(&protocol) {
        return false;
    }
    let protocol = protocol.to_ascii_lowercase();
    match (parts.next(), parts.next()) {
        (None, _) => {
            // The value repeats the name's protocol and port; a setting's value would not.
            Address::parse(value).is_some_and(|it| it.protocol == protocol && it.port == number)
        }
        (Some("PROTO"), None) => value == protocol,
        (Some("PORT"), None) => port_number(value) == Some(number),
        (Some("ADDR"), None) => value.parse::<IpAddr>().is_ok(),
        _ => false,
    }
}

/// `tcp://10.0.0.1:80`
struct Address<'a> {
    protocol: &'a str,
    port: u16,
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (protocol, address) = text.split_once("://")?;
        let address: SocketAddr = address.parse().ok()?;
        ["tcp", "udp", "sctp"].contains(&protocol).then_some(Self {
            protocol,
            port: address.port(),
        })
    }
}

fn port_number(text: &str) -> Option<u16> {
    // Without a sign and without leading zeros, as Kubernetes writes it.
    text.parse()
        .ok()
        .filter(|number: &u16| *number > 0 && number.to_string() == text)
}

/// Returns whether this is a service name in upper case, with underscores for its hyphens.
fn is_service(name: &str) -> bool {
    is_label(name, MAX_SERVICE_NAME)
}

/// Returns whether this is a DNS label in that form. A name that ends in an underscore would be a section of the settings:
/// `CONCLAVE_HTTP__`.
fn is_label(text: &str, longest: usize) -> bool {
    let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    text.len() <= longest
        && text.bytes().all(|byte| is_word(byte) || byte == b'_')
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().last().is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Variables that Kubernetes sets for a service with a port, as `pkg/kubelet/envvars` in its sources does.
    fn variables(
        service: &str,
        host: IpAddr,
        port_name: &str,
        port: u16,
        protocol: &str,
    ) -> Vec<(String, String)> {
        let upper = |text: &str| text.to_ascii_uppercase().replace('-', "_");
        let (service, url) = (
            upper(service),
            format!("{protocol}://{}", SocketAddr::new(host, port)),
        );
        let link = format!("{service}_PORT_{port}_{}", upper(protocol));
        vec![
            (format!("{service}_SERVICE_HOST"), host.to_string()),
            (format!("{service}_SERVICE_PORT"), port.to_string()),
            (
                format!("{service}_SERVICE_PORT_{}", upper(port_name)),
                port.to_string(),
            ),
            (format!("{service}_PORT"), url.clone()),
            (link.clone(), url),
            (format!("{link}_PROTO"), protocol.to_owned()),
            (format!("{link}_PORT"), port.to_string()),
            (format!("{link}_ADDR"), host.to_string()),
        ]
    }

    #[test]
    fn a_variable_that_only_looks_like_one_of_kubernetes_is_none() {
        for (name, value) in [
            ("CONCLAVE_SERVICE_HOST", "conclave.example.org"),
            ("CONCLAVE_SERVICE_HOST", ""),
            ("CONCLAVE_SERVICE_HOSTS", "10.0.0.1"),
            ("CONCLAVE_HTTP__SERVICE_HOST", "10.0.0.1"),
            ("CONCLAVE_SERVICE_PORT", "http"),
            ("CONCLAVE_SERVICE_PORT", "0"),
            ("CONCLAVE_SERVICE_PORT", "70000"),
            ("CONCLAVE_SERVICE_PORT", "+80"),
            ("CONCLAVE_SERVICE_PORT_", "80"),
            ("CONCLAVE_SERVICE_PORT_80", "80"),
            ("CONCLAVE_SERVICE_PORT_HTTP__LISTEN", "80"),
            ("CONCLAVE_SERVICE_PORT_http", "80"),
            ("CONCLAVE_HTTP_PORT", "8080"),
            ("CONCLAVE_PORT", "http://10.0.0.1:80"),
            ("CONCLAVE_PORT", "tcp://conclave:80"),
            ("CONCLAVE_HTTP__PORT", "tcp://10.0.0.1:80"),
            ("CONCLAVE_PORT_80_TCP", "tcp://10.0.0.1:81"),
            ("CONCLAVE_PORT_80_TCP", "udp://10.0.0.1:80"),
            ("CONCLAVE_PORT_80_HTTP", "tcp://10.0.0.1:80"),
            ("CONCLAVE_PORT_80_TCP_PROTO", "udp"),
            ("CONCLAVE_PORT_80_TCP_PORT", "81"),
            ("CONCLAVE_PORT_80_TCP_ADDR", "tcp"),
            ("CONCLAVE_PORT_80_TCP_HOST", "10.0.0.1"),
            ("CONCLAVE_PORT_80_TCP_ADDR_X", "10.0.0.1"),
            ("CONCLAVE_PORT_99999_TCP_ADDR", "10.0.0.1"),
            ("CONCLAVE_PORT_HTTP", "80"),
            ("_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(!is_service_variable(name, value), "{name}={value}");
        }
    }

    proptest! {
        #[test]
        fn each_variable_of_any_service_is_recognised(
            service in "conclave(-{1,2}[a-z0-9]{1,9}){0,4}",
            host in any::<IpAddr>(),
            port_name in "[a-z]{1,5}(-[a-z0-9]{1,5})?",
            port in 1_u16..,
            protocol in prop::sample::select(vec!["tcp", "udp", "sctp"]),
        ) {
            for (name, value) in variables(&service, host, &port_name, port, protocol) {
                prop_assert!(is_service_variable(&name, &value), "{name}={value}");
                // With a changed value, or without one, it is not a service variable.
                prop_assert!(!is_service_variable(&name, &format!("{value} x")), "{name}={value} x");
                prop_assert!(!is_service_variable(&name, ""), "{name}");
            }
        }
    }
}
