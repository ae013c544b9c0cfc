//! Secrets at rest: XChaCha20-Poly1305 under a 256-bit key from a file.
//!
//! A deployment may run without a key (`encryption.key_file = ""`). What the contract wants encrypted in any case, the
//! kept answers that hold secrets, is then sealed under a key derived from the media plane's API secret.

mod key_file;

use std::fmt;
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use conclave_model::Secret;
use conclave_model::secret::random_bytes;

use key_file::KeyFile;

const NONCE_LEN: usize = 24;

/// Seals and opens secrets.
pub struct Vault {
    operator: Option<KeyFile>,
    derived: SealKey,
}

struct SealKey {
    id: String,
    cipher: XChaCha20Poly1305,
}

/// A secret at rest: ciphertext, and the id of the key it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) key_id: String,
    pub(crate) bytes: Vec<u8>,
}

/// Why the vault could not be made or could not open something.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The key file cannot be read or made.
    #[error("encryption.key_file {path}: {reason}")]
    KeyFile {
        /// Which file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Longer than the cipher takes, which is hundreds of gigabytes.
    #[error("too long to be sealed")]
    TooLong,
    /// Sealed under a key that this deployment does not have, or damaged.
    #[error("sealed under key {0}, which this deployment does not have, or damaged")]
    Unopenable(String),
}

impl SealKey {
    fn new(key: &[u8; 32]) -> Self {
        let id = blake3::derive_key("conclave 2026 encryption key id", key);
        let id = hex::encode(&id[..4]);
        Self { id, cipher: XChaCha20Poly1305::new(key.into()) }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("key_id", &self.key_id()).finish()
    }
}

impl Vault {
    /// A vault with the key in `key_file`, which is made (mode 0600) when it does not exist, or without one.
    ///
    /// # Errors
    /// A file that cannot be read or made, holds no key, or can be read by others.
    pub fn open(key_file: Option<&Path>, api_secret: &Secret) -> Result<Self, VaultError> {
        let derived = blake3::derive_key("conclave 2026 kept answers", api_secret.reveal().as_bytes());
        let operator = key_file.map(KeyFile::open).transpose()?;
        Ok(Self { operator, derived: SealKey::new(&derived) })
    }

    /// The id of the deployment's key, if it has one.
    #[must_use]
    pub fn key_id(&self) -> Option<String> {
        self.operator.as_ref().map(KeyFile::known_id)
    }

    /// Whether the deployment has a key.
    pub(crate) fn has_key(&self) -> bool {
        self.operator.is_some()
    }

    /// Whether a rotation of the deployment's key has begun and not ended.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.operator.as_ref().is_some_and(KeyFile::is_rotating)
    }

    /// Seals under the deployment's key; `None` when it has none.
    ///
    /// # Errors
    /// A key file that cannot be read any more.
    ///
    /// The key file is looked at each time. A write that seals does so inside its transaction: so whatever is sealed after
    /// a rotation's transaction is sealed under the new key.
    pub(crate) fn seal(&self, plain: &[u8], purpose: &str) -> Result<Option<Sealed>, VaultError> {
        let key = self.operator.as_ref().map(KeyFile::current).transpose()?;
        key.map(|key| seal(&key, plain, purpose)).transpose()
    }

    /// Seals under the deployment's key, or else under the derived one.
    ///
    /// # Errors
    /// As for [`Self::seal`].
    pub(crate) fn seal_always(&self, plain: &[u8], purpose: &str) -> Result<Sealed, VaultError> {
        match self.seal(plain, purpose)? {
            Some(sealed) => Ok(sealed),
            None => seal(&self.derived, plain, purpose),
        }
    }

    /// Whether `key_id` names the key that is derived and so never rotated.
    pub(crate) fn is_derived(&self, key_id: &str) -> bool {
        self.derived.id == key_id
    }

    /// Puts a new key before the deployment's, and gives the ids of the old one and of the new one; `None` when it has
    /// none. Until [`Self::end_rotation`] both open.
    pub(crate) fn begin_rotation(&self) -> Result<Option<(String, String)>, VaultError> {
        self.operator.as_ref().map(KeyFile::begin_rotation).transpose()
    }

    /// Drops the old key. Only when nothing needs it any more.
    pub(crate) fn end_rotation(&self) -> Result<(), VaultError> {
        self.operator.as_ref().map_or(Ok(()), KeyFile::end_rotation)
    }

    /// Opens what either seal made for the same purpose.
    pub(crate) fn open_sealed(&self, sealed: &Sealed, purpose: &str) -> Result<Vec<u8>, VaultError> {
        let unopenable = || VaultError::Unopenable(sealed.key_id.clone());
        let operator = || self.operator.as_ref().and_then(|file| file.find(&sealed.key_id));
        let found = if self.is_derived(&sealed.key_id) { None } else { Some(operator().ok_or_else(unopenable)?) };
        let key = found.as_deref().unwrap_or(&self.derived);
        let (nonce, msg) = sealed.bytes.split_at_checked(NONCE_LEN).ok_or_else(unopenable)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| unopenable())?;
        key.cipher.decrypt(&nonce, Payload { msg, aad: purpose.as_bytes() }).map_err(|_| unopenable())
    }
}

fn seal(key: &SealKey, msg: &[u8], purpose: &str) -> Result<Sealed, VaultError> {
    let nonce: [u8; NONCE_LEN] = random_bytes();
    let ciphertext = key.cipher.encrypt(&XNonce::from(nonce), Payload { msg, aad: purpose.as_bytes() });
    let ciphertext = ciphertext.map_err(|_| VaultError::TooLong)?;
    Ok(Sealed { key_id: key.id.clone(), bytes: [nonce.as_slice(), &ciphertext].concat() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn secret() -> Secret {
        Secret::new("media secret")
    }

    #[test]
    fn the_key_file_is_made_once_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("encryption.key");
        let sealed = Vault::open(Some(&path), &secret()).unwrap().seal(b"x", "test").unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Vault::open(Some(&path), &secret()).unwrap();
        assert_eq!(again.open_sealed(&sealed, "test").unwrap(), b"x");
        assert!(again.open_sealed(&sealed, "another purpose").is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Vault::open(Some(&path), &secret()).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn without_a_key_only_what_must_be_sealed_is() {
        let vault = Vault::open(None, &secret()).unwrap();
        assert!(vault.seal(b"x", "test").unwrap().is_none());
        let sealed = vault.seal_always(b"x", "test").unwrap();
        assert_eq!(vault.open_sealed(&sealed, "test").unwrap(), b"x");
        let other = Vault::open(None, &Secret::new("another")).unwrap();
        assert!(other.open_sealed(&sealed, "test").is_err());
    }

    #[test]
    fn damage_is_noticed() {
        let vault = Vault::open(None, &secret()).unwrap();
        let mut sealed = vault.seal_always(b"hello", "test").unwrap();
        sealed.bytes[30] ^= 1;
        assert!(vault.open_sealed(&sealed, "test").is_err());
        sealed.bytes.truncate(3);
        assert!(vault.open_sealed(&sealed, "test").is_err());
    }
}
