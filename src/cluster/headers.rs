//! Headers of forwarded messages: hop-by-hop headers are removed, and the client's address is added.

use actix_web::HttpRequest;
use actix_web::http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};

use crate::http::frame::credential::ROOM_TOKEN;
use crate::http::listener::client_address::TrustedProxies;
use crate::http::listener::forwarded::{FORWARDED_TO, NOT_ACTIVE, UNCONFIRMED};

/// Hop-by-hop headers (RFC 9110, section 7.6.1) and a body's framing, which is written anew. This node has handled `Expect` itself.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Headers in which proxies name the client they forward for. They are trusted only if they come from a trusted proxy.
const PROXY_HEADERS: [&str; 2] = ["forwarded", "x-real-ip"];
const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PREFIX: &str = "x-forwarded-";
/// Headers that a client must not remove by naming them in `Connection`, since the request would then mean something else.
const END_TO_END: [&str; 3] = ["authorization", "host", ROOM_TOKEN];

/// Returns the request headers that are sent to the active node.
pub(super) fn for_request(request: &HttpRequest, proxies: &TrustedProxies) -> HeaderMap {
    // Canonical, since a dual-stack socket reports IPv4 clients as mapped IPv6 addresses.
    let peer = request.peer_addr().map(|peer| peer.ip().to_canonical());
    let is_from_proxy = peer.is_some_and(|peer| proxies.contains(peer));
    // `Connection` may declare further headers as hop-by-hop (RFC 9110, section 7.6.1).
    let mut named = named_in_connection(request.headers());
    named.retain(|name| !END_TO_END.contains(&name.as_str()));
    let mut headers = HeaderMap::with_capacity(request.headers().len() + 4);
    for (name, value) in request.headers() {
        let text = name.as_str();
        let is_claim = PROXY_HEADERS.contains(&text) || text.starts_with(FORWARDED_PREFIX);
        if is_hop_by_hop(text, &named) || text == FORWARDED_FOR || (is_claim && !is_from_proxy) {
            continue;
        }
        // Appended, since a header may occur several times.
        headers.append(name.clone(), value.clone());
    }
    // This node determines the address itself and replaces the list. The active node trusts this node, so it would trust the list, too.
    let client = proxies
        .client_ip(request)
        .and_then(|client| HeaderValue::try_from(client.to_string()).ok());
    if let Some(client) = client {
        headers.insert(HeaderName::from_static(FORWARDED_FOR), client);
    }
    headers
}

/// Marks a request as sent to the node with this epoch.
pub(super) fn mark(headers: &mut HeaderMap, epoch: i64) {
    headers.insert(HeaderName::from_static(FORWARDED_TO), epoch.into());
}

/// Returns the response headers that are sent to the client.
pub(super) fn for_response(headers: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let named = named_in_connection(headers);
    let forwarded = headers
        .iter()
        .filter(move |(name, _)| !is_hop_by_hop(name.as_str(), &named));
    forwarded.map(|(name, value)| (name.clone(), value.clone()))
}

fn named_in_connection(headers: &HeaderMap) -> Vec<String> {
    values_of(headers.get_all(CONNECTION).map(HeaderValue::as_bytes))
}

fn values_of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    // A name that is not UTF-8 cannot be a header's name.
    let texts = values.filter_map(|value| std::str::from_utf8(value).ok());
    texts
        .flat_map(|text| text.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

fn is_hop_by_hop(name: &str, named: &[String]) -> bool {
    // A client must not see or forge the headers that nodes send to each other.
    let is_own = [FORWARDED_TO, NOT_ACTIVE, UNCONFIRMED].contains(&name);
    is_own
        || HOP_BY_HOP.contains(&name)
        || name.starts_with("proxy-")
        || named.iter().any(|named| named == name)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn sent(peer: &str, headers: &[(&'static str, &'static str)]) -> Vec<(String, String)> {
        let proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let request = TestRequest::default().peer_addr(format!("{peer}:1").parse().unwrap());
        let request = headers
            .iter()
            .fold(request, |request, header| request.append_header(*header));
        let sent = for_request(&request.to_http_request(), &proxies);
        let texts = sent
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let mut texts: Vec<_> = texts.collect();
        texts.sort();
        texts
    }

    fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_belongs_to_the_connection_is_left_out_with_what_it_names() {
        let headers = [
            ("connection", "close, X-Own"),
            ("keep-alive", "timeout=5"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
            ("proxy-authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("conclave-passed-on", "7"),
            ("accept", "a"),
            ("accept", "b"),
        ];
        let expected = pairs(&[
            ("accept", "a"),
            ("accept", "b"),
            ("x-forwarded-for", "203.0.113.9"),
        ]);
        assert_eq!(sent("203.0.113.9", &headers), expected);
    }

    #[test]
    fn a_client_is_not_believed_about_its_address_and_removes_no_credential() {
        let forged = [
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=198.51.100.1"),
            ("x-real-ip", "198.51.100.1"),
            ("connection", "x-forwarded-for, authorization"),
            ("authorization", "Bearer k"),
        ];
        let expected = pairs(&[
            ("authorization", "Bearer k"),
            ("x-forwarded-for", "203.0.113.9"),
        ]);
        assert_eq!(sent("203.0.113.9", &forged), expected);
    }

    #[test]
    fn a_trusted_proxy_is_believed() {
        let forwarded = [
            ("x-forwarded-for", "198.51.100.1, 10.0.0.9"),
            ("x-forwarded-proto", "https"),
        ];
        let expected = pairs(&[
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(sent("10.0.0.2", &forwarded), expected);
    }

    #[test]
    fn a_response_keeps_all_but_what_belongs_to_the_connection() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "x-own"),
            ("x-own", "1"),
            ("location", "/whip/session/a"),
            ("set-cookie", "a"),
            ("set-cookie", "b"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let forwarded = for_response(&headers);
        let mut texts: Vec<_> = forwarded
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        texts.sort();
        assert_eq!(
            texts,
            [
                "location: /whip/session/a",
                "set-cookie: a",
                "set-cookie: b"
            ]
        );
    }
}
