//! What the API client and the websocket connection share: how they call, and their descriptions of network errors for the
//! operator.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::tls::TlsConfig;
use ureq::typestate::AgentScope;

/// Returns how LiveKit is called.
pub(super) fn config() -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()));
    Agent::config_builder()
        .tls_config(tls.build())
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent(concat!("Conclave/", env!("CARGO_PKG_VERSION")))
}

/// Returns where the server at `url` is called: `http://host:7880` for `ws://host:7880/`.
pub(super) fn http_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    format!("{scheme}://{}", rest.trim_end_matches('/'))
}

/// Describes why an HTTP request to LiveKit failed.
pub(super) fn describe_http(error: &ureq::Error, timeout: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => timed_out(timeout),
        ureq::Error::HostNotFound => "LiveKit's name is not resolved: check media.url".into(),
        ureq::Error::Io(error) => describe_io(error, timeout),
        ureq::Error::ConnectionFailed => "LiveKit is not reached: check media.url".into(),
        ureq::Error::Rustls(error) => format!("TLS with LiveKit failed: {error}"),
        ureq::Error::Tls(_) | ureq::Error::TlsRequired => "TLS with LiveKit failed".into(),
        ureq::Error::Protocol(_) => "what answers at media.url does not speak HTTP as LiveKit does".into(),
        ureq::Error::BodyExceedsLimit(_) => "LiveKit's answer is too large".into(),
        _ => "the call to LiveKit could not be made: check media.url".into(),
    }
}

/// Describes why a connection to LiveKit failed.
fn describe_io(error: &io::Error, timeout: Duration) -> String {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::TimedOut | Kind::WouldBlock => timed_out(timeout),
        Kind::InvalidData => format!("TLS with LiveKit failed: {error}"),
        Kind::ConnectionRefused => "LiveKit refuses connections: is it running, and is media.url right?".into(),
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof => {
            "the connection to LiveKit was closed before an answer".into()
        }
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => {
            "LiveKit's address is not reachable: check media.url".into()
        }
        _ => "the connection to LiveKit failed".into(),
    }
}

fn timed_out(timeout: Duration) -> String {
    format!("LiveKit did not answer within {timeout:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_calls_is_derived_from_a_websocket_url() {
        assert_eq!(http_url("ws://127.0.0.1:7880"), "http://127.0.0.1:7880");
        assert_eq!(http_url("wss://live.example.org/"), "https://live.example.org");
        assert_eq!(http_url("https://example.org/lk/"), "https://example.org/lk");
    }
}
