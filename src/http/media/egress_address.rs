//! Checks hosts that a caller names as targets for the media plane: an RTMP server, an object storage.
//!
//! The check refuses early an address inside the operator's network. The embedded media plane checks each address again when it
//! connects; LiveKit has a resolver of its own. A name that does not resolve here is accepted: it may resolve there, or later.

use conclave_model::address::AddressFilter;
use conclave_model::rtmp::{REDACTED, RtmpUrl};
use conclave_model::{ErrorCode, Problem};
use conclave_outbound::resolver::{parse_url, permits_host};

use crate::http::api::error::ApiError;

/// Request field and its URL's host.
pub type NamedHost = (String, String);

/// Returns the hosts of the URLs in `field`.
pub fn rtmp_hosts(field: &str, urls: &[RtmpUrl]) -> Vec<NamedHost> {
    urls.iter()
        .enumerate()
        // By position, so that the response names the wrong URL.
        .map(|(index, url)| (format!("{field}[{index}]"), url.host().to_owned()))
        .collect()
}

/// Returns the host of the HTTP(S) URL in `field`.
///
/// # Errors
/// 400 `invalid_url`.
pub fn http_host(field: &'static str, url: &str) -> Result<NamedHost, Problem> {
    let refuse = |reason: String| Problem::new(ErrorCode::InvalidUrl, reason).at(field);
    // A client that sends back a URL as it was shown would replace its stream key by the placeholder.
    if url.contains(REDACTED) {
        return Err(refuse(format!("must not contain the literal {REDACTED}")));
    }
    let parsed = parse_url(url).map_err(|refusal| refuse(refusal.to_string()))?;
    Ok((
        field.to_owned(),
        // A URL that was parsed as HTTP has a host.
        parsed.host_str().unwrap_or_default().to_owned(),
    ))
}

/// Resolves all hosts in parallel, on threads of the blocking pool.
///
/// # Errors
/// 400 `blocked_url` for the first host that is, or resolves to, an address that `filter` does not permit.
pub async fn check_hosts(filter: &AddressFilter, hosts: Vec<NamedHost>) -> Result<(), ApiError> {
    let lookups: Vec<_> = hosts
        .into_iter()
        .map(|(field, host)| {
            let filter = filter.clone();
            (
                field,
                // Port 0: only the address is checked, and no connection is made.
                tokio::task::spawn_blocking(move || permits_host(&host, 0, &filter)),
            )
        })
        .collect();
    // In the order of the request, whichever look-up ends first: the same request gets the same error.
    for (field, lookup) in lookups {
        if !lookup.await? {
            let message = "the URL resolves to an address that is not public";
            return Err(Problem::new(ErrorCode::BlockedUrl, message)
                .at(field)
                .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allow: &[&str]) -> AddressFilter {
        AddressFilter::new(allow.iter().map(|net| net.parse().unwrap()).collect())
    }

    async fn field(filter: &AddressFilter, urls: &[&str]) -> Option<String> {
        let urls: Vec<_> = urls
            .iter()
            .map(|url| RtmpUrl::parse(url).unwrap())
            .collect();
        let refusal = check_hosts(filter, rtmp_hosts("urls", &urls))
            .await
            .err()?
            .problem;
        assert_eq!(refusal.code, ErrorCode::BlockedUrl);
        refusal.field.map(Into::into)
    }

    #[tokio::test]
    async fn the_first_host_that_is_not_public_is_named_however_it_is_spelled() {
        for host in
            "127.0.0.1 127.0.0.1. 2130706433 0x7f.1 0x7f.1. localhost a.localhost 10.1.2.3:1935 [::1] [::ffff:10.0.0.1] 169.254.169.254".split(' ')
        {
            let (good, bad) = ("rtmp://8.8.8.8/a/b", format!("rtmps://{host}/a/b"));
            assert_eq!(field(&filter(&[]), &[good, &bad, &bad]).await.as_deref(), Some("urls[1]"), "{host}");
        }
    }

    #[tokio::test]
    async fn public_hosts_unknown_names_and_allowed_networks_pass() {
        assert_eq!(
            field(
                &filter(&[]),
                &["rtmp://nowhere.invalid/a/b", "rtmp://8.8.8.8/a/b"]
            )
            .await,
            None
        );
        assert_eq!(
            field(&filter(&["10.0.0.0/8"]), &["rtmp://10.1.2.3/a/b"]).await,
            None
        );
    }

    #[test]
    fn the_host_of_an_http_url_is_read_as_it_would_be_dialled() {
        assert_eq!(
            http_host("e", "https://Minio.example.com:9000/x")
                .unwrap()
                .1,
            "minio.example.com"
        );
        assert_eq!(http_host("e", "http://0x7f.1/").unwrap().1, "127.0.0.1");
        for bad in [
            "",
            "minio:9000",
            "ftp://a.example.com",
            "http://",
            "https://u:p@a.example.com",
            "http://a\\@b",
            "http://a /",
            "https://example.com/REDACTED",
        ] {
            let refusal = http_host("config.endpoint", bad).unwrap_err();
            assert_eq!(
                (refusal.code, refusal.field.as_deref()),
                (ErrorCode::InvalidUrl, Some("config.endpoint")),
                "{bad}"
            );
        }
    }
}
