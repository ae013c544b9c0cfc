//! `--listen` and `--admin`: addresses, also in short forms.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;

/// Addresses that override `http.listen` and `admin.listen`.
#[derive(Debug, Clone, Copy, Args)]
pub struct Addresses {
    /// API address and port, or a port on 127.0.0.1; port 0 for any free port.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// Admin listener address and port, or a port on 127.0.0.1; port 0 for any free port.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub admin: Option<SocketAddr>,
}

/// Parses an address and a port. `3000`, `:3000` and `localhost:3000` are on 127.0.0.1: a server accepts connections from other machines
/// only if an address is given.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let local_port = match text.rsplit_once(':') {
        // A port alone.
        None => Some(text),
        Some((host, port)) => {
            (host.is_empty() || host.eq_ignore_ascii_case("localhost")).then_some(port)
        }
    };
    // `u16` would also accept a sign.
    let is_number = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    let local = local_port
        .filter(is_number)
        .and_then(|port| port.parse().ok());
    let local = local.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    local.or_else(|| text.parse().ok()).ok_or_else(|| {
        "must be a port, or an address and a port: 3000, localhost:3000, 127.0.0.1:3000, [::1]:3000".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_this_machine_only() {
        for (text, address) in [
            ("3000", "127.0.0.1:3000"),
            (":3000", "127.0.0.1:3000"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost:8080", "127.0.0.1:8080"),
            ("0", "127.0.0.1:0"),
            ("65535", "127.0.0.1:65535"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::]:80", "[::]:80"),
            ("127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert_eq!(
                parse_address(text)
                    .map(|parsed| parsed.to_string())
                    .as_deref(),
                Ok(address),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            ":",
            "65536",
            "+3000",
            "-1",
            " 3000",
            "localhost",
            "localhost:",
            "127.0.0.1",
            "example.org:80",
            "::3000",
            "::1:8080",
            "*:3000",
            "http://localhost:3000",
        ] {
            assert!(
                parse_address(text).is_err_and(|problem| problem.contains("localhost:3000")),
                "{text}"
            );
        }
    }
}
