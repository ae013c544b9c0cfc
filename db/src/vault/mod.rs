//! Encryption of stored secrets: XChaCha20-Poly1305 under a 256-bit key from a file.
//!
//! A deployment may run without a key (`encryption.key_file = ""`). Stored responses with secrets, which must be encrypted in any case, are
//! then sealed under a key derived from the media plane's API secret.

mod key_file;

use std::fmt;
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use conclave_model::Secret;
use conclave_model::secret::random_bytes;

use key_file::KeyFile;
pub(crate) use key_file::RotatedKeys;

const NONCE_LEN: usize = 24;

/// Seals (encrypts) and opens (decrypts) secrets.
pub struct Vault {
    /// The deployment's key, which its operator can rotate.
    deployment: Option<KeyFile>,
    /// Key derived from the API secret. Never rotated.
    derived: SealKey,
}

struct SealKey {
    /// Eight hex digits, derived from the key.
    id: String,
    cipher: XChaCha20Poly1305,
}

/// Encrypted secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// Id of the key that opens it.
    pub(crate) key_id: String,
    /// Nonce, followed by the ciphertext.
    pub(crate) bytes: Vec<u8>,
}

/// Reason why a vault could not be opened, or a secret could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The key file cannot be read, created or replaced.
    #[error("encryption.key_file {path}: {reason}")]
    KeyFile {
        /// Key file path.
        path: String,
        /// Cause, for the operator.
        reason: String,
    },
    /// The secret is longer than the cipher allows, which is hundreds of gigabytes.
    #[error("too long to be sealed")]
    TooLong,
    /// The secret was sealed under the key with this id, which the deployment does not have, or it is damaged.
    #[error("sealed under key {0}, which this deployment does not have, or damaged")]
    Unopenable(String),
}

impl SealKey {
    fn new(key: &[u8; 32]) -> Self {
        // Derived with a context of its own, so the id reveals nothing about the key.
        let id = blake3::derive_key("conclave 2026 encryption key id", key);
        // Four bytes are enough to distinguish the few keys of a deployment.
        let id = hex::encode(&id[..4]);
        Self {
            id,
            cipher: XChaCha20Poly1305::new(key.into()),
        }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault")
            // Only the id: keys never appear in logs.
            .field("key_id", &self.key_id())
            .finish()
    }
}

impl Vault {
    /// Opens a vault with the key in `key_file`, or without a key. Creates a missing file with mode 0600 and a random key.
    ///
    /// # Errors
    /// If the file cannot be read or created, contains no key, or can be read by others.
    pub fn open(key_file: Option<&Path>, api_secret: &Secret) -> Result<Self, VaultError> {
        // The context string is from an earlier name of the stored responses. A change would make them unreadable.
        let derived =
            blake3::derive_key("conclave 2026 kept answers", api_secret.reveal().as_bytes());
        let deployment = key_file.map(KeyFile::open).transpose()?;
        Ok(Self {
            deployment,
            derived: SealKey::new(&derived),
        })
    }

    /// Returns the deployment's key id; `None` if it has none.
    #[must_use]
    pub fn key_id(&self) -> Option<String> {
        self.deployment.as_ref().map(KeyFile::known_id)
    }

    /// Returns the ids of the keys that open the deployment's secrets, the sealing one first; none if it has no key. Reads the key file.
    ///
    /// # Errors
    /// If the key file can no longer be read.
    pub fn key_ids(&self) -> Result<Vec<String>, VaultError> {
        self.deployment
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), KeyFile::ids)
    }

    /// Returns whether the deployment has a key.
    pub(crate) fn has_key(&self) -> bool {
        self.deployment.is_some()
    }

    /// Returns whether a rotation of the deployment's key is unfinished.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.deployment.as_ref().is_some_and(KeyFile::is_rotating)
    }

    /// Seals under the deployment's key with id `key`, or its first one; `None` if it has no key.
    ///
    /// Reads the key file each time. A write job seals inside its transaction, so everything sealed after a rotation's transaction is
    /// sealed under the new key.
    ///
    /// # Errors
    /// If the key file can no longer be read, or does not contain the key.
    pub(crate) fn seal(
        &self,
        key: Option<&str>,
        plain: &[u8],
        purpose: &str,
    ) -> Result<Option<Sealed>, VaultError> {
        // The file is read again here, so a key that was rotated a moment ago is found.
        let key = self
            .deployment
            .as_ref()
            .map(|file| file.sealing(key))
            .transpose()?;
        key.map(|key| seal(&key, plain, purpose)).transpose()
    }

    /// Seals under the deployment's key, or under the derived key if it has none.
    ///
    /// # Errors
    /// Fails as [`Self::seal`] does.
    pub(crate) fn seal_always(
        &self,
        key: Option<&str>,
        plain: &[u8],
        purpose: &str,
    ) -> Result<Sealed, VaultError> {
        match self.seal(key, plain, purpose)? {
            // A deployment with a key uses it for everything, so that a rotation covers it.
            Some(sealed) => Ok(sealed),
            None => seal(&self.derived, plain, purpose),
        }
    }

    /// Returns whether `key_id` is the derived key, which is never rotated.
    pub(crate) fn is_derived(&self, key_id: &str) -> bool {
        self.derived.id == key_id
    }

    /// Puts a new key before the deployment's key in the key file; `None` if it has no key. Until [`Self::end_rotation`], both keys open.
    pub(crate) fn begin_rotation(&self) -> Result<Option<RotatedKeys>, VaultError> {
        self.deployment
            .as_ref()
            .map(KeyFile::begin_rotation)
            .transpose()
    }

    /// Deletes the old key from the key file, once nothing needs it.
    pub(crate) fn end_rotation(&self) -> Result<(), VaultError> {
        self.deployment
            .as_ref()
            .map_or(Ok(()), KeyFile::end_rotation)
    }

    /// Adds a new key to the end of the key file, where it opens, but seals only if the records name it. Does nothing without a key.
    pub(crate) fn add_key(&self) -> Result<(), VaultError> {
        self.deployment.as_ref().map_or(Ok(()), KeyFile::add)
    }

    /// Deletes all keys except `id` from the key file, which must contain it.
    pub(crate) fn keep_only(&self, id: &str) -> Result<(), VaultError> {
        self.deployment
            .as_ref()
            .map_or(Ok(()), |file| file.keep_only(id))
    }

    /// Opens a secret that was sealed for the same purpose, under the deployment's or the derived key.
    pub(crate) fn open_sealed(
        &self,
        sealed: &Sealed,
        purpose: &str,
    ) -> Result<Vec<u8>, VaultError> {
        let unopenable = || VaultError::Unopenable(sealed.key_id.clone());
        let deployment = || {
            self.deployment
                .as_ref()
                .and_then(|file| file.find(&sealed.key_id))
        };
        // The derived key is not in the key file, so the file is not read for it.
        let found = if self.is_derived(&sealed.key_id) {
            None
        } else {
            Some(deployment().ok_or_else(unopenable)?)
        };
        let key = found.as_deref().unwrap_or(&self.derived);
        // A damaged row may be shorter than a nonce.
        let (nonce, msg) = sealed
            .bytes
            .split_at_checked(NONCE_LEN)
            .ok_or_else(unopenable)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| unopenable())?;
        // The purpose is authenticated: a ciphertext that is moved to another column or row does not open.
        key.cipher
            .decrypt(
                &nonce,
                Payload {
                    msg,
                    aad: purpose.as_bytes(),
                },
            )
            .map_err(|_| unopenable())
    }
}

fn seal(key: &SealKey, msg: &[u8], purpose: &str) -> Result<Sealed, VaultError> {
    // Random: 24 bytes are enough that nonces do not repeat, without a counter.
    let nonce: [u8; NONCE_LEN] = random_bytes();
    let ciphertext = key.cipher.encrypt(
        &XNonce::from(nonce),
        Payload {
            msg,
            aad: purpose.as_bytes(),
        },
    );
    let ciphertext = ciphertext.map_err(|_| VaultError::TooLong)?;
    Ok(Sealed {
        key_id: key.id.clone(),
        bytes: [nonce.as_slice(), &ciphertext].concat(),
    })
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
    fn the_key_file_is_created_once_and_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("encryption.key");
        let sealed = Vault::open(Some(&path), &secret())
            .unwrap()
            .seal(None, b"x", "test")
            .unwrap()
            .unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let again = Vault::open(Some(&path), &secret()).unwrap();
        assert_eq!(again.open_sealed(&sealed, "test").unwrap(), b"x");
        assert!(again.open_sealed(&sealed, "another purpose").is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            Vault::open(Some(&path), &secret())
                .unwrap_err()
                .to_string()
                .contains("chmod 600")
        );
    }

    #[test]
    fn without_a_key_only_secrets_that_must_be_encrypted_are_sealed() {
        let vault = Vault::open(None, &secret()).unwrap();
        assert!(vault.seal(None, b"x", "test").unwrap().is_none());
        let sealed = vault.seal_always(None, b"x", "test").unwrap();
        assert_eq!(vault.open_sealed(&sealed, "test").unwrap(), b"x");
        let other = Vault::open(None, &Secret::new("another")).unwrap();
        assert!(other.open_sealed(&sealed, "test").is_err());
    }

    #[test]
    fn a_vault_tells_its_keys_apart_and_whether_they_are_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("encryption.key");
        let vault = Vault::open(Some(&path), &secret()).unwrap();
        let sealed = vault.seal_always(None, b"x", "test").unwrap();
        assert!(vault.has_key() && !vault.is_rotating() && !vault.is_derived(&sealed.key_id));
        assert_eq!(vault.key_id().as_ref(), Some(&sealed.key_id));
        let RotatedKeys { old, new } = vault.begin_rotation().unwrap().unwrap();
        assert_eq!(
            (old, Some(new), vault.is_rotating()),
            (sealed.key_id.clone(), vault.key_id(), true)
        );
        vault.end_rotation().unwrap();
        assert!(!vault.is_rotating());
        let later = Vault::open(Some(&path), &secret()).unwrap();
        assert!(
            matches!(later.open_sealed(&sealed, "test"), Err(VaultError::Unopenable(id)) if id == sealed.key_id)
        );

        let keyless = Vault::open(None, &secret()).unwrap();
        assert!(!keyless.has_key() && !keyless.is_rotating() && keyless.key_id().is_none());
        assert!(keyless.is_derived(&keyless.seal_always(None, b"x", "test").unwrap().key_id));
        assert!(keyless.begin_rotation().unwrap().is_none() && keyless.end_rotation().is_ok());
    }

    #[test]
    fn a_damaged_secret_is_not_opened() {
        let vault = Vault::open(None, &secret()).unwrap();
        let mut sealed = vault.seal_always(None, b"hello", "test").unwrap();
        sealed.bytes[30] ^= 1;
        assert!(vault.open_sealed(&sealed, "test").is_err());
        sealed.bytes.truncate(3);
        assert!(vault.open_sealed(&sealed, "test").is_err());
    }
}
