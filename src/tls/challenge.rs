//! Answer to the challenge by which a CA verifies that this server controls the domain.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::sign::CertifiedKey;

/// Protocol name of tls-alpn-01 (RFC 8737).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// Answer to a challenge.
#[derive(Debug, Clone)]
pub enum ChallengeAnswer {
    /// For tls-alpn-01: a certificate in the handshake.
    TlsAlpn {
        /// Host name in the CA's handshake.
        domain: String,
        /// Self-signed certificate.
        certificate: Arc<CertifiedKey>,
    },
    /// For http-01: a text at a path.
    Http {
        /// Last segment of the path.
        token: String,
        /// Text; it is not secret.
        text: String,
    },
}

/// Answer to the current challenge, if there is one. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Challenges(Arc<RwLock<Option<ChallengeAnswer>>>);

/// Keeps an answer available until this is dropped.
#[must_use]
pub struct AnswerGuard(Challenges);

impl Challenges {
    /// Makes an answer available until the returned value is dropped.
    pub fn answer(&self, answer: ChallengeAnswer) -> AnswerGuard {
        // Replaces any earlier answer: there is one attempt at a time.
        self.set(Some(answer));
        AnswerGuard(self.clone())
    }

    /// Returns the certificate for tls-alpn-01.
    pub(super) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        match self.current()? {
            ChallengeAnswer::TlsAlpn {
                domain,
                certificate,
                // Host names ignore case (RFC 4343).
            } if domain.eq_ignore_ascii_case(name) => Some(certificate),
            _ => None,
        }
    }

    /// Returns the text for http-01 at the path with this token.
    pub fn text(&self, asked: &str) -> Option<String> {
        match self.current()? {
            ChallengeAnswer::Http { token, text } if token == asked => Some(text),
            _ => None,
        }
    }

    fn current(&self) -> Option<ChallengeAnswer> {
        self.0.read().clone()
    }

    fn set(&self, answer: Option<ChallengeAnswer>) {
        *self.0.write() = answer;
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-6.
    #[test]
    fn an_answer_is_given_to_its_token_only_and_until_it_is_dropped() {
        let challenges = Challenges::default();
        let guard = challenges.answer(ChallengeAnswer::Http {
            token: "abc".into(),
            text: "abc.key".into(),
        });
        assert_eq!(challenges.text("abc").as_deref(), Some("abc.key"));
        assert!(
            challenges.text("abd").is_none()
                && challenges.certificate("meet.example.org").is_none()
        );
        drop(guard);
        assert!(challenges.text("abc").is_none());
    }
}
