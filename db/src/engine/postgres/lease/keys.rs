//! Keys that a server needs to open the encrypted parts of the records.

/// Ids of a server's keys. They distinguish keys, and reveal nothing about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyIds {
    /// Keys of `encryption.key`, the encrypting one first. Empty for a server without one.
    pub encryption: Vec<String>,
    /// Key and secret of the media plane, which sign room tokens.
    pub media: String,
}

/// Key in which a server differs from the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongKey {
    /// Secrets in the database are encrypted under a key that this server does not have.
    Encryption,
    /// Room tokens are signed with another key.
    Media,
}

impl KeyIds {
    /// Returns the encrypting key's id; empty for a server without one.
    #[must_use]
    pub fn encrypts_with(&self) -> &str {
        self.encryption.first().map_or("", String::as_str)
    }

    /// Returns which key differs from the last active server's. An empty id means no key, or an unknown one.
    #[must_use]
    pub fn differs_from(&self, encryption: &str, media: &str) -> Option<WrongKey> {
        // Any of its keys will do: during a rotation the records' key may be the second one in the file.
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
