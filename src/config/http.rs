//! Settings of the API listener, the admin listener and the request rates.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::available_parallelism;
use std::time::Duration;

use conclave_model::Secret;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use url::Url;

use super::host::HostName;
use super::text::{self, TextSetting};

/// Section `http`: the API listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Address and port. Port 0 takes any free port.
    #[serde(with = "text::required")]
    pub listen: SocketAddr,
    /// Number of worker threads; 0 is one for each core. See [`HttpConfig::worker_threads`].
    pub workers: usize,
    /// Maximum number of open connections. A connection beyond it is closed.
    pub max_connections: u32,
    /// Maximum number of requests that are handled or wait, of all projects. One beyond it is refused.
    pub max_requests: u32,
    /// Time that a client has to send a request, or to read a part of its response.
    #[serde(with = "text::required")]
    pub request_timeout: Duration,
    /// Time for which a connection may be idle between two requests. It is closed then.
    #[serde(with = "text::required")]
    pub keep_alive: Duration,
    /// Networks of reverse proxies whose `X-Forwarded-For` is trusted.
    #[serde(with = "text::list")]
    pub trusted_proxies: Vec<IpNet>,
    /// Browser origins that may call every operation.
    #[serde(with = "text::list")]
    pub console_origins: Vec<Origin>,
    /// Browser origins that may call the moderation operations and the room code exchange.
    #[serde(with = "text::list")]
    pub browser_origins: Vec<Origin>,
    /// Serves a page at `/call` that joins a call with a room code.
    pub call_page: bool,
    /// Browser origins whose pages may show the call page in a frame.
    #[serde(with = "text::list")]
    pub embed_origins: Vec<Origin>,
}

/// Section `admin`: the admin listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address and port. Port 0 takes any free port.
    #[serde(with = "text::required")]
    pub listen: SocketAddr,
    /// Bearer token of admin requests. Required unless the listener is on a loopback address.
    #[serde(with = "text::optional")]
    pub token: Option<Secret>,
    /// Hosts that requests may be sent to, besides loopback ones. Not used if there is a token.
    #[serde(with = "text::list")]
    pub hosts: Vec<HostName>,
}

/// Section `limits`: token buckets for each API key, and for each address that calls without a valid key; and the requests of
/// each project at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Sustained requests per second.
    pub requests_per_second: u32,
    /// Burst of requests.
    pub burst: u32,
    /// Requests of a project that are handled at once; while other projects send requests, at most one for each core. Further ones
    /// wait for their turn.
    pub project_running: u32,
    /// Requests of a project that wait. One beyond it is refused.
    pub project_waiting: u32,
    /// Sustained room code exchanges per second, for each address and for each code.
    pub exchange_per_second: u32,
    /// Burst of room code exchanges.
    pub exchange_burst: u32,
}

/// A web origin as browsers send it: `scheme://host[:port]` in lower case, without a default port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin(String);

impl Origin {
    /// Returns the origin as browsers send it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextSetting for Origin {
    const EXPECTED: &'static str =
        "an origin such as \"https://console.example.org\" or \"http://localhost:3000\"";

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be {}, not {text:?}", Self::EXPECTED);
        let url = Url::parse(text).map_err(|_| wrong())?;
        let has_no_path = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && !text.ends_with('/');
        let has_no_user = url.username().is_empty() && url.password().is_none();
        if matches!(url.scheme(), "http" | "https") && has_no_path && has_no_user && is_plain(&url)
        {
            Ok(Self(url.origin().ascii_serialization()))
        } else {
            Err(wrong())
        }
    }

    fn format(&self) -> String {
        self.0.clone()
    }
}

/// Whether the host has no character that means something in a header or in markup.
fn is_plain(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    })
}

impl HttpConfig {
    /// Returns the number of worker threads.
    pub fn worker_threads(&self) -> usize {
        if self.workers == 0 {
            available_parallelism().map_or(1, usize::from)
        } else {
            self.workers
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            workers: 0,
            max_connections: 16_384,
            max_requests: 4_096,
            request_timeout: Duration::from_secs(15),
            keep_alive: Duration::from_secs(75),
            trusted_proxies: Vec::new(),
            console_origins: Vec::new(),
            browser_origins: Vec::new(),
            call_page: false,
            embed_origins: Vec::new(),
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8081).into(),
            token: None,
            hosts: Vec::new(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            requests_per_second: 20,
            burst: 40,
            project_running: 64,
            project_waiting: 256,
            exchange_per_second: 1,
            exchange_burst: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_normalised_to_what_browsers_send() {
        let parsed = |text| Origin::parse(text).map(|origin| origin.0);
        assert_eq!(
            parsed("HTTPS://Console.Example.org:443"),
            Ok("https://console.example.org".into())
        );
        assert_eq!(
            parsed("http://localhost:3000"),
            Ok("http://localhost:3000".into())
        );
        assert_eq!(parsed("http://[::1]:3000"), Ok("http://[::1]:3000".into()));
        for wrong in [
            "*",
            "null",
            "example.org",
            "https://a.org/",
            "https://a.org/x",
            "ftp://a.org",
            "https://u@a.org",
            "https://a.org;b.org",
            "https://a.org'",
            "https://*.a.org",
            "https://a\".org",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
