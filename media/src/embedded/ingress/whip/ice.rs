//! ICE in a WHIP session: SDP fragments with its parameters (RFC 8840), which an encoder sends in PATCH requests for
//! new candidates or an ICE restart, and the entity tags that associate these requests with ICE credentials (RFC 9725,
//! section 4.3).

use conclave_model::secret::{BASE62, random_text};

/// Entity tag length, in characters.
const TAG_LENGTH: usize = 16;

/// An encoder's PATCH request.
#[derive(Debug, Clone)]
pub struct WhipPatch {
    /// The `If-Match` value.
    pub condition: Option<String>,
    /// The body, an SDP fragment.
    pub fragment: String,
}

/// A PATCH request's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchOutcome {
    /// Accepted without effect: the server learns addresses from packets.
    Accepted,
    /// ICE restarts. The answer will come from the media worker.
    Restarting,
}

/// Reason for rejecting a change of ICE parameters (RFC 9725, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhipPatchError {
    /// Unknown or finished session: 404.
    #[error("no such session")]
    NoSession,
    /// No entity tag: 428.
    #[error(
        "the request must name the entity tag of the ICE session in If-Match, or * to restart ICE"
    )]
    NoCondition,
    /// Entity tag for earlier ICE credentials: 412.
    #[error("ICE was restarted: the entity tag is not the session's current one")]
    Stale,
    /// The body is not a fragment with ICE credentials: 400.
    #[error("{0}")]
    BadFragment(&'static str),
    /// No reply from the media worker: 503.
    #[error("the media worker did not answer")]
    Unavailable,
}

/// The encoder's ICE credentials and its offers. Each offer has its own entity tag.
#[derive(Debug)]
pub(super) struct IceSession {
    /// The offer with the current ICE credentials.
    offer: String,
    offer_id: u32,
    credentials: IceCredentials,
    etag: String,
}

/// One side's ICE credentials. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub struct IceCredentials {
    /// User name fragment.
    pub ufrag: String,
    /// The client's ICE password.
    pub password: String,
}

impl std::fmt::Debug for IceCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IceCredentials")
            .field("ufrag", &self.ufrag)
            .finish_non_exhaustive()
    }
}

/// Lengths in characters (RFC 8839).
const UFRAG_LENGTH: std::ops::RangeInclusive<usize> = 4..=256;
const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 22..=256;

/// Attributes in a description that determine a connection's addresses.
const ICE_ATTRIBUTES: [&str; 4] = [
    "a=ice-ufrag:",
    "a=ice-pwd:",
    "a=candidate:",
    "a=end-of-candidates",
];

impl IceSession {
    /// Creates the ICE session for an offer that is still to be sent to the media worker.
    pub fn new(offer: String) -> Result<Self, &'static str> {
        Ok(Self {
            credentials: read_credentials(&offer)?,
            offer,
            offer_id: 0,
            etag: String::new(),
        })
    }

    /// Returns the next offer for the media worker, with its id.
    pub fn next_offer(&mut self) -> (u32, String) {
        self.offer_id += 1;
        // New for each offer: a PATCH request for the old credentials must fail.
        self.etag = format!("\"{}\"", random_text(TAG_LENGTH, BASE62));
        (self.offer_id, self.offer.clone())
    }

    /// Returns whether an offer is the latest.
    pub fn is_current(&self, offer_id: u32) -> bool {
        self.offer_id == offer_id
    }

    /// Returns the current ICE credentials' entity tag.
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// Processes a PATCH request. If it restarts ICE, the caller must send [`IceSession::next_offer`].
    pub fn patch(&mut self, patch: &WhipPatch) -> Result<PatchOutcome, WhipPatchError> {
        let condition = patch
            .condition
            .as_deref()
            .ok_or(WhipPatchError::NoCondition)?;
        // `If-Match` may contain a list.
        let mut tags = condition.split(',').map(str::trim);
        // `*` is the condition of an ICE restart (RFC 9725).
        if condition.trim() != "*" && !tags.any(|tag| tag == self.etag) {
            return Err(WhipPatchError::Stale);
        }
        let credentials = read_credentials(&patch.fragment).map_err(WhipPatchError::BadFragment)?;
        // Trickled candidates repeat the credentials that they belong to.
        // The same credentials: only candidates are new.
        if credentials == self.credentials {
            return Ok(PatchOutcome::Accepted);
        }
        self.offer = with_credentials(&self.offer, &credentials);
        self.credentials = credentials;
        Ok(PatchOutcome::Restarting)
    }
}

/// Parses the credentials in a fragment or description. The first ones count, since all sections share a connection.
pub fn read_credentials(text: &str) -> Result<IceCredentials, &'static str> {
    // Each SDP line has a letter and an equals sign. This rejects JSON, forms and cut-off bodies.
    if let Some(line) = text
        .lines()
        .find(|line| !line.is_empty() && line.as_bytes().get(1) != Some(&b'='))
    {
        return Err(if line.len() > 1 {
            "the body is no SDP fragment"
        } else {
            "the body is cut off"
        });
    }
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.trim_end().strip_prefix(name))
    };
    let ufrag = value("a=ice-ufrag:").filter(|text| is_valid(text, &UFRAG_LENGTH));
    let password = value("a=ice-pwd:").filter(|text| is_valid(text, &PASSWORD_LENGTH));
    match ufrag.zip(password) {
        Some((ufrag, password)) => Ok(IceCredentials {
            ufrag: ufrag.to_owned(),
            password: password.to_owned(),
        }),
        None => Err(
            "the fragment must have one a=ice-ufrag of 4 to 256 and one a=ice-pwd of 22 to 256 characters",
        ),
    }
}

fn is_valid(text: &str, length: &std::ops::RangeInclusive<usize>) -> bool {
    // The restricted characters keep the values from adding lines to the offer.
    let is_ice_char = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    length.contains(&text.len()) && text.bytes().all(is_ice_char)
}

/// Returns an offer with other ICE credentials, and without the candidates that belong to the old ones.
pub fn with_credentials(offer: &str, credentials: &IceCredentials) -> String {
    let mut changed = String::with_capacity(offer.len());
    for line in offer.lines().map(str::trim_end) {
        if line.starts_with("a=ice-ufrag:") {
            changed.push_str("a=ice-ufrag:");
            changed.push_str(&credentials.ufrag);
        } else if line.starts_with("a=ice-pwd:") {
            changed.push_str("a=ice-pwd:");
            changed.push_str(&credentials.password);
        } else if line.starts_with("a=candidate:") || line.starts_with("a=end-of-candidates") {
            continue;
        } else {
            changed.push_str(line);
        }
        changed.push_str("\r\n");
    }
    changed
}

/// Returns an answer's ICE fragment, from which an encoder learns the server's new credentials.
pub fn ice_fragment(answer: &str) -> String {
    let session_ends = answer.find("\nm=").map_or(answer.len(), |at| at + 1);
    let (session, sections) = answer.split_at(session_ends);
    // The first section is enough: bundled sections share its transport.
    let ends = sections.find("\nm=").map_or(sections.len(), |at| at + 1);
    let first = sections.get(..ends).unwrap_or_default();
    let of_session = ["a=ice-lite", "a=ice-options:", "a=group:BUNDLE"];
    let of_section = ["m=", "a=mid:"].into_iter().chain(ICE_ATTRIBUTES);
    let kept = lines_with(
        session,
        &of_session
            .into_iter()
            .chain(ICE_ATTRIBUTES)
            .collect::<Vec<_>>(),
    );
    let kept = kept.chain(lines_with(first, &of_section.collect::<Vec<_>>()));
    kept.fold(String::new(), |text, line| text + line + "\r\n")
}

fn lines_with<'a>(text: &'a str, names: &[&'static str]) -> std::vec::IntoIter<&'a str> {
    let is_named = |line: &&str| names.iter().any(|name| line.starts_with(name));
    text.lines()
        .map(str::trim_end)
        .filter(is_named)
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASSWORD: &str = "P2uYro0UCOQ4zxjKXaWCBui1";

    fn credentials() -> IceCredentials {
        IceCredentials {
            ufrag: "EsAw".into(),
            password: PASSWORD.into(),
        }
    }

    #[test]
    fn a_fragment_has_credentials_and_candidates() {
        let fragment = format!(
            "a=ice-ufrag:EsAw\r\na=ice-pwd:{PASSWORD}\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n\
             a=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host\r\na=end-of-candidates\r\n"
        );
        assert_eq!(read_credentials(&fragment), Ok(credentials()));
        assert!(!format!("{:?}", credentials()).contains(PASSWORD));
    }

    #[test]
    fn a_body_without_credentials_or_of_another_format_is_refused() {
        for text in [
            "",
            "a=ice-ufrag:EsAw",
            "{\"a\": 1}",
            "a=ice-ufrag:EsAw\r\na=ice-pwd:short",
            "x",
        ] {
            assert!(read_credentials(text).is_err(), "{text}");
        }
        let injected = format!("a=ice-ufrag:a b\"c\r\na=ice-pwd:{PASSWORD}");
        assert!(read_credentials(&injected).is_err());
    }

    #[test]
    fn an_offer_gets_new_credentials_and_loses_its_candidates() {
        let offer = "v=0\r\nm=audio 9 X 0\r\na=ice-ufrag:old1\r\na=ice-pwd:old\r\na=candidate:1 1\r\na=mid:0\r\n";
        let expected = format!(
            "v=0\r\nm=audio 9 X 0\r\na=ice-ufrag:EsAw\r\na=ice-pwd:{PASSWORD}\r\na=mid:0\r\n"
        );
        assert_eq!(with_credentials(offer, &credentials()), expected);
    }

    #[test]
    fn the_fragment_of_an_answer_has_the_first_section_and_nothing_but_ice() {
        let answer = "v=0\r\ns=-\r\na=ice-lite\r\na=group:BUNDLE 0 1\r\nm=audio 9 X 0\r\na=mid:0\r\na=ice-ufrag:u\r\n\
                      a=ice-pwd:p\r\na=fingerprint:f\r\na=candidate:1\r\nm=video 9 X 0\r\na=mid:1\r\na=ice-ufrag:u\r\n";
        let expected = "a=ice-lite\r\na=group:BUNDLE 0 1\r\nm=audio 9 X 0\r\na=mid:0\r\na=ice-ufrag:u\r\n\
                        a=ice-pwd:p\r\na=candidate:1\r\n";
        assert_eq!(ice_fragment(answer), expected);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(a=ice-(ufrag|pwd):[a-z+/]{0,30}|a=mid:0|m=audio|\\PC|\r|\n){0,40}") {
            if let Ok(credentials) = read_credentials(&text) {
                prop_assert_eq!(read_credentials(&with_credentials(&text, &credentials)), Ok(credentials));
            }
            ice_fragment(&text);
        }
    }
}
