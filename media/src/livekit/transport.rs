//! What the API client and the websocket connection share: where they call, and their descriptions of network errors for the
//! operator.

use std::time::Duration;

use conclave_outbound::{Error, Failure};

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
pub(super) fn describe_http(error: &Error, timeout: Duration) -> String {
    let words = match Failure::from(error) {
        Failure::TimedOut => return format!("LiveKit did not answer within {timeout:?}"),
        Failure::Tls(reason) => return format!("TLS with LiveKit failed: {reason}"),
        Failure::UnknownIssuer => {
            "LiveKit's certificate is of an issuer that is not trusted: name its authority in SSL_CERT_FILE"
        }
        Failure::NameNotResolved => "LiveKit's name is not resolved: check media.url",
        Failure::Refused => "LiveKit refuses connections: is it running, and is media.url right?",
        Failure::Unreachable => "LiveKit's address is not reachable: check media.url",
        Failure::Closed => "the connection to LiveKit was closed before an answer",
        Failure::ConnectionFailed => "the connection to LiveKit failed",
        Failure::NotHttp => "what answers at media.url does not speak HTTP as LiveKit does",
        Failure::LargeBody => "LiveKit's answer is too large",
        Failure::AddressBlocked | Failure::LargeHead | Failure::NotSent => {
            "the call to LiveKit could not be made: check media.url"
        }
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_calls_is_derived_from_a_websocket_url() {
        assert_eq!(http_url("ws://127.0.0.1:7880"), "http://127.0.0.1:7880");
        assert_eq!(
            http_url("wss://live.example.org/"),
            "https://live.example.org"
        );
        assert_eq!(
            http_url("https://example.org/lk/"),
            "https://example.org/lk"
        );
    }
}
