//! The two listeners, and how often callers may call.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::available_parallelism;

use conclave_model::Secret;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use url::Url;

use super::text::{self, FromText};

/// Settings of the API listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Address and port; port 0 is any free one.
    #[serde(with = "text::one")]
    pub listen: SocketAddr,
    /// Threads that serve; 0 is one a core. See [`HttpConfig::worker_threads`].
    pub workers: usize,
    /// Peers whose forwarded client address is believed.
    #[serde(with = "text::list")]
    pub trusted_proxies: Vec<IpNet>,
    /// Origins of consoles: they may make every call from a browser.
    #[serde(with = "text::list")]
    pub console_origins: Vec<Origin>,
    /// Origins that may make the moderation calls and the code exchange from a browser.
    #[serde(with = "text::list")]
    pub browser_origins: Vec<Origin>,
}

/// Settings of the admin listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address and port; port 0 is any free one.
    #[serde(with = "text::one")]
    pub listen: SocketAddr,
    /// What admin requests must carry as a bearer token. Needed unless the listener is loopback's.
    #[serde(with = "text::optional")]
    pub token: Option<Secret>,
}

/// How often callers may call: token buckets, one an API key, and one an address for calls without a valid key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Requests a second, in the long run.
    pub requests_per_second: u32,
    /// Requests at once.
    pub burst: u32,
    /// Code exchanges a second, in the long run, for each address and for each code.
    pub exchange_per_second: u32,
    /// Code exchanges at once.
    pub exchange_burst: u32,
}

/// A web origin, as browsers send it: `scheme://host[:port]`, lower case, without a default port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin(String);

impl Origin {
    /// The origin as browsers send it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromText for Origin {
    const WHAT: &'static str = "an origin such as \"https://console.example.org\" or \"http://localhost:3000\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be {}, not {text:?}", Self::WHAT);
        let url = Url::parse(text).map_err(|_| wrong())?;
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && !text.ends_with('/');
        let nobody = url.username().is_empty() && url.password().is_none();
        if matches!(url.scheme(), "http" | "https") && bare && nobody {
            Ok(Self(url.origin().ascii_serialization()))
        } else {
            Err(wrong())
        }
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

impl HttpConfig {
    /// How many threads serve.
    #[must_use]
    pub fn worker_threads(&self) -> usize {
        if self.workers == 0 { available_parallelism().map_or(1, usize::from) } else { self.workers }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            workers: 0,
            trusted_proxies: Vec::new(),
            console_origins: Vec::new(),
            browser_origins: Vec::new(),
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 8081).into(), token: None }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { requests_per_second: 20, burst: 40, exchange_per_second: 1, exchange_burst: 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_kept_as_browsers_send_it() {
        let kept = |text| Origin::from_text(text).map(|origin| origin.0);
        assert_eq!(kept("HTTPS://Console.Example.org:443"), Ok("https://console.example.org".into()));
        assert_eq!(kept("http://localhost:3000"), Ok("http://localhost:3000".into()));
        for wrong in ["*", "null", "example.org", "https://a.org/", "https://a.org/x", "ftp://a.org", "https://u@a.org"]
        {
            assert!(kept(wrong).is_err(), "{wrong}");
        }
    }
}
