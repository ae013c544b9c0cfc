//! RTMP URLs, to which broadcasts are sent. Their last part is a stream key, and a client that has
//! it can stream in its owner's name.

use std::fmt;

use serde_json::json;
use url::Url;
use utoipa::openapi::extensions::Extensions;

use crate::schema::string;
use crate::{ErrorCode, Problem, Secret};

/// Replacement for the stream key wherever a URL is shown.
pub const REDACTED: &str = "REDACTED";

/// Maximum number of URLs per broadcast.
// The contract's limit.
pub const MOST_URLS: usize = 8;

/// An `rtmp://` or `rtmps://` URL with a host. It is stored as it was sent, since a stream key must reach its service byte for byte;
/// neither `Debug` nor `Display` shows more than [`RtmpUrl::redacted`].
#[derive(Clone, PartialEq, Eq)]
// Computed once: log lines and responses must not parse the secret.
pub struct RtmpUrl {
    text: Secret,
    host: Box<str>,
    redacted: Box<str>,
}

/// Parts of an RTMP URL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StreamKey<'a> {
    /// Application, `app` or `app/instance`, with its query.
    pub application: &'a str,
    /// Stream key with its query.
    pub key: &'a str,
}

/// The text is not an RTMP URL. The message never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseRtmpUrlError {
    /// Characters that parsers read differently.
    #[error("must be printable ASCII without spaces or backslashes; percent-encode the rest")]
    Characters,
    /// Another scheme, or not a URL.
    #[error("must be an rtmp:// or rtmps:// URL")]
    Scheme,
    /// No host, or a host that is neither a name nor an address.
    #[error("must name a host: letters, digits, dots and hyphens, or an address")]
    Host,
    /// A redacted URL, which has no stream key.
    #[error("contains the literal REDACTED instead of a stream key; send the key itself")]
    Redacted,
}

impl RtmpUrl {
    /// Pattern for URLs. It does not exclude the literal `REDACTED`, nor invalid addresses in
    /// brackets.
    pub const PATTERN: &'static str = concat!(
        r#"^[Rr][Tt][Mm][Pp][Ss]?://([!-"$-.0->@-\[\]-~]*@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"#,
        "(:0*([0-9]{0,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?",
        r"([/?#][!-\[\]-~]*)?$"
    );

    /// Parses a URL.
    ///
    /// # Errors
    /// [`ParseRtmpUrlError`], whose variant names the violated rule.
    pub fn parse(text: &str) -> Result<Self, ParseRtmpUrlError> {
        // Checked before parsing: URL parsers drop tabs and line ends without an error (WHATWG URL,
        // section 4.4), but the text is stored as it is.
        if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
            return Err(ParseRtmpUrlError::Characters);
        }
        // A client that sends back the URL it read must not overwrite the stored key.
        if text.contains(REDACTED) {
            return Err(ParseRtmpUrlError::Redacted);
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => ParseRtmpUrlError::Scheme,
            _ => ParseRtmpUrlError::Host,
        })?;
        if !matches!(url.scheme(), "rtmp" | "rtmps") {
            return Err(ParseRtmpUrlError::Scheme);
        }
        let host = url
            .host_str()
            .filter(|host| is_host(host))
            .ok_or(ParseRtmpUrlError::Host)?;
        Ok(Self {
            text: Secret::new(text),
            host: host.into(),
            redacted: redacted(&url, host).into(),
        })
    }

    /// Returns the URL with its stream key, for the media plane and for encrypted storage only.
    pub fn reveal(&self) -> &str {
        self.text.reveal()
    }

    /// Splits the URL as media servers and their clients do; `None` if the stream key cannot be
    /// distinguished from the application.
    pub fn split_key(&self) -> Option<StreamKey<'_>> {
        let text = self.reveal();
        let path = text
            .find("://")
            .and_then(|at| Some(at + 3 + text[at + 3..].find(['/', '?', '#'])?))?;
        // librtmp reads the key from a parameter `slist`, other clients from the path: ambiguous.
        let rest = text[path..]
            .strip_prefix('/')
            .filter(|rest| !rest.contains("slist="))?;
        let first = rest.find('/')?;
        // An application may have an instance, `app/instance/key`; a key may have slashes behind a colon, `app/mp4:a/b`, or in its
        // query.
        let instance = rest[first + 1..]
            .find(['/', ':', '?'])
            .map(|at| first + 1 + at);
        let end = instance
            .filter(|end| rest[*end..].starts_with('/'))
            .unwrap_or(first);
        let key = StreamKey {
            application: &rest[..end],
            key: &rest[end + 1..],
        };
        (!key.key.is_empty()).then_some(key)
    }

    /// Returns the URL for display: `rtmp://host[:port]/app/REDACTED`. User name, password and query are omitted.
    pub fn redacted(&self) -> &str {
        &self.redacted
    }

    /// Returns the host; an IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// Returns whether a host is valid. For URLs that are not http, the parser accepts nearly any text,
/// even percent-encoded, which media servers interpret differently.
fn is_host(host: &str) -> bool {
    let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    // The text in brackets has been parsed as an address.
    !host.is_empty() && (host.starts_with('[') || host.bytes().all(name))
}

/// Returns the redacted URL. With fewer than two parts in the path, application and stream key
/// cannot be distinguished, so the whole path is omitted.
fn redacted(url: &Url, host: &str) -> String {
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    let mut parts = url.path().split('/').filter(|part| !part.is_empty());
    let app = match (parts.next(), parts.next()) {
        // Further parts may belong to the key, so only the first one is shown.
        (Some(app), Some(_)) => format!("/{app}"),
        _ => String::new(),
    };
    format!("{}://{host}{port}{app}/{REDACTED}", url.scheme())
}

impl utoipa::PartialSchema for RtmpUrl {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let doc = "An `rtmp://` or `rtmps://` URL with a host. It must not contain the literal `REDACTED`.";
        let not = Extensions::from_iter([("not", json!({"pattern": REDACTED}))]);
        string(doc)
            .pattern(Some(Self::PATTERN))
            .extensions(Some(not))
            .into()
    }
}

impl utoipa::ToSchema for RtmpUrl {}

impl fmt::Display for RtmpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted)
    }
}

impl fmt::Debug for RtmpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.redacted, f)
    }
}

/// Parses the URLs at `field`, for a broadcast or a destination.
///
/// # Errors
/// 400 `invalid_request` at `field` for a wrong number of URLs, 400 `invalid_url` at `field[2]` for
/// an invalid one.
pub fn parse_urls(field: &str, texts: &[String]) -> Result<Vec<RtmpUrl>, Problem> {
    if !(1..=MOST_URLS).contains(&texts.len()) {
        return Err(Problem::invalid(
            field.to_owned(),
            format!("must have 1 to {MOST_URLS} URLs"),
        ));
    }
    let parse = |(index, text): (usize, &String)| {
        let refuse =
            |error: ParseRtmpUrlError| Problem::new(ErrorCode::InvalidUrl, error.to_string());
        RtmpUrl::parse(text).map_err(|error| refuse(error).at(format!("{field}[{index}]")))
    };
    texts.iter().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_url_is_split_into_application_and_key() {
        let split = |text: &str| {
            let url = RtmpUrl::parse(text).unwrap();
            url.split_key()
                .map(|parts| [parts.application, parts.key].map(str::to_owned))
        };
        for (text, parts) in [
            ("rtmp://a.example.com/live/key", ["live", "key"]),
            ("rtmps://a:443/live/key?a=/b&c=d", ["live", "key?a=/b&c=d"]),
            ("rtmps://a:443/live?token=b/key", ["live?token=b", "key"]),
            ("rtmps://a:443/live/key?a=b", ["live", "key?a=b"]),
            ("rtmp://a/app/instance/key", ["app/instance", "key"]),
            ("rtmp://a/app/mp4:b/c", ["app", "mp4:b/c"]),
        ] {
            assert_eq!(split(text), Some(parts.map(str::to_owned)), "{text}");
        }
        for text in [
            "rtmp://a/",
            "rtmp://a/key",
            "rtmp://a/live/",
            "rtmp://a?live/key",
            "rtmp://a/b/c?slist=d",
        ] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn a_url_is_kept_as_it_was_sent_and_shown_without_its_key() {
        for (text, shown) in [
            (
                "rtmp://a.example.com/live2/abcd-1234",
                "rtmp://a.example.com/live2/REDACTED",
            ),
            (
                "rtmps://a.example.com:443/live/x/y?z=1#f",
                "rtmps://a.example.com:443/live/REDACTED",
            ),
            (
                "rtmp://[2606:4700::1]:1935/app/key",
                "rtmp://[2606:4700::1]:1935/app/REDACTED",
            ),
            (
                "rtmp://me:word@example.com/app/key",
                "rtmp://example.com/app/REDACTED",
            ),
            ("rtmp://example.com/key", "rtmp://example.com/REDACTED"),
            ("rtmp://example.com/key/", "rtmp://example.com/REDACTED"),
            ("rtmp://example.com//key", "rtmp://example.com/REDACTED"),
            (
                "rtmp://example.com/app?token=t/key",
                "rtmp://example.com/REDACTED",
            ),
            ("rtmp://example.com", "rtmp://example.com/REDACTED"),
            (
                "RTMP://example.com/app/a{b}",
                "rtmp://example.com/app/REDACTED",
            ),
        ] {
            let url = RtmpUrl::parse(text).expect(text);
            assert_eq!((url.reveal(), url.redacted()), (text, shown));
            assert!(
                shown.contains(url.host())
                    && (text.contains('[') || url.host().ends_with("example.com"))
            );
            assert_eq!(format!("{url} {url:?}"), format!("{shown} {shown:?}"));
        }
    }

    #[test]
    fn the_pattern_says_what_the_parser_accepts() {
        let pattern = regex::Regex::new(RtmpUrl::PATTERN).unwrap();
        for text in [
            "rtmp://example.com",
            "RTMPS://me:word@example.com:65535/app/key?a#b",
            "rtmp://a@b@c_d:/x",
            "rtmp://[::1]:0/app",
            "rtmp://example.com?key",
            "",
            "rtmp:///app/key",
            "rtmp://example.com:65536/app",
            "rtmp://a b/app",
            "rtmp://127%2e0.0.1/app/key",
            "rtmp://example.com/app/k\\ey",
            "https://example.com/app",
        ] {
            assert_eq!(
                pattern.is_match(text),
                RtmpUrl::parse(text).is_ok(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_rtmp_url_with_a_host_is_refused() {
        use ParseRtmpUrlError::{Characters, Host, Redacted, Scheme};
        for (text, why) in [
            ("", Scheme),
            ("example.com/app/key", Scheme),
            ("https://example.com/app/key", Scheme),
            ("rtmpt://example.com/app/key", Scheme),
            ("rtmp:/app/key", Host),
            ("rtmp:example.com/app/key", Host),
            ("rtmp:///app/key", Host),
            ("rtmp://example.com:99999/app/key", Host),
            ("rtmp://127%2e0.0.1/app/key", Host),
            ("rtmp://[::1/app/key", Host),
            (" rtmp://example.com/app/key", Characters),
            ("rtmp://example.com/app/k\ney", Characters),
            ("rtmp://127.0.0.1\\@example.com/app/key", Characters),
            ("rtmp://example.com/app/REDACTED", Redacted),
            ("rtmp://example.com/app/key?REDACTED", Redacted),
        ] {
            assert_eq!(RtmpUrl::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn one_to_eight_urls_are_read_and_a_bad_one_is_named() {
        let good = |count: usize| vec!["rtmp://example.com/a/b".to_owned(); count];
        assert!(parse_urls("urls", &good(1)).is_ok() && parse_urls("urls", &good(8)).is_ok());
        for count in [0, 9] {
            let refusal = parse_urls("config.urls", &good(count)).unwrap_err();
            assert_eq!(
                (refusal.code, refusal.field.as_deref()),
                (ErrorCode::InvalidRequest, Some("config.urls"))
            );
        }
        let mut urls = good(3);
        urls[2] = "rtmp://".into();
        let refusal = parse_urls("urls", &urls).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.field.as_deref()),
            (ErrorCode::InvalidUrl, Some("urls[2]"))
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_never_holds_the_key_a_password_or_a_query(
            app in "[a-z][a-z0-9._-]{0,11}",
            slashes in "/{1,3}",
            key in "k3y-[!-\\[\\]-~]{4,40}",
            password in "[a-z0-9]{0,8}",
        ) {
            let text = format!("rtmp://u53r:p4ss{password}@example.com/{app}{slashes}{key}?qu3ry={key}");
            if let Ok(url) = RtmpUrl::parse(&text) {
                let shown = format!("{url} {url:?} {}", url.redacted());
                for hidden in ["k3y-", "u53r", "p4ss", "qu3ry"] {
                    prop_assert!(!shown.contains(hidden));
                }
                prop_assert_eq!(url.reveal(), text);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic_and_what_is_shown_is_never_taken_back(text in any::<String>()) {
            if let Ok(url) = RtmpUrl::parse(&format!("rtmp://{text}")) {
                prop_assert_eq!(RtmpUrl::parse(url.redacted()), Err(ParseRtmpUrlError::Redacted));
            }
        }
    }
}
