//! Secrets at rest: XChaCha20-Poly1305 under a 256-bit key from a file.
//!
//! A deployment may run without a key (`encryption.key_file = ""`). What the contract wants encrypted in any case, the
//! kept answers that hold secrets, is then sealed under a key derived from the media plane's API secret.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use conclave_model::Secret;
use conclave_model::secret::random_bytes;

const NONCE_LEN: usize = 24;

/// Seals and opens secrets.
pub struct Vault {
    operator: Option<SealKey>,
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
    /// Sealed under a key that this deployment does not have, or damaged.
    #[error("sealed under key {0}, which this deployment does not have, or damaged")]
    Unopenable(String),
}

impl SealKey {
    fn new(key: &[u8; 32]) -> Self {
        let id = blake3::derive_key("conclave 2026 encryption key id", key);
        let id = id[..4].iter().map(|b| format!("{b:02x}")).collect();
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
        let operator = key_file.map(read_or_make).transpose()?.map(|key| SealKey::new(&key));
        Ok(Self { operator, derived: SealKey::new(&derived) })
    }

    /// The id of the deployment's key, if it has one.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        self.operator.as_ref().map(|key| key.id.as_str())
    }

    /// Seals under the deployment's key; `None` when it has none.
    pub(crate) fn seal(&self, plain: &[u8], purpose: &str) -> Option<Sealed> {
        self.operator.as_ref().and_then(|key| seal(key, plain, purpose))
    }

    /// Seals under the deployment's key, or else under the derived one.
    pub(crate) fn seal_always(&self, plain: &[u8], purpose: &str) -> Option<Sealed> {
        seal(self.operator.as_ref().unwrap_or(&self.derived), plain, purpose)
    }

    /// Opens what either seal made for the same purpose.
    pub(crate) fn open_sealed(&self, sealed: &Sealed, purpose: &str) -> Result<Vec<u8>, VaultError> {
        let unopenable = || VaultError::Unopenable(sealed.key_id.clone());
        let mut keys = self.operator.iter().chain([&self.derived]);
        let key = keys.find(|key| key.id == sealed.key_id).ok_or_else(unopenable)?;
        let (nonce, msg) = sealed.bytes.split_at_checked(NONCE_LEN).ok_or_else(unopenable)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| unopenable())?;
        key.cipher.decrypt(&nonce, Payload { msg, aad: purpose.as_bytes() }).map_err(|_| unopenable())
    }
}

fn seal(key: &SealKey, msg: &[u8], purpose: &str) -> Option<Sealed> {
    let nonce: [u8; NONCE_LEN] = random_bytes();
    // Encryption fails only for messages of hundreds of gigabytes.
    let ciphertext = key.cipher.encrypt(&XNonce::from(nonce), Payload { msg, aad: purpose.as_bytes() }).ok()?;
    Some(Sealed { key_id: key.id.clone(), bytes: [nonce.as_slice(), &ciphertext].concat() })
}

fn read_or_make(path: &Path) -> Result<[u8; 32], VaultError> {
    let fail = |reason: String| VaultError::KeyFile { path: path.display().to_string(), reason };
    match fs::read_to_string(path) {
        Ok(text) => {
            let mode = fs::metadata(path).map_err(|e| fail(e.to_string()))?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(fail(format!("others may read it (mode {:o}); chmod 600 it", mode & 0o777)));
            }
            unhex(text.trim()).ok_or_else(|| fail("must hold 64 hex digits".into()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key: [u8; 32] = random_bytes();
            make(path, &key).map_err(|e| fail(e.to_string()))?;
            Ok(key)
        }
        Err(error) => Err(fail(error.to_string())),
    }
}

fn make(path: &Path, key: &[u8; 32]) -> std::io::Result<()> {
    let text: String = key.iter().map(|b| format!("{b:02x}")).chain(["\n".to_owned()]).collect();
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new("media secret")
    }

    #[test]
    fn the_key_file_is_made_once_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("encryption.key");
        let sealed = Vault::open(Some(&path), &secret()).unwrap().seal(b"x", "test").unwrap();
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
        assert!(vault.seal(b"x", "test").is_none());
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
