//! The keys that a server needs to open what the records hold encrypted.

/// The ids of the keys of a server. They tell keys apart and reveal nothing of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyIds {
    /// The keys of `encryption.key`, the one that encrypts first. Empty for a server without one.
    pub encryption: Vec<String>,
    /// The key and secret of the media plane, which sign room tokens.
    pub media: String,
}

/// Which key of a server is not the one that the records need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongKey {
    /// Secrets in the database are encrypted under a key that this server does not have.
    Encryption,
    /// Room tokens are signed with another key.
    Media,
}

impl KeyIds {
    /// The id of the key that encrypts; empty for a server without one.
    #[must_use]
    pub fn encrypts_with(&self) -> &str {
        self.encryption.first().map_or("", String::as_str)
    }

    /// Returns which key is not the one of the last active server. An empty id stands for no key, or for one that is not known.
    #[must_use]
    pub fn differs_from(&self, encryption: &str, media: &str) -> Option<WrongKey> {
        if !encryption.is_empty() && !self.encryption.iter().any(|id| id == encryption) {
            return Some(WrongKey::Encryption);
        }
        (!media.is_empty() && media != self.media).then_some(WrongKey::Media)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_needs_the_encryption_key_of_the_last_one_and_its_media_key() {
        let keys = KeyIds {
            encryption: vec!["new".into(), "old".into()],
            media: "m".into(),
        };
        assert_eq!(keys.encrypts_with(), "new");
        for known in ["new", "old", ""] {
            assert_eq!(keys.differs_from(known, "m"), None, "{known:?}");
        }
        assert_eq!(keys.differs_from("other", "m"), Some(WrongKey::Encryption));
        assert_eq!(keys.differs_from("new", "n"), Some(WrongKey::Media));
        let keyless = KeyIds {
            encryption: Vec::new(),
            media: "m".into(),
        };
        assert_eq!(
            (keyless.encrypts_with(), keyless.differs_from("", "")),
            ("", None)
        );
        assert_eq!(keyless.differs_from("new", "m"), Some(WrongKey::Encryption));
    }
}
