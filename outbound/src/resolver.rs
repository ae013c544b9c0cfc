//! Name resolution with an address check before each connection.
//!
//! Checking a URL at registration is not enough: a name may resolve to another address by the time
//! of the request, or between check and connection. The filter is therefore part of the resolver
//! that the HTTP client calls for each attempt, and the client connects to its result. Literal
//! addresses take the same path. [`check_url`] only serves to report the error early.

use std::net::{Ipv4Addr, ToSocketAddrs as _};

use conclave_model::address::AddressFilter;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use url::Url;

/// Resolver with an [`AddressFilter`].
#[derive(Debug)]
pub struct FilteredResolver<R = DefaultResolver> {
    filter: AddressFilter,
    system: R,
}

impl FilteredResolver {
    /// Creates a resolver on top of the system's resolver.
    pub fn new(filter: AddressFilter) -> Self {
        Self::with_resolver(DefaultResolver::default(), filter)
    }
}

impl<R> FilteredResolver<R> {
    /// Creates a resolver on top of another one.
    pub const fn with_resolver(system: R, filter: AddressFilter) -> Self {
        Self { filter, system }
    }
}

impl<R: Resolver> Resolver for FilteredResolver<R> {
    /// Resolves a host. One forbidden address rejects them all: a name that mixes public and
    /// internal addresses is a mistake or an attack, and chance would decide which one is dialled.
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self
            .system
            .resolve(uri, config, timeout)
            .map_err(lookup_error)?;
        if found
            .iter()
            .all(|address| self.filter.permits(address.ip()))
        {
            return Ok(found);
        }
        // ureq has no error for this; callers recognize the type.
        Err(ureq::Error::Other(
            AddressBlocked {
                host: uri.host().unwrap_or_default().to_owned(),
            }
            .into(),
        ))
    }
}

/// Maps a failed lookup, which the system reports as an I/O error, like a failed connection.
fn lookup_error(error: ureq::Error) -> ureq::Error {
    match error {
        ureq::Error::Io(_) => ureq::Error::HostNotFound,
        other => other,
    }
}

/// The host is, or resolves to, a forbidden address. The error names only the host: the address
/// would reveal how names resolve in the operator's network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("address blocked: {host}")]
pub struct AddressBlocked {
    /// Host as written in the URL.
    pub host: String,
}

/// Error when a URL cannot be used for a webhook endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not an http(s) URL with a host; holds the reason.
    #[error("{0}")]
    Invalid(&'static str),
    /// The host is, or resolves to, a forbidden address.
    #[error("the url resolves to an address that is not public")]
    Blocked,
}

/// Checks a webhook endpoint's URL at registration.
///
/// A name that does not resolve is accepted: it may exist at the first event; otherwise, the
/// delivery shows the failure. Blocks for as long as the system's resolver takes.
///
/// # Errors
/// [`UrlError::Invalid`] if the text is not a usable URL, [`UrlError::Blocked`] if `filter` forbids
/// any of its addresses.
pub fn check_url(url: &str, filter: &AddressFilter) -> Result<Url, UrlError> {
    let url = parse_url(url)?;
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    if permits_host(host, port, filter) {
        Ok(url)
    } else {
        Err(UrlError::Blocked)
    }
}

/// Returns whether `filter` permits all addresses of a host (IPv6 addresses in brackets). A name
/// that does not resolve is permitted. Blocks for as long as the system's resolver takes.
pub fn permits_host(host: &str, port: u16, filter: &AddressFilter) -> bool {
    // A trailing dot does not change the target, but keeps some resolvers from recognizing an
    // address.
    let host = host.strip_suffix('.').unwrap_or(host);
    // The system's resolver, as ureq's default one uses it.
    let found = format!("{host}:{port}")
        .to_socket_addrs()
        .map(Vec::from_iter)
        .unwrap_or_default();
    // Not all resolvers know these names, but the one at delivery may.
    if found.is_empty() && is_loopback_name(host) {
        return filter.permits(Ipv4Addr::LOCALHOST.into());
    }
    found.iter().all(|address| filter.permits(address.ip()))
}

/// Returns whether some resolver maps a name to this machine (RFC 6761, section 6.3, and common
/// hosts files).
fn is_loopback_name(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "localhost"
        || host.ends_with(".localhost")
        || host == "ip6-localhost"
        || host == "ip6-loopback"
}

/// Parses an http(s) URL with a host and without credentials. Does not resolve the host.
///
/// # Errors
/// with [`UrlError::Invalid`].
pub fn parse_url(url: &str) -> Result<Url, UrlError> {
    // The parser silently repairs a missing authority, and other parsers repair it differently.
    let rest = url
        .split_once(':')
        .and_then(|(_, rest)| rest.strip_prefix("//"))
        .unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(UrlError::Invalid("must be an absolute http or https url"));
    }
    // Url::parse strips or converts these, so the checked URL would differ from the stored text.
    if url.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(UrlError::Invalid(
            "must not hold white space, control characters or backslashes",
        ));
    }
    let url =
        Url::parse(url).map_err(|_| UrlError::Invalid("must be an absolute http or https url"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::Invalid("must be an http or https url"));
    }
    if url
        .host_str()
        // Empty labels are invalid in DNS.
        .is_none_or(|host| host.is_empty() || host.starts_with('.') || host.contains(".."))
    {
        return Err(UrlError::Invalid("must name a host"));
    }
    // Checked in the text: the parser would accept empty credentials.
    if authority.contains('@') {
        return Err(UrlError::Invalid("must not hold a user name or password"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> UrlError {
        check_url(url, &AddressFilter::default()).expect_err(url)
    }

    fn resolve(url: &str, filter: AddressFilter) -> Result<Vec<String>, String> {
        let uri: Uri = url.parse().unwrap();
        let config = ureq::Agent::config_builder().proxy(None).build();
        let found = FilteredResolver::new(filter).resolve(&uri, &config, NextTimeout::default());
        found
            .map(|all| all.iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string())
    }

    /// Proves R-41.
    #[test]
    fn a_text_that_is_no_http_url_with_a_host_is_invalid() {
        for url in [
            "",
            "example.com/hook",
            "ftp://example.com",
            "file:///etc/passwd",
            "http://",
            "https://:443/",
            "/x",
        ] {
            assert!(matches!(refusal(url), UrlError::Invalid(_)), "{url}");
        }
        for url in [
            "http:///x",
            "https:1.1.1.1",
            "http:/1.1.1.1",
            "https:/1.1.1.1/https://1.1.1.1/x",
            " http://1.1.1.1/x",
            "http://1.1.1.1/a b",
            "http://1.1.1.1/\n",
            "ht\ntp://1.1.1.1/",
            "http:\\\\1.1.1.1\\x",
            "http://1.1.1.1\\@10.0.0.1/",
            "http://a..b/",
        ] {
            assert!(matches!(refusal(url), UrlError::Invalid(_)), "{url}");
        }
        for url in ["http://1.1.1.1/\u{1}", "http://1.1.1.1/\\x"] {
            let reason = "must not hold white space, control characters or backslashes";
            assert_eq!(refusal(url), UrlError::Invalid(reason), "{url:?}");
        }
        assert_eq!(
            refusal("http://.example.com/"),
            UrlError::Invalid("must name a host")
        );
        for url in [
            "https://user@example.com/",
            "https://:word@example.com/",
            "http://127.0.0.1@8.8.8.8/",
            "https://@8.8.8.8",
            "https://:@8.8.8.8/",
        ] {
            assert_eq!(
                refusal(url),
                UrlError::Invalid("must not hold a user name or password"),
                "{url}"
            );
        }
    }

    #[test]
    fn every_spelling_of_an_internal_address_is_blocked() {
        let hosts = "127.0.0.1 127.1 2130706433 0x7f000001 0177.0.0.1 0 10.0.0.1:8080 169.254.169.254 localhost \
                     127.0.0.1. localhost. LOCALHOST a.localhost ip6-localhost \
                     [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [fe80::1] [fd00::1] [64:ff9b::7f00:1] [2002:7f00:1::]";
        for host in hosts.split_whitespace() {
            assert_eq!(
                refusal(&format!("http://{host}/hook")),
                UrlError::Blocked,
                "{host}"
            );
        }
    }

    #[test]
    fn public_addresses_and_names_that_do_not_resolve_are_accepted() {
        for url in [
            "https://8.8.8.8/hook",
            "http://[2606:4700:4700::1111]:8080/",
            "https://nowhere.invalid/hook?a=1",
        ] {
            assert_eq!(
                check_url(url, &AddressFilter::default()).unwrap().as_str(),
                url
            );
        }
    }

    #[test]
    fn an_allowed_network_is_accepted() {
        let filter = AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]);
        assert!(check_url("http://127.0.0.1:9/", &filter).is_ok());
        assert_eq!(
            check_url("http://[::1]:9/", &filter),
            Err(UrlError::Blocked)
        );
    }

    #[test]
    fn the_resolver_checks_literals_and_names_alike() {
        for host in ["127.0.0.1", "[::1]", "localhost", "2130706433"] {
            let blocked = format!("other: address blocked: {host}");
            assert_eq!(
                resolve(&format!("http://{host}:9/"), AddressFilter::default()),
                Err(blocked)
            );
        }
        let filter = AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]);
        assert_eq!(
            resolve("http://127.0.0.1:9/", filter),
            Ok(vec!["127.0.0.1:9".to_owned()])
        );
        assert_eq!(
            resolve("https://8.8.8.8/", AddressFilter::default()),
            Ok(vec!["8.8.8.8:443".to_owned()])
        );
    }

    #[test]
    fn a_name_that_does_not_resolve_differs_from_a_connection_that_fails() {
        assert_eq!(
            resolve("http://nowhere.invalid/", AddressFilter::default()),
            Err("host not found".to_owned())
        );
    }
}
