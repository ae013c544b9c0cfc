//! The media plane's API key and secret.
//!
//! The secret signs room tokens, so it must outlive a restart. For the embedded media plane, both are generated at the first start and
//! stored in the data directory's `media.key`, which only its owner may read.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use conclave_db::private_file;
use conclave_model::Secret;
use conclave_model::secret::{BASE62, random_text};

use super::Config;

/// Random characters in a generated API key, after `API`.
const KEY_CHARACTERS: usize = 12;
/// Characters in a generated API secret: 256 bits in base 62.
const SECRET_CHARACTERS: usize = 43;

/// API key and secret for the media plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaCredentials {
    /// Key, which is the `iss` claim of room tokens.
    pub api_key: String,
    /// Secret that signs room tokens.
    pub api_secret: Secret,
}

/// Media credentials could not be loaded or created.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct MediaCredentialsError {
    /// File path.
    pub path: String,
    /// Problem with the file.
    pub reason: String,
}

impl MediaCredentialsError {
    fn new(path: &Path, reason: impl ToString) -> Self {
        Self {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }
}

impl MediaCredentials {
    /// Returns the configured credentials, or else the stored ones, which are generated at the first start.
    ///
    /// # Errors
    /// If a file cannot be read or created, has invalid content, or is readable by others.
    pub fn load_or_create(config: &Config, data: &Path) -> Result<Self, MediaCredentialsError> {
        if let Some(stored) = Self::load(config, data)? {
            return Ok(stored);
        }
        let path = key_path(data);
        // Generated only for the embedded media plane: validation requires LiveKit's credentials in the settings.
        let (key, secret) = (
            random_text(KEY_CHARACTERS, BASE62),
            random_text(SECRET_CHARACTERS, BASE62),
        );
        private_file::create(&path, &format!("API{key}\n{secret}\n"))
            .map_err(|error| MediaCredentialsError::new(&path, error))?;
        // Another process may have created the file first, so its content counts.
        read_key_file(&path)?
            .ok_or_else(|| MediaCredentialsError::new(&path, "disappeared after its creation"))
    }

    /// Returns an id that distinguishes these credentials from others without revealing them.
    #[must_use]
    pub fn id(&self) -> String {
        // The key and the secret are separated by a zero byte, so that no two pairs give the same input.
        let mut hasher = blake3::Hasher::new_derive_key("conclave 2026 media credentials id");
        hasher
            .update(self.api_key.as_bytes())
            .update(&[0])
            .update(self.api_secret.reveal().as_bytes());
        hasher.finalize().to_hex()[..8].to_owned()
    }

    /// Returns the configured credentials, or else the stored ones; `None` before the first start.
    ///
    /// # Errors
    /// If a file cannot be read, has invalid content, or is readable by others.
    pub fn load(config: &Config, data: &Path) -> Result<Option<Self>, MediaCredentialsError> {
        match from_config(config)? {
            Some(configured) => Ok(Some(configured)),
            None => read_key_file(&key_path(data)),
        }
    }
}

fn key_path(data: &Path) -> PathBuf {
    data.join("media.key")
}

fn from_config(config: &Config) -> Result<Option<MediaCredentials>, MediaCredentialsError> {
    let media = &config.media;
    let Some(api_key) = media.api_key.clone() else {
        return Ok(None);
    };
    let api_secret = match (&media.api_secret, &media.api_secret_file) {
        (Some(secret), _) => secret.clone(),
        (None, Some(path)) => read_secret_file(path)?,
        // Unreachable after validation, which requires a secret for a key.
        (None, None) => return Ok(None),
    };
    Ok(Some(MediaCredentials {
        api_key,
        api_secret,
    }))
}

fn read_secret_file(path: &Path) -> Result<Secret, MediaCredentialsError> {
    // The file's mode is not checked: secrets mounted into a container are often readable by a group.
    let text = fs::read_to_string(path).map_err(|error| MediaCredentialsError::new(path, error))?;
    match text.trim() {
        "" => Err(MediaCredentialsError::new(
            path,
            "is empty; must contain the media plane's API secret",
        )),
        secret => Ok(Secret::new(secret)),
    }
}

fn read_key_file(path: &Path) -> Result<Option<MediaCredentials>, MediaCredentialsError> {
    let text = match private_file::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(MediaCredentialsError::new(path, error)),
    };
    let mut lines = text.lines().map(str::trim);
    match (lines.next(), lines.next()) {
        (Some(key), Some(secret)) if !key.is_empty() && !secret.is_empty() => {
            Ok(Some(MediaCredentials {
                api_key: key.to_owned(),
                api_secret: Secret::new(secret),
            }))
        }
        _ => Err(MediaCredentialsError::new(
            path,
            "must contain the API key in line 1 and the API secret in line 2",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn credentials_are_generated_once_and_only_their_owner_may_read_them() {
        let (dir, config) = (tempfile::tempdir().unwrap(), Config::default());
        assert!(
            MediaCredentials::load(&config, dir.path())
                .unwrap()
                .is_none()
        );
        let created = MediaCredentials::load_or_create(&config, dir.path()).unwrap();
        assert!(
            created.api_key.starts_with("API")
                && created.api_secret.reveal().len() == SECRET_CHARACTERS
        );
        assert_eq!(
            MediaCredentials::load_or_create(&config, dir.path()).unwrap(),
            created
        );
        assert_eq!(
            MediaCredentials::load(&config, dir.path()).unwrap(),
            Some(created)
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let path = key_path(dir.path());
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = MediaCredentials::load(&config, dir.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn configured_credentials_take_precedence_and_the_secret_may_be_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        fs::write(&file, "from a file\n").unwrap();
        let mut config = Config::default();
        config.media.api_key = Some("APIx".into());
        config.media.api_secret_file = Some(file.clone());
        let found = MediaCredentials::load_or_create(&config, dir.path()).unwrap();
        assert_eq!(
            (found.api_key.as_str(), found.api_secret.reveal()),
            ("APIx", "from a file")
        );
        fs::write(&file, "\n").unwrap();
        assert!(
            MediaCredentials::load(&config, dir.path())
                .unwrap_err()
                .to_string()
                .contains("is empty")
        );
    }
}
