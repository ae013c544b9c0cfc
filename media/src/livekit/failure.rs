//! What can go wrong with a call to LiveKit, and what an operator is told to look at.

use serde::Deserialize;

use crate::port::MediaError;
use crate::text::without_urls;

/// Characters of somebody else's text that are passed on.
const MOST_QUOTED: usize = 200;

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// LiveKit itself said no.
    Refused(Refused),
    /// Whatever answered, if anything did, did not speak for LiveKit; says what it was.
    Away(String),
}

/// A Twirp error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Refused {
    /// Twirp's word.
    pub code: String,
    /// LiveKit's words.
    #[serde(default)]
    pub msg: String,
}

impl Failure {
    /// Reads an answer that is no success.
    pub fn of(status: u16, body: &[u8]) -> Self {
        // A Twirp error is an object with a code; proxies answer with whatever they like, JSON among it.
        if let Ok(refused) = serde_json::from_slice::<Refused>(body) {
            return Self::Refused(refused);
        }
        Self::Away(match status {
            401 => "the server answered 401: check media.api_key and media.api_secret".to_owned(),
            404 => "the server answered 404 to LiveKit's API: check media.url".to_owned(),
            413 => "the server answered 413: a proxy in front of LiveKit limits the size of requests".to_owned(),
            // A page of a proxy says nothing that its status does not.
            _ => {
                format!("the server answered {status} and no LiveKit error: check media.url and what is in front of it")
            }
        })
    }

    fn refused(&self, code: &str) -> Option<&str> {
        match self {
            Self::Refused(refused) if refused.code == code => Some(&refused.msg),
            _ => None,
        }
    }

    /// In words, with what to look at where that is known.
    pub fn in_words(self) -> String {
        match self {
            Self::Away(what) => what,
            Self::Refused(refused) => refused.advice(),
        }
    }

    /// What was asked for is not there.
    pub fn is_not_found(&self) -> bool {
        self.refused("not_found").is_some()
    }

    /// What was asked for cannot be done as things stand.
    pub fn is_precondition(&self) -> bool {
        self.refused("failed_precondition").is_some()
    }

    /// No node of LiveKit serves what was asked for: it is not there, or its node is stuck.
    pub fn is_no_response(&self) -> bool {
        self.refused("unavailable").is_some()
    }

    /// A node that LiveKit's store names is no more.
    pub fn is_no_node(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.msg.contains("could not find object"))
    }

    /// LiveKit asked somebody else, who did not answer in time.
    pub fn is_deadline(&self) -> bool {
        self.refused("deadline_exceeded").is_some()
    }

    /// LiveKit runs without what egress or ingress need.
    pub fn is_not_connected(&self) -> bool {
        matches!(self, Self::Refused(refused) if refused.is_not_connected())
    }
}

impl From<Failure> for MediaError {
    fn from(failure: Failure) -> Self {
        match &failure {
            Failure::Refused(refused) if refused.is_about_the_call() => Self::Refused(failure.in_words()),
            _ => Self::Unavailable(failure.in_words()),
        }
    }
}

impl Refused {
    /// Whether it is this call that is refused, by a LiveKit that is well otherwise.
    fn is_about_the_call(&self) -> bool {
        let whole = ["internal", "unknown", "data_loss", "deadline_exceeded", "canceled"];
        let ours = ["unauthenticated", "permission_denied", "bad_route"];
        self.is_not_connected() || !(whole.contains(&&*self.code) || ours.contains(&&*self.code))
    }

    fn is_not_connected(&self) -> bool {
        self.msg.contains("not connected")
    }

    fn advice(&self) -> String {
        // Older and newer servers differ in whether they wrap what another part of them said.
        let said = scrubbed(self.msg.trim_start_matches("twirp error unknown: "));
        match (self.code.as_str(), said.as_str()) {
            ("unauthenticated" | "permission_denied", _) => {
                format!("LiveKit refused the credentials ({said}): check media.api_key and media.api_secret")
            }
            ("failed_precondition", said) if said.contains("remote unmute") => {
                "LiveKit does not let a server unmute: set room.enable_remote_unmute to true in its configuration"
                    .into()
            }
            (_, said) if said.contains("not connected") => {
                format!(
                    "LiveKit has no connection to Redis, which egress and ingress need ({said}): set redis in its configuration"
                )
            }
            ("bad_route", _) => "LiveKit does not know this call: check media.url and LiveKit's version".into(),
            (code, said) => format!("LiveKit answered {code}: {said}"),
        }
    }
}

/// A text of LiveKit's that may be shown: short, and without the stream keys in the urls that it may quote.
pub(super) fn scrubbed(text: &str) -> String {
    let short: String = text.chars().filter(|c| !c.is_control()).take(MOST_QUOTED).collect();
    without_urls(&short)
}
