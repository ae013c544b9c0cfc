//! TURN server in this process: its sockets, and the URLs for clients.

use std::io::ErrorKind;
use std::net::IpAddr;

use conclave_media::embedded::{EmbeddedPlaneBuilder, OwnTurn, TurnServers};
use conclave_model::Secret;
use url::Url;

use super::descriptors;
use crate::config::{Config, ConfigError, TURN_PORT};
use crate::error::CliError;
use crate::http::media::media_url::names_all_addresses;

/// Addresses at which clients reach the listeners.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reachable<'a> {
    /// WebSocket URL of the media plane for clients.
    pub media_url: &'a str,
    /// Whether the API listener terminates TLS itself.
    pub has_tls: bool,
}

/// Starts a TURN server in this process, if enabled.
///
/// # Errors
/// If the UDP port cannot be bound.
pub(super) fn start(
    builder: &mut EmbeddedPlaneBuilder,
    config: &Config,
    reachable: Reachable<'_>,
    secret: &Secret,
) -> Result<(), CliError> {
    let relay = || builder.relay(secret.clone(), descriptors::max_allocations());
    let Some(mut relay) = config.has_turn_server().then(relay).flatten() else {
        return Ok(());
    };
    let port = serve_udp(&mut relay, builder, config.media.rtc.turn.udp_port)?;
    // Without a configured URL, clients are known to reach only the media workers' address.
    let advertised = builder.advertised_addresses().into_iter().next();
    let on_media_address = advertised.filter(|_| names_all_addresses(reachable.media_url));
    let on_media_address =
        on_media_address.and_then(|address| on_host(reachable.media_url, address));
    let media_url = on_media_address.as_deref().unwrap_or(reachable.media_url);
    let urls = urls(
        Reachable {
            media_url,
            ..reachable
        },
        port,
    );
    log::info!(urls = urls.join(", ").as_str(); "clients can use this process's TURN server");
    relay.urls.clone_from(&urls);
    builder.turn.push(TurnServers {
        urls,
        secret: secret.clone(),
        ttl: config.media.rtc.turn.ttl,
    });
    builder.own_turn = Some(relay);
    Ok(())
}

/// Returns `url` with another host.
fn on_host(url: &str, host: IpAddr) -> Option<String> {
    let mut url = Url::parse(url).ok()?;
    url.set_ip_host(host).ok()?;
    Some(url.into())
}

/// Serves clients by UDP, and returns the port; `None` if only the API's TCP port is available.
fn serve_udp(
    relay: &mut OwnTurn,
    builder: &EmbeddedPlaneBuilder,
    port: u16,
) -> Result<Option<u16>, CliError> {
    let addresses: Vec<_> = builder.media_addresses().into_iter().collect();
    match relay.serve_udp(&addresses, port) {
        Ok(port) => Ok(Some(port)),
        // Another TURN server, such as coturn, often has the default port. A configured port has to be free.
        Err(error) if port == TURN_PORT && error.kind() == ErrorKind::AddrInUse => {
            log::warn!(
                "media.rtc.turn.udp_port {port} is in use, so clients reach the TURN server by TCP only"
            );
            Ok(None)
        }
        Err(error) => {
            let problem = format!("{port} cannot be bound: {error}");
            Err(CliError::failed(
                ConfigError::new("media.rtc.turn.udp_port", problem).to_string(),
            ))
        }
    }
}

/// Returns the TURN server's URLs: the UDP port's, and the API listener's unless a proxy stands in front of it.
pub(crate) fn urls(reachable: Reachable<'_>, udp_port: Option<u16>) -> Vec<String> {
    let Reachable { media_url, has_tls } = reachable;
    let Some((url, host)) = Url::parse(media_url)
        .ok()
        .and_then(|url| Some((url.clone(), url.host_str()?.to_owned())))
    else {
        return Vec::new();
    };
    let udp = udp_port.map(|port| format!("turn:{host}:{port}?transport=udp"));
    // Only if the URL's scheme matches the listener: otherwise a proxy terminates TLS, and such a proxy forwards HTTP only.
    let scheme = match (url.scheme(), has_tls) {
        ("wss", true) => Some("turns"),
        ("ws", false) => Some("turn"),
        _ => None,
    };
    let port = url.port_or_known_default();
    let tcp = scheme
        .zip(port)
        .map(|(scheme, port)| format!("{scheme}:{host}:{port}?transport=tcp"));
    udp.into_iter().chain(tcp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_name_the_host_of_the_media_plane_and_the_port_of_the_api() {
        let urls = |media_url, has_tls, port| urls(Reachable { media_url, has_tls }, port);
        assert_eq!(
            urls("wss://meet.example.org", true, Some(3478)),
            [
                "turn:meet.example.org:3478?transport=udp",
                "turns:meet.example.org:443?transport=tcp"
            ]
        );
        assert_eq!(
            urls("wss://meet.example.org:8443/", true, None),
            ["turns:meet.example.org:8443?transport=tcp"]
        );
        assert_eq!(
            urls("ws://127.0.0.1:8080", false, Some(7)),
            [
                "turn:127.0.0.1:7?transport=udp",
                "turn:127.0.0.1:8080?transport=tcp"
            ]
        );
        assert_eq!(
            urls("ws://[::1]", false, None),
            ["turn:[::1]:80?transport=tcp"]
        );
        let behind_a_proxy = urls("wss://meet.example.org", false, Some(3478));
        assert_eq!(behind_a_proxy, ["turn:meet.example.org:3478?transport=udp"]);
        assert!(urls("meet", true, Some(3478)).is_empty());
        let on_host = |url, host: &str| super::on_host(url, host.parse().unwrap());
        assert_eq!(
            on_host("ws://0.0.0.0:8080", "203.0.113.1").as_deref(),
            Some("ws://203.0.113.1:8080/")
        );
        assert_eq!(
            on_host("ws://[::]:8080", "2001:db8::1").as_deref(),
            Some("ws://[2001:db8::1]:8080/")
        );
    }
}
