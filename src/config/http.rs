//! Sections `http`, `admin` and `limits`: the API listener, the admin listener and the request rates.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use conclave_model::Secret;
use conclave_model::settings::{Rule, TextSetting};
use ipnet::IpNet;
use rustls::pki_types::DnsName;
use url::{Host, Url};

conclave_model::settings! {
    /// API listener: /v1/*, /ext/v1/*, /openapi.json, /ext/openapi.json, /healthz.
    pub struct HttpConfig {
        /// Address and port of the API; 0 for any free port.
        ///
        /// The default is reachable from this machine only.
        pub listen: SocketAddr = (Ipv4Addr::LOCALHOST, 8080).into();
        /// Number of worker threads; 0 for one per core.
        pub workers: usize = 0, Rule::THREADS;
        /// Maximum number of open connections. Further connections are closed, as are more than 1024 from one address.
        ///
        /// An IPv6 /64 network counts as one address. The limit per address does not apply to loopback addresses and trusted proxies. The
        /// server uses a lower maximum if the process may open fewer files.
        pub max_connections: u32 = 16_384, Rule::COUNT;
        /// Maximum number of requests that run or wait, for all projects. Further requests get 503.
        pub max_requests: u32 = 4_096, Rule::COUNT;
        /// Time limit for a client to send a request's body (then 408), and to read the next part of a response.
        pub request_timeout: Duration = Duration::from_secs(15);
        /// Time for which an idle connection stays open.
        ///
        /// Use a longer time than the reverse proxy in front of this server.
        pub keep_alive: Duration = Duration::from_secs(75);
        /// Networks of reverse proxies whose X-Forwarded-For is trusted, such as "10.0.0.0/8". See [Reverse proxies](reverse-proxies.md).
        pub trusted_proxies: Vec<IpNet> = Vec::new();
        /// Browser origins that may call all operations with an API key, such as "https://console.example.org".
        pub console_origins: Vec<Origin> = Vec::new();
        /// Browser origins that may call the moderation operations with a room token, and exchange room codes.
        pub browser_origins: Vec<Origin> = Vec::new();
        /// Call page at /call, which joins a call with a room code.
        ///
        /// With `conclave dev`, the page can also open rooms. Browsers allow camera and microphone only on pages at https or localhost.
        pub call_page: bool = false;
        /// Browser origins whose pages may embed the call page in a frame, such as "https://www.example.org"; "http://localhost:*" for all
        /// ports of localhost. See [Calls in your own page](embedding.md).
        ///
        /// With at least one, the server provides /embed.js.
        pub embed_origins: Vec<EmbedOrigin> = Vec::new();
        /// Folder with the library for background blur in the call page, as `scripts/effects` writes it. See
        /// [Background blur](embedding.md#background-blur).
        ///
        /// Without it, the page does not offer blur. The files are read when the server starts.
        pub call_effects: Option<PathBuf> = None;
    }
}

conclave_model::settings! {
    /// Admin listener: console, health checks, documentation, SDKs, metrics, debug endpoints, sandbox.
    pub struct AdminConfig {
        /// Address and port of the admin listener; 0 for any free port. Do not expose it to the public. At the limit of 1024 connections,
        /// the listener closes the longest-idle connection of the client that holds the most.
        pub listen: SocketAddr = (Ipv4Addr::LOCALHOST, 8081).into();
        /// Bearer token for admin requests. Required for the console, except in `conclave dev`, and if admin.listen is not a loopback
        /// address.
        ///
        /// Operators sign in to the console with it. Health checks, documentation and the SDKs need no token.
        pub token: Option<Secret> = None, Rule::MinLength(16, "since it could be guessed");
        /// Hosts, besides loopback ones, to which admin requests without a token may be sent, such as "conclave.internal".
        ///
        /// Without this check, any web page could send requests through an operator's browser. /healthz, /readyz and /metrics are available
        /// at any host.
        pub hosts: Vec<HostName> = Vec::new();
    }
}

conclave_model::settings! {
    /// Request rates, per API key, and per address (or IPv6 /64 network) for calls without a valid key; and concurrent requests per
    /// project.
    pub struct LimitsConfig {
        /// Sustained requests per second.
        pub requests_per_second: u32 = 20, Rule::COUNT;
        /// Burst of requests, for example when a page loads.
        pub burst: u32 = 40, Rule::COUNT;
        /// Maximum number of a project's requests that run at once; one per core while other projects are active.
        pub project_running: u32 = 64, Rule::COUNT;
        /// Maximum number of a project's requests that wait for a slot, for at most a second. Further requests, and requests that have
        /// waited that long, get 429.
        pub project_waiting: u32 = 256, Rule::COUNT;
        /// Sustained room code exchanges per second, per address and per code.
        ///
        /// Low, so that codes cannot be guessed. Exchanges do not count towards the request rates above.
        pub exchange_per_second: u32 = 1, Rule::COUNT;
        /// Burst of room code exchanges.
        pub exchange_burst: u32 = 5, Rule::COUNT;
    }
}

impl HttpConfig {
    /// Returns the number of worker threads.
    pub fn worker_threads(&self) -> usize {
        if self.workers == 0 {
            // Respects CPU affinity and cgroup quotas, as containers have them.
            available_parallelism().map_or(1, usize::from)
        } else {
            self.workers
        }
    }
}

/// Web origin as browsers send it: `scheme://host[:port]` in lower case, without a default port.
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
            // `Url` adds the path `/` itself, so only the text shows whether the operator wrote one.
            && !text.ends_with('/');
        let has_no_user = url.username().is_empty() && url.password().is_none();
        // Pages with other schemes have opaque origins, which browsers send as `null`.
        if matches!(url.scheme(), "http" | "https") && has_no_path && has_no_user && is_plain(&url)
        {
            // Without a default port and with an ASCII host, as browsers send it.
            Ok(Self(url.origin().ascii_serialization()))
        } else {
            Err(wrong())
        }
    }

    fn format(&self) -> String {
        self.0.clone()
    }
}

/// Origin of a page that may embed the call page: one origin, or with `:*` every port of a loopback host, since development servers choose
/// their ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedOrigin(String);

impl EmbedOrigin {
    /// Suffix for every port.
    const ANY_PORT: &'static str = ":*";
    /// Hosts that may have it, as in content security policies.
    const LOOPBACK: [&'static str; 2] = ["localhost", "127.0.0.1"];

    /// Returns every port of this machine, without TLS.
    pub fn loopback() -> Vec<Self> {
        Self::LOOPBACK
            .map(|host| Self(format!("http://{host}{}", Self::ANY_PORT)))
            .into()
    }

    /// Returns the origin as a source in a content security policy.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a browser's origin is this one, or has this host at any port.
    pub fn includes(&self, origin: &Origin) -> bool {
        let Some(host) = self.0.strip_suffix(Self::ANY_PORT) else {
            return self.0 == origin.0;
        };
        let port = origin.0.strip_prefix(host);
        // The colon keeps `http://localhost.example.org` from matching `http://localhost`.
        // A browser omits the default port.
        port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
    }
}

impl TextSetting for EmbedOrigin {
    const EXPECTED: &'static str =
        "an origin such as \"https://www.example.org\", or \"http://localhost:*\" for every port";

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be {}, not {text:?}", Self::EXPECTED);
        let Some(host) = text.strip_suffix(Self::ANY_PORT) else {
            return Origin::parse(text)
                .map(|origin| Self(origin.0))
                .map_err(|_| wrong());
        };
        let origin = Origin::parse(host).map_err(|_| wrong())?;
        // On another host, any program that can open a port could embed the page.
        let is_loopback = origin
            .0
            .split_once("://")
            .is_some_and(|(_, host)| Self::LOOPBACK.contains(&host));
        if is_loopback {
            Ok(Self(origin.0 + Self::ANY_PORT))
        } else {
            Err(wrong())
        }
    }

    fn format(&self) -> String {
        self.0.clone()
    }
}

/// Returns whether the host has no character with a meaning in headers or markup.
fn is_plain(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    })
}

/// Host in a `Host` header, without its port: a name in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(Host);

impl HostName {
    /// Parses a name or an address; an IPv6 address may be in brackets. `None` for anything else, such as a host with a port.
    pub fn parse(text: &str) -> Option<Self> {
        let address = || {
            text.parse::<IpAddr>()
                .ok()
                .map(|address| address.to_string())
        };
        // `url` accepts IPv6 addresses only in brackets.
        let bracketed = address()
            .filter(|_| text.contains(':'))
            .map(|address| format!("[{address}]"));
        let host = Host::parse(bracketed.as_deref().unwrap_or(text)).ok()?;
        Some(Self(host))
    }

    /// Returns whether it is this machine: `localhost`, or a loopback address.
    pub fn is_loopback(&self) -> bool {
        match &self.0 {
            // `url` has converted it to lower case.
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            // Includes the IPv4-mapped `::ffff:127.0.0.1`.
            Host::Ipv6(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Returns a single host's name; `None` for an address and for a wildcard.
    pub fn domain(&self) -> Option<&str> {
        let Host::Domain(name) = &self.0 else {
            return None;
        };
        // A certificate names no host with the final dot of the root domain.
        let is_name = DnsName::try_from(name.as_str()).is_ok() && !name.ends_with('.');
        is_name.then_some(name)
    }
}

impl fmt::Display for HostName {
    /// Writes the host as in a URL: an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TextSetting for HostName {
    const EXPECTED: &'static str =
        "a host without a port such as \"conclave.internal\" or \"10.0.0.5\"";

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| format!("must be {}, not {text:?}", Self::EXPECTED))
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-34.
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

    #[test]
    fn hosts_are_compared_in_one_form() {
        let same = |one: &str, other: &str| {
            HostName::parse(one).unwrap() == HostName::parse(other).unwrap()
        };
        assert!(same("Conclave.Internal", "conclave.internal"));
        assert!(same("fd00::1", "[FD00:0::1]"));
        assert!(!same("conclave.internal", "internal"));
        for wrong in [
            "",
            "a b",
            "conclave.internal:8081",
            "http://conclave.internal",
            "[fd00::1]:80",
            "user@localhost",
        ] {
            assert_eq!(HostName::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_domain_is_the_name_of_a_single_host() {
        let domain = |text: &str| {
            HostName::parse(text).and_then(|host| host.domain().map(ToOwned::to_owned))
        };
        assert_eq!(
            domain("Meet.Example.org").as_deref(),
            Some("meet.example.org")
        );
        assert_eq!(
            domain("b\u{fc}ro.example").as_deref(),
            Some("xn--bro-hoa.example")
        );
        for other in [
            "*.example.org",
            "192.0.2.1",
            "[2001:db8::1]",
            "example.org.",
            "a..b",
            "..",
            "a/b",
            "-a.example",
        ] {
            assert_eq!(domain(other), None, "{other}");
        }
    }

    #[test]
    fn loopback_is_a_name_or_an_address() {
        let is_loopback = |text: &str| HostName::parse(text).unwrap().is_loopback();
        for own in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "127.8.9.1",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(own), "{own}");
        }
        for foreign in [
            "localhost.example",
            "127.0.0.1.example",
            "10.0.0.1",
            "::",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(foreign), "{foreign}");
        }
    }
}
