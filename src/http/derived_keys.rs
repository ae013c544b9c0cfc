//! Keys derived from the media plane's API secret, one per purpose. They are not stored: the servers of one database have the same
//! secret, so they derive the same keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conclave_model::{EgressId, ProjectId, Secret};

/// A server's derived keys.
pub struct DerivedKeys {
    /// For the signing secrets of programs that follow a project's events (`conclave listen`).
    followers: [u8; 32],
    /// For links to recording files.
    recordings: [u8; 32],
    /// For this process's TURN credentials.
    turn: [u8; 32],
}

impl DerivedKeys {
    /// Derives the keys.
    #[must_use]
    pub fn new(api_secret: &Secret) -> Self {
        let derive = |purpose| blake3::derive_key(purpose, api_secret.reveal().as_bytes());
        Self {
            // These context strings must never change: they are part of the derivation.
            followers: derive("conclave 2026 signing secrets of followers"),
            recordings: derive("conclave 2026 links to recordings"),
            turn: derive("conclave 2026 credentials of TURN"),
        }
    }

    /// Returns the secret with which a program signs a project's forwarded events, in the format of webhook endpoints' secrets. It
    /// never changes, so a receiver can be configured once.
    #[must_use]
    pub fn signing_secret(&self, project: &ProjectId) -> Secret {
        let key = blake3::keyed_hash(&self.followers, project.as_str().as_bytes());
        Secret::new(format!("whsec_{}", STANDARD.encode(key.as_bytes())))
    }

    /// Returns the secret that signs this process's TURN credentials.
    #[must_use]
    pub fn turn_secret(&self) -> Secret {
        Secret::new(STANDARD.encode(self.turn))
    }

    /// Returns the signature of a link to a recording's file. `expires` is in seconds since 1970.
    #[must_use]
    pub fn recording_signature(
        &self,
        project: &ProjectId,
        id: &EgressId,
        expires: u32,
    ) -> blake3::Hash {
        // Unambiguous: neither project id nor expiry contains a line break.
        blake3::keyed_hash(
            &self.recordings,
            format!("{project}\n{expires}\n{id}").as_bytes(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_one_signing_secret_as_long_as_the_api_secret_is_the_same() {
        let keys = |secret: &str| DerivedKeys::new(&Secret::new(secret));
        let (project, other) = (ProjectId::new(), ProjectId::new());
        let secret = keys("a").signing_secret(&project);
        assert_eq!(
            STANDARD
                .decode(secret.reveal().strip_prefix("whsec_").unwrap())
                .unwrap()
                .len(),
            32
        );
        assert_eq!(keys("a").signing_secret(&project), secret);
        assert_ne!(keys("a").signing_secret(&other), secret);
        assert_ne!(keys("b").signing_secret(&project), secret);
    }
}
