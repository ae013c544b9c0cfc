//! Where an RTMP url leads, as media servers and their clients read it.

use conclave_model::rtmp::RtmpUrl;

/// The ports of urls without one.
const RTMP_PORT: u16 = 1935;
const RTMPS_PORT: u16 = 443;

/// The receiver that a url names. Not shown anywhere, since it has the stream key.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The name or address of the host, without brackets.
    pub host: String,
    /// The TCP port; 1935, or 443 with TLS, if the URL has none.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// The url of the application, as `connect` has it.
    pub tc_url: String,
    /// The application, with its instance and query.
    pub application: String,
    /// The stream key, with its query; empty if the url has none.
    pub key: String,
}

impl Endpoint {
    /// Reads a url. A user name and a password in it are left out: they are for a kind of authentication that only some servers have.
    pub fn from_url(url: &RtmpUrl) -> Self {
        let (scheme, rest) = url.reveal().split_once("://").unwrap_or_default();
        let is_encrypted = scheme.eq_ignore_ascii_case("rtmps");
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let usual = if is_encrypted { RTMPS_PORT } else { RTMP_PORT };
        let port = port_of(authority).unwrap_or(usual);
        let (application, key) = match url.split_key() {
            Some(parts) => (parts.application, parts.key),
            None => (path.trim_start_matches('/'), ""),
        };
        let scheme = if is_encrypted { "rtmps" } else { "rtmp" };
        Self {
            host: url.host().trim_matches(['[', ']']).to_owned(),
            port,
            is_encrypted,
            tc_url: format!("{scheme}://{}:{port}/{application}", url.host()),
            application: application.to_owned(),
            key: key.to_owned(),
        }
    }
}

/// Returns the port of an authority, if it has one.
fn port_of(authority: &str) -> Option<u16> {
    let host = authority.rsplit('@').next()?;
    // The colons of an address in brackets are part of it.
    let behind = host.rsplit(']').next()?;
    behind.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_media_servers_and_their_clients_do() {
        for (url, host, port, tc_url, key) in [
            (
                "rtmp://a.example.com/live/key",
                "a.example.com",
                1935,
                "rtmp://a.example.com:1935/live",
                "key",
            ),
            (
                "RTMPS://a.example.com/live/k?a=/b#c",
                "a.example.com",
                443,
                "rtmps://a.example.com:443/live",
                "k?a=/b#c",
            ),
            (
                "rtmp://a:01936/app/instance/key",
                "a",
                1936,
                "rtmp://a:1936/app/instance",
                "key",
            ),
            (
                "rtmp://a:/live?token=b/key",
                "a",
                1935,
                "rtmp://a:1935/live?token=b",
                "key",
            ),
            (
                "rtmp://me:pass:@[2606:4700::1]/app/key",
                "2606:4700::1",
                1935,
                "rtmp://[2606:4700::1]:1935/app",
                "key",
            ),
            (
                "rtmp://[2606:4700::1]:99/app/key",
                "2606:4700::1",
                99,
                "rtmp://[2606:4700::1]:99/app",
                "key",
            ),
            (
                "rtmp://a/app/mp4:b/c",
                "a",
                1935,
                "rtmp://a:1935/app",
                "mp4:b/c",
            ),
            ("rtmp://a/key", "a", 1935, "rtmp://a:1935/key", ""),
            ("rtmp://a", "a", 1935, "rtmp://a:1935/", ""),
        ] {
            let endpoint = Endpoint::from_url(&RtmpUrl::parse(url).unwrap());
            let read = (
                &*endpoint.host,
                endpoint.port,
                &*endpoint.tc_url,
                &*endpoint.key,
            );
            assert_eq!(read, (host, port, tc_url, key), "{url}");
            assert_eq!(endpoint.is_encrypted, url.starts_with("RTMPS"));
            assert!(endpoint.tc_url.ends_with(&endpoint.application));
        }
    }
}
