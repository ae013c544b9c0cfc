//! Keys that are derived from the API secret of the media plane, one for each purpose. Nothing is stored, and the servers of one
//! database, which have the same secret, derive the same keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conclave_model::{EgressId, ProjectId, Secret};

/// The keys of a server.
pub struct DerivedKeys {
    /// For the signing secrets of programs that follow a project's events.
    followers: [u8; 32],
    /// For links to files of recordings.
    recordings: [u8; 32],
    /// For the credentials of the TURN server in this process.
    turn: [u8; 32],
}

impl DerivedKeys {
    /// Derives the keys.
    #[must_use]
    pub fn new(api_secret: &Secret) -> Self {
        let derive = |purpose| blake3::derive_key(purpose, api_secret.reveal().as_bytes());
        Self {
            followers: derive("conclave 2026 signing secrets of followers"),
            recordings: derive("conclave 2026 links to recordings"),
            turn: derive("conclave 2026 credentials of TURN"),
        }
    }

    /// Returns the secret with which a program that follows a project's events signs them, in the form of those of webhook endpoints.
    /// It is always the same, so that a receiver can be configured once.
    #[must_use]
    pub fn signing_secret(&self, project: &ProjectId) -> Secret {
        let key = blake3::keyed_hash(&self.followers, project.as_str().as_bytes());
        Secret::new(format!("whsec_{}", STANDARD.encode(key.as_bytes())))
    }

    /// Returns the secret that signs the credentials of the TURN server in this process.
    #[must_use]
    pub fn turn_secret(&self) -> Secret {
        Secret::new(STANDARD.encode(self.turn))
    }

    /// Returns the signature of a link to the file of a recording, which expires at this second since 1970.
    #[must_use]
    pub fn of_recording(&self, project: &ProjectId, id: &EgressId, expires: u32) -> blake3::Hash {
        // Neither of the first two has a line break.
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
