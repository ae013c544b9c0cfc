//! Project API keys: `vk_<env>_<43 base62 characters>`. Only a SHA-256 hash and the first twelve characters are kept.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::project::Environment;
use crate::secret::{BASE62, random_text};
use crate::usage::Day;
use crate::{ProjectId, Secret, Timestamp};

// 256 bits, as many as the hash has: 43 × log2(62) = 256.03.
const RANDOM_CHARACTERS: usize = 43;
/// Number of random characters in a prefix.
const PREFIX_CHARACTERS: usize = 4;

/// Complete API key.
#[derive(Clone)]
pub struct ApiKey(Secret);

/// First twelve characters of a key, which identify it in lists, when it is revoked, and in audit trails.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
// An array, so that the look-up of each request allocates nothing.
pub struct ApiKeyPrefix([u8; Self::LEN]);

/// A complete key's SHA-256. Compared in constant time.
#[derive(Clone, Copy)]
pub struct ApiKeyHash(pub [u8; 32]);

/// API key for the look-up: the prefix finds the record, the hash decides.
#[derive(Clone)]
pub struct ApiKeyLookup {
    /// First twelve characters.
    pub prefix: ApiKeyPrefix,
    /// The complete key's hash.
    pub hash: ApiKeyHash,
}

/// The text is not formed like an API key. The error has no details, so that no response can reveal
/// any.
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

    /// Returns a new random key with the prefix of an earlier one, whose secret it replaces.
    pub fn renew(prefix: &ApiKeyPrefix) -> Self {
        // 232 of the 256 bits: the prefix already has four of the characters.
        let random = random_text(RANDOM_CHARACTERS - PREFIX_CHARACTERS, BASE62);
        Self(Secret::new(format!("{prefix}{random}")))
    }

    /// Returns the first twelve characters.
    pub fn prefix(&self) -> ApiKeyPrefix {
        ApiKeyPrefix::from_key(self.reveal())
    }

    /// Returns the hash that is stored.
    pub fn hash(&self) -> ApiKeyHash {
        ApiKeyHash::from_key(self.reveal())
    }

    /// Returns the prefix and hash that find the record.
    pub fn lookup(&self) -> ApiKeyLookup {
        ApiKeyLookup {
            prefix: self.prefix(),
            hash: self.hash(),
        }
    }

    /// Returns the complete key, which is shown once.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl FromStr for ApiKey {
    type Err = ParseApiKeyError;

    fn from_str(text: &str) -> Result<Self, ParseApiKeyError> {
        check_shape(text)?;
        Ok(Self(Secret::new(text)))
    }
}

/// Parses a key from a client without copying it.
impl FromStr for ApiKeyLookup {
    type Err = ParseApiKeyError;

    fn from_str(text: &str) -> Result<Self, ParseApiKeyError> {
        check_shape(text)?;
        Ok(Self {
            prefix: ApiKeyPrefix::from_key(text),
            hash: ApiKeyHash::from_key(text),
        })
    }
}

fn check_shape(text: &str) -> Result<(), ParseApiKeyError> {
    let random = text
        // The environment is part of the key, so a test key in production is visible at once.
        .strip_prefix("vk_live_")
        .or_else(|| text.strip_prefix("vk_test_"))
        .ok_or(ParseApiKeyError)?;
    let shaped =
        random.len() == RANDOM_CHARACTERS && random.bytes().all(|b| b.is_ascii_alphanumeric());
    if shaped {
        Ok(())
    } else {
        Err(ParseApiKeyError)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As much as lists show.
        write!(f, "{}***", self.prefix())
    }
}

impl ApiKeyPrefix {
    /// Prefix length in characters: `vk_<env>_`, and four random ones.
    // The contract's length: enough to recognise a key, too little to guess it.
    pub const LEN: usize = 12;

    /// Returns the prefix of `text`, which is formed like a key.
    fn from_key(text: &str) -> Self {
        let mut prefix = [0; Self::LEN];
        // The caller has checked the shape, which is longer.
        prefix.copy_from_slice(&text.as_bytes()[..Self::LEN]);
        Self(prefix)
    }

    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        // It is ASCII.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for ApiKeyPrefix {
    type Err = ParseApiKeyError;

    fn from_str(text: &str) -> Result<Self, ParseApiKeyError> {
        let shaped =
            text.is_ascii() && (text.starts_with("vk_live_") || text.starts_with("vk_test_"));
        match text.as_bytes().try_into() {
            // The last four characters may be anything, since a prefix finds a record or nothing.
            Ok(prefix) if shaped => Ok(Self(prefix)),
            _ => Err(ParseApiKeyError),
        }
    }
}

impl From<ApiKeyPrefix> for String {
    fn from(prefix: ApiKeyPrefix) -> Self {
        prefix.as_str().into()
    }
}

impl fmt::Display for ApiKeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ApiKeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ApiKeyHash {
    fn from_key(text: &str) -> Self {
        // Without a salt or a slow hash: the key itself has 256 random bits.
        Self(Sha256::digest(text).into())
    }
}

impl PartialEq for ApiKeyHash {
    fn eq(&self, other: &Self) -> bool {
        // Response times must not reveal how much of a hash matches.
        self.0.ct_eq(&other.0).into()
    }
}

/// API key record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// Owning project.
    pub project_id: ProjectId,
    /// First twelve characters.
    pub prefix: ApiKeyPrefix,
    /// The operator's note.
    pub label: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Revocation time; absent while the key is valid.
    pub revoked_at: Option<Timestamp>,
    /// Time from which on the key is refused; absent for a key without expiry.
    pub expires_at: Option<Timestamp>,
    /// Day of the last request with the key; absent for an unused key.
    pub last_used_on: Option<Day>,
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
        let sent: ApiKeyLookup = key.reveal().parse().unwrap();
        assert!(sent.hash == key.hash() && sent.prefix == key.prefix());
        assert_eq!(parsed.prefix().as_str(), &key.reveal()[..12]);
        assert!(!format!("{key:?}").contains(&key.reveal()[12..]));
        assert!(key.hash() != ApiKey::generate(Environment::Live).hash());
    }

    #[test]
    fn a_renewed_key_has_the_prefix_and_another_secret() {
        let key = ApiKey::generate(Environment::Test);
        let renewed = ApiKey::renew(&key.prefix());
        assert!(renewed.prefix() == key.prefix() && renewed.hash() != key.hash());
        assert!(renewed.reveal().parse::<ApiKey>().is_ok());
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
            let parsed = text.parse::<ApiKey>().map(|key| key.prefix());
            prop_assert_eq!(text.parse::<ApiKeyLookup>().map(|key| key.prefix), parsed);
            let _ = text.parse::<ApiKeyPrefix>();
        }
    }
}
