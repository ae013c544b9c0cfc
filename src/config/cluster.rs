//! Section `cluster`.

use std::net::SocketAddr;

use url::{Host, Url};

use super::{Config, ConfigError};

conclave_model::settings! {
    /// Cluster of servers with one PostgreSQL database. Each accepts requests: a standby forwards them to the active server.
    pub struct ClusterConfig {
        /// URL by which the other servers reach this server's API listener, such as "http://10.0.0.1:8080". Without it, a standby responds
        /// with 503.
        ///
        /// Port 0 stands for http.listen's port. http.trusted_proxies must contain the address of each server.
        pub url: Option<String> = None;
        /// URL by which operators reach this server's admin listener. The other servers' consoles link to it.
        pub admin_url: Option<String> = None;
    }
}

impl ClusterConfig {
    /// Returns the URL, with the API listener's port in place of port 0; `None` if there is none.
    #[must_use]
    pub fn url_at(&self, listener: SocketAddr) -> Option<String> {
        let mut url = Url::parse(self.url.as_deref()?).ok()?;
        // The port is known only once the listener is bound.
        if url.port() == Some(0) {
            url.set_port(Some(listener.port())).ok()?;
        }
        // A parsed URL has at least the path `/`, which would double the slash in front of a request's path.
        Some(url.as_str().trim_end_matches('/').to_owned())
    }
}

/// Validates the section, and its requirements on other sections.
pub(super) fn validate(config: &Config) -> Result<(), ConfigError> {
    if config
        .cluster
        .admin_url
        .as_deref()
        .is_some_and(|url| node_url(url).is_none())
    {
        let problem =
            "must be a URL such as \"http://10.0.0.1:8081\", without path, query and user";
        return Err(ConfigError::new("cluster.admin_url", problem));
    }
    // Without a URL, a server can still share the database, but its standbys forward nothing.
    let Some(text) = &config.cluster.url else {
        return Ok(());
    };
    let invalid = |problem: &str| Err(ConfigError::new("cluster.url", problem));
    let Some(url) = node_url(text) else {
        return invalid(
            "must be a URL such as \"http://10.0.0.1:8080\", without path, query and user",
        );
    };
    if !config.database.is_postgres() {
        return invalid(
            "must not be set without database.url or database.url_file: servers can only share a PostgreSQL database",
        );
    }
    validate_proxies(config, &url)
}

/// Checks that the servers are trusted proxies: a forwarded client address is trusted only if it comes from one.
fn validate_proxies(config: &Config, url: &Url) -> Result<(), ConfigError> {
    let proxies = &config.http.trusted_proxies;
    let missing = |problem: String| Err(ConfigError::new("http.trusted_proxies", problem));
    // Standbys are proxies to the active server; untrusted ones would hide all clients behind their own address.
    if proxies.is_empty() {
        return missing(
            "must contain the address of each server of the cluster, since cluster.url is set"
                .into(),
        );
    }
    let own = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        // Networks are compared in canonical form.
        Some(Host::Ipv6(address)) => std::net::IpAddr::from(address).to_canonical(),
        // A name may resolve differently on each server, so its addresses are not checked here.
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    if proxies.iter().any(|network| network.contains(&own)) {
        return Ok(());
    }
    missing(format!(
        "must contain {own}, the address in cluster.url, and each other server's address"
    ))
}

/// Parses a URL that has only a scheme, a host and a port.
fn node_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(Url::has_host)?;
    let names_a_host = matches!(url.scheme(), "http" | "https") && url.path() == "/";
    let has_more = url.query().is_some() || url.fragment().is_some() || !url.username().is_empty();
    (names_a_host && !has_more && url.password().is_none()).then_some(url)
}

#[cfg(test)]
mod tests {
    use conclave_model::Secret;

    use super::*;

    fn config(url: &str, proxies: &[&str]) -> Config {
        let mut config = Config::default();
        config.database.url = Some(Secret::new("postgres://127.0.0.1/records"));
        config.cluster.url = Some(url.into());
        config.http.trusted_proxies = proxies
            .iter()
            .map(|network| network.parse().unwrap())
            .collect();
        config
    }

    fn refusal(config: &Config) -> String {
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_node_has_a_url_without_a_path_a_shared_database_and_trusts_the_others() {
        for url in [
            "http://10.0.0.1:8080",
            "https://node-1.example.org",
            "http://[fd00::1]:80/",
        ] {
            config(url, &["10.0.0.0/8", "fd00::/8"]).validate().unwrap();
        }
        for url in [
            "10.0.0.1:8080",
            "ws://10.0.0.1",
            "http://10.0.0.1/v1",
            "http://a@10.0.0.1",
            "http://10.0.0.1?a",
        ] {
            assert!(
                refusal(&config(url, &["10.0.0.0/8"]))
                    .starts_with("cluster.url: must be a URL such as"),
                "{url}"
            );
        }
        let mut linked = config("http://10.0.0.1", &["10.0.0.0/8"]);
        linked.cluster.admin_url = Some("https://node-1.example.org:8081".into());
        linked.validate().unwrap();
        linked.cluster.admin_url = Some("javascript:alert(1)".into());
        assert!(refusal(&linked).starts_with("cluster.admin_url: must be a URL such as"));
        let mut alone = config("http://10.0.0.1", &["10.0.0.0/8"]);
        alone.database.url = None;
        assert!(refusal(&alone).starts_with("cluster.url: must not be set without database.url"));
    }

    #[test]
    fn the_proxies_that_are_trusted_contain_the_nodes() {
        assert!(
            refusal(&config("http://node-1", &[]))
                .starts_with("http.trusted_proxies: must contain the address of")
        );
        let others = refusal(&config("http://10.0.0.1", &["10.0.1.0/24"]));
        assert!(
            others.starts_with("http.trusted_proxies: must contain 10.0.0.1"),
            "{others}"
        );
        config("http://node-1", &["10.0.1.0/24"])
            .validate()
            .unwrap();
    }

    #[test]
    fn port_0_is_that_of_the_listener() {
        let at = |url: &str| {
            config(url, &[])
                .cluster
                .url_at("127.0.0.1:4711".parse().unwrap())
                .unwrap()
        };
        assert_eq!(at("http://10.0.0.1:0"), "http://10.0.0.1:4711");
        assert_eq!(at("http://10.0.0.1:8080/"), "http://10.0.0.1:8080");
        assert_eq!(at("https://node-1"), "https://node-1");
        assert_eq!(
            ClusterConfig::default().url_at("127.0.0.1:1".parse().unwrap()),
            None
        );
    }
}
