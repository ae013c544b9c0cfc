//! Project API keys: `vk_<env>_<43 base62 characters>`. Only a SHA-256 hash and the first twelve characters are kept.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::project::Environment;
use crate::secret::{BASE62, random_text};
use crate::{ProjectId, Secret, Timestamp};

const RANDOM_CHARACTERS: usize = 43;

/// A complete API key.
#[derive(Clone)]
pub struct ApiKey(Secret);

/// The first twelve characters of a key, by which it is listed, revoked and named in audit trails.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyPrefix(Box<str>);

/// SHA-256 of a whole key. Compared in constant time.
#[derive(Clone, Copy)]
pub struct ApiKeyHash(pub [u8; 32]);

/// A text without the form of an API key. No details, because a response must not give any either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key")]
pub struct ParseApiKeyError;

impl ApiKey {
    /// Returns a new random key.
    pub fn generate(env: Environment) -> Self {
        Self(Secret::new(format!(
            "vk_{env}_{}",
            random_text(RANDOM_CHARACTERS, BASE62)
        )))
    }

    /// Returns the first twelve characters.
    pub fn prefix(&self) -> ApiKeyPrefix {
        ApiKeyPrefix(self.0.reveal()[..ApiKeyPrefix::LEN].into())
    }

    /// Returns the hash that is stored.
    pub fn hash(&self) -> ApiKeyHash {
        ApiKeyHash(Sha256::digest(self.0.reveal()).into())
    }

    /// Returns the complete key, which is shown once.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl FromStr for ApiKey {
    type Err = ParseApiKeyError;

    fn from_str(text: &str) -> Result<Self, ParseApiKeyError> {
        let random = text
            .strip_prefix("vk_live_")
            .or_else(|| text.strip_prefix("vk_test_"))
            .ok_or(ParseApiKeyError)?;
        let shaped =
            random.len() == RANDOM_CHARACTERS && random.bytes().all(|b| b.is_ascii_alphanumeric());
        if shaped {
            Ok(Self(Secret::new(text)))
        } else {
            Err(ParseApiKeyError)
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}***", self.prefix())
    }
}

impl ApiKeyPrefix {
    /// The length of a prefix, in characters.
    pub const LEN: usize = 12;

    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiKeyPrefix {
    type Err = ParseApiKeyError;

    fn from_str(text: &str) -> Result<Self, ParseApiKeyError> {
        let shaped = text.len() == Self::LEN
            && (text.starts_with("vk_live_") || text.starts_with("vk_test_"));
        if shaped && text.is_ascii() {
            Ok(Self(text.into()))
        } else {
            Err(ParseApiKeyError)
        }
    }
}

impl From<ApiKeyPrefix> for String {
    fn from(prefix: ApiKeyPrefix) -> Self {
        prefix.0.into()
    }
}

impl fmt::Display for ApiKeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ApiKeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq for ApiKeyHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// The record of an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// The project that owns it.
    pub project_id: ProjectId,
    /// The first twelve characters.
    pub prefix: ApiKeyPrefix,
    /// A note of the operator.
    pub label: String,
    /// The instant of its creation.
    pub created_at: Timestamp,
    /// The instant of its revocation; absent while it is valid.
    pub revoked_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fresh_key_has_the_shape_of_the_contract_and_parses() {
        let key = ApiKey::generate(Environment::Live);
        assert!(key.reveal().starts_with("vk_live_") && key.reveal().len() == 8 + 43);
        let parsed: ApiKey = key.reveal().parse().unwrap();
        assert!(parsed.hash() == key.hash());
        assert_eq!(parsed.prefix().as_str(), &key.reveal()[..12]);
        assert!(!format!("{key:?}").contains(&key.reveal()[12..]));
        assert!(key.hash() != ApiKey::generate(Environment::Live).hash());
    }

    #[test]
    fn what_has_not_the_shape_of_a_key_is_refused() {
        let random = "a".repeat(43);
        assert!(format!("vk_test_{random}").parse::<ApiKey>().is_ok());
        for wrong in [
            format!("vk_test_{random}a"),
            format!("vk_test_{}-", &random[1..]),
            format!("vk_prod_{random}"),
        ] {
            assert_eq!(
                wrong.parse::<ApiKey>().err(),
                Some(ParseApiKeyError),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_prefix_is_the_environment_and_four_ascii_characters() {
        for good in ["vk_live_ab12", "vk_test_ab12"] {
            assert_eq!(good.parse::<ApiKeyPrefix>().unwrap().to_string(), good);
        }
        for wrong in [
            "vk_live_ab1",
            "vk_live_ab123",
            "vk_prod_ab12",
            "vk_live_ab\u{e9}",
        ] {
            assert_eq!(
                wrong.parse::<ApiKeyPrefix>(),
                Err(ParseApiKeyError),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,60}|vk_test_\\PC{0,50}") {
            let _ = text.parse::<ApiKey>().map(|key| key.prefix());
            let _ = text.parse::<ApiKeyPrefix>();
        }
    }
}
