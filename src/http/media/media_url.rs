//! WebSocket URL at which clients reach the media plane.
//!
//! It is fixed by `media.public_url`, by LiveKit's URL, or by the API listener's address. A server that listens on all addresses has
//! none that clients could use: then the URL has the host of each request, which that client can evidently reach.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header::HOST;
use actix_web::http::uri::Authority;
use url::{Host, Position, Url};

use crate::http::frame::origins;
use crate::http::listener::client_address::TrustedProxies;

/// Maximum length of a host with port, in bytes: a name with 253 bytes, a colon and five digits.
const MAX_AUTHORITY_LENGTH: usize = 259;

/// Source of the URL for clients.
#[derive(Debug, Clone)]
pub struct MediaUrl {
    fixed: Arc<str>,
    /// Absent if clients can use the fixed URL.
    by_request: Option<ByRequest>,
}

#[derive(Debug, Clone)]
struct ByRequest {
    /// Whether the API listener has TLS itself.
    has_tls: bool,
    proxies: TrustedProxies,
}

impl MediaUrl {
    /// Creates the source of the URL `fixed`, or of one per request if `fixed` stands for all addresses. Forwarding headers are
    /// trusted only from `proxies`.
    #[must_use]
    pub fn new(fixed: String, has_tls: bool, proxies: TrustedProxies) -> Self {
        // 0.0.0.0 and [::] are addresses to listen on, and no client can connect to them.
        let by_request = names_all_addresses(&fixed).then_some(ByRequest { has_tls, proxies });
        Self {
            fixed: fixed.into(),
            by_request,
        }
    }

    /// Returns the URL that depends on no request.
    #[must_use]
    pub fn fixed(&self) -> &Arc<str> {
        &self.fixed
    }

    /// Returns the URL derived for a client, otherwise the fixed one.
    #[must_use]
    pub fn or_fixed(&self, derived: Option<String>) -> Arc<str> {
        derived.map_or_else(|| Arc::clone(&self.fixed), Into::into)
    }

    /// Returns the URL for a request's client; `None` if the fixed one is right for all clients, or if the request names no host.
    #[must_use]
    pub fn derived(&self, request: &HttpRequest) -> Option<String> {
        let ByRequest { has_tls, proxies } = self.by_request.as_ref()?;
        let is_forwarded = proxies.have_sent(request);
        // From anyone else, the headers could send clients to a foreign server.
        let forwarded = |name: &str| first_value(request, name).filter(|_| is_forwarded);
        let is_secure = forwarded("x-forwarded-proto")
            // Without the header, TLS ends here or nowhere.
            .map_or(*has_tls, |scheme| matches!(scheme, "https" | "wss"));
        let scheme = if is_secure { "wss" } else { "ws" };
        let port = forwarded("x-forwarded-port").and_then(|port| port.parse().ok());
        // A proxy may rewrite `Host` to the server's own name.
        forwarded("x-forwarded-host")
            .and_then(|authority| websocket_url(scheme, &authority.parse().ok()?, port))
            // A host that cannot be used falls through to the next source.
            .or_else(|| websocket_url(scheme, &requested_authority(request)?, port))
    }

    /// Returns the URL for an operator, from a request to the admin listener. The API's port is `api`.
    #[must_use]
    pub fn derived_on_port(&self, request: &HttpRequest, api: u16) -> Option<String> {
        let scheme = if self.by_request.as_ref()?.has_tls {
            "wss"
        } else {
            "ws"
        };
        // The admin listener's own TLS and port do not matter: clients use the API listener.
        websocket_url(
            scheme,
            &requested_authority(request)?.host().parse().ok()?,
            Some(api),
        )
    }
}

/// Returns whether a URL's host stands for all of a machine's addresses.
#[must_use]
pub fn names_all_addresses(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Ipv4(address)) => address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_unspecified(),
        Some(Host::Domain(_)) | None => false,
    }
}

/// Returns host and port of a request; `None` if it has none, or several.
fn requested_authority(request: &HttpRequest) -> Option<Authority> {
    let headers = request.headers();
    if headers.contains_key(HOST) {
        origins::requested_authority(headers)
    // Without `Host`, as in HTTP/2, the authority is part of the request's URI.
    } else {
        request.uri().authority().cloned()
    }
}

/// Returns the first value of a header, set by the proxy next to the client.
fn first_value<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    let value = request.headers().get(name)?.to_str().ok()?;
    value
        .split(',')
        .next()
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

/// Returns a WebSocket URL; `None` if the authority is not a host with an optional port. `port` is used for a host without one.
fn websocket_url(scheme: &str, authority: &Authority, port: Option<u16>) -> Option<String> {
    let text = authority.as_str();
    // The URL becomes part of a content security policy, so it must not contain characters such as `;` or spaces.
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if text.len() > MAX_AUTHORITY_LENGTH || !is_plain {
        return None;
    }
    let mut url = Url::parse(&format!("{scheme}://{text}")).ok()?;
    if authority.port().is_none() && port.is_some() {
        url.set_port(port).ok()?;
    }
    // Up to the port: a path or query has no place in the URL.
    let text = &url[..Position::AfterPort];
    (!names_all_addresses(text)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const CLIENT: &str = "203.0.113.1:4711";
    const PROXY: &str = "10.0.0.2:4711";

    fn url(fixed: &str, has_tls: bool) -> MediaUrl {
        MediaUrl::new(
            fixed.to_owned(),
            has_tls,
            TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]),
        )
    }

    fn request(peer: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
        let request = TestRequest::default().peer_addr(peer.parse().unwrap());
        headers
            .iter()
            .fold(request, |request, header| request.append_header(*header))
            .to_http_request()
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_by_the_host_of_the_request() {
        for all in [
            "ws://0.0.0.0:8080",
            "ws://[::]:8080",
            "ws://[::ffff:0.0.0.0]:8080",
        ] {
            let derived = |host: &str| url(all, false).derived(&request(CLIENT, &[("host", host)]));
            assert_eq!(
                derived("192.168.1.7:8080").as_deref(),
                Some("ws://192.168.1.7:8080"),
                "{all}"
            );
            assert_eq!(
                derived("Meet.example.org").as_deref(),
                Some("ws://meet.example.org")
            );
            assert_eq!(
                derived("meet.example.org:80").as_deref(),
                Some("ws://meet.example.org")
            );
            assert_eq!(
                derived("[2001:db8::1]:8080").as_deref(),
                Some("ws://[2001:db8::1]:8080")
            );
            let too_long = format!("{}.org", "a".repeat(300));
            for bad in [
                "0.0.0.0:8080",
                "[::]:8080",
                "a@b",
                "a/b",
                "a;b",
                "a,b",
                "*.org",
                "a b",
                "",
                ":8080",
                "a:99999",
                &too_long,
            ] {
                assert_eq!(derived(bad), None, "{bad}");
            }
        }
        assert_eq!(
            url("ws://0.0.0.0:8080", false).derived(&request(CLIENT, &[])),
            None
        );
        let two = request(CLIENT, &[("host", "a.org"), ("host", "b.org")]);
        assert_eq!(url("ws://0.0.0.0:8080", false).derived(&two), None);
        let secure =
            url("wss://0.0.0.0:8443", true).derived(&request(CLIENT, &[("host", "a.org:8443")]));
        assert_eq!(secure.as_deref(), Some("wss://a.org:8443"));
    }

    #[test]
    fn a_url_that_clients_can_use_is_fixed() {
        for fixed in [
            "wss://meet.example.org",
            "ws://127.0.0.1:8080",
            "ws://[::1]:8080",
            "ws://10.0.0.1",
        ] {
            let derived = url(fixed, false).derived(&request(CLIENT, &[("host", "evil.example")]));
            assert_eq!((derived, &**url(fixed, false).fixed()), (None, fixed));
        }
    }

    #[test]
    fn a_trusted_proxy_says_by_which_host_and_scheme_its_client_came() {
        let headers = [
            ("host", "10.0.0.9:8080"),
            ("x-forwarded-host", "meet.example.org"),
            ("x-forwarded-proto", "https"),
        ];
        let derived = |peer, headers: &[(&'static str, &str)]| {
            url("ws://0.0.0.0:8080", false).derived(&request(peer, headers))
        };
        assert_eq!(
            derived(PROXY, &headers).as_deref(),
            Some("wss://meet.example.org")
        );
        assert_eq!(
            derived(CLIENT, &headers).as_deref(),
            Some("ws://10.0.0.9:8080"),
            "anyone else is not believed"
        );
        let kept = [("host", "meet.example.org"), ("x-forwarded-proto", "https")];
        assert_eq!(
            derived(PROXY, &kept).as_deref(),
            Some("wss://meet.example.org")
        );
        let with_port = [
            ("host", "x"),
            ("x-forwarded-host", "a.org, b.org"),
            ("x-forwarded-port", "8443"),
            ("x-forwarded-proto", "https, http"),
        ];
        assert_eq!(
            derived(PROXY, &with_port).as_deref(),
            Some("wss://a.org:8443")
        );
        let malformed = [
            ("host", "a.org"),
            ("x-forwarded-host", "a b"),
            ("x-forwarded-proto", "gopher"),
        ];
        assert_eq!(derived(PROXY, &malformed).as_deref(), Some("ws://a.org"));
    }

    #[test]
    fn an_operator_at_the_admin_listener_is_given_the_port_of_the_api() {
        let derived = |fixed: &str| {
            url(fixed, false).derived_on_port(&request(CLIENT, &[("host", "127.0.0.1:8081")]), 8080)
        };
        assert_eq!(
            derived("ws://0.0.0.0:8080").as_deref(),
            Some("ws://127.0.0.1:8080")
        );
        assert_eq!(derived("ws://127.0.0.1:8080"), None);
    }
}
