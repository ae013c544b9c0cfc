//! The media plane's API key and secret. Room tokens are signed with the secret, so it must outlive a restart: the
//! embedded plane makes both at first start and keeps them in the data directory, readable by their owner only.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use conclave_model::Secret;
use conclave_model::secret::{BASE62, random_text};

use super::Config;

/// Random characters in a key and in a secret that are made here.
const KEY_CHARACTERS: usize = 12;
const SECRET_CHARACTERS: usize = 43;

/// What the control plane proves itself to the media plane with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaCredentials {
    /// Names the key: `iss` of room tokens.
    pub api_key: String,
    /// Signs room tokens.
    pub api_secret: Secret,
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct MediaCredentialsError {
    /// The file at fault.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl MediaCredentials {
    /// Those that are configured, or else those kept in the data directory, which are made when there are none.
    ///
    /// # Errors
    /// A file that cannot be read or made, holds something else, or can be read by others.
    pub fn load_or_create(config: &Config, data: &Path) -> Result<Self, MediaCredentialsError> {
        if let Some(configured) = configured(config)? {
            return Ok(configured);
        }
        let path = kept_in(data);
        if let Some(kept) = read(&path)? {
            return Ok(kept);
        }
        make(&path).map_err(|error| fail(&path, error.to_string()))?;
        // Read back, since another process may have been first.
        read(&path)?.ok_or_else(|| fail(&path, "vanished as it was made"))
    }

    /// As [`MediaCredentials::load_or_create`], but makes nothing: `None` before the first start.
    ///
    /// # Errors
    /// The same.
    pub fn load(config: &Config, data: &Path) -> Result<Option<Self>, MediaCredentialsError> {
        match configured(config)? {
            Some(configured) => Ok(Some(configured)),
            None => read(&kept_in(data)),
        }
    }
}

fn kept_in(data: &Path) -> PathBuf {
    data.join("media.key")
}

fn fail(path: &Path, reason: impl Into<String>) -> MediaCredentialsError {
    MediaCredentialsError { path: path.display().to_string(), reason: reason.into() }
}

fn configured(config: &Config) -> Result<Option<MediaCredentials>, MediaCredentialsError> {
    let media = &config.media;
    let Some(api_key) = media.api_key.clone() else { return Ok(None) };
    let api_secret = match (&media.api_secret, &media.api_secret_file) {
        (Some(secret), _) => secret.clone(),
        (None, Some(path)) => secret_in(path)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(MediaCredentials { api_key, api_secret }))
}

fn secret_in(path: &Path) -> Result<Secret, MediaCredentialsError> {
    // Mounted secrets are often readable by a group, so the mode is left to the operator here.
    let text = fs::read_to_string(path).map_err(|error| fail(path, error.to_string()))?;
    match text.trim() {
        "" => Err(fail(path, "is empty; must hold the media plane's API secret")),
        secret => Ok(Secret::new(secret)),
    }
}

fn read(path: &Path) -> Result<Option<MediaCredentials>, MediaCredentialsError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(path, error.to_string())),
    };
    let mode = fs::metadata(path).map_err(|error| fail(path, error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(fail(path, format!("others may read it (mode {:o}); chmod 600 it", mode & 0o777)));
    }
    let mut lines = text.lines().map(str::trim);
    match (lines.next(), lines.next()) {
        (Some(key), Some(secret)) if !key.is_empty() && !secret.is_empty() => {
            Ok(Some(MediaCredentials { api_key: key.to_owned(), api_secret: Secret::new(secret) }))
        }
        _ => Err(fail(path, "must hold the API key in its first line and the API secret in its second")),
    }
}

/// Writes fresh credentials beside `path` and links them there, so that nobody sees half a file and nobody's is
/// overwritten.
fn make(path: &Path) -> io::Result<()> {
    let draft = path.with_extension(format!("key-{}", random_text(8, BASE62)));
    let linked = write(&draft).and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    // It is another name of the same file by now, or of nothing anybody needs.
    let _ = fs::remove_file(&draft);
    linked
}

fn write(draft: &Path) -> io::Result<()> {
    let (key, secret) = (random_text(KEY_CHARACTERS, BASE62), random_text(SECRET_CHARACTERS, BASE62));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(format!("API{key}\n{secret}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_made_once_and_only_their_owner_may_read_them() {
        let (dir, config) = (tempfile::tempdir().unwrap(), Config::default());
        assert!(MediaCredentials::load(&config, dir.path()).unwrap().is_none());
        let made = MediaCredentials::load_or_create(&config, dir.path()).unwrap();
        assert!(made.api_key.starts_with("API") && made.api_secret.reveal().len() == SECRET_CHARACTERS);
        assert_eq!(MediaCredentials::load_or_create(&config, dir.path()).unwrap(), made);
        assert_eq!(MediaCredentials::load(&config, dir.path()).unwrap(), Some(made));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let path = kept_in(dir.path());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = MediaCredentials::load(&config, dir.path()).unwrap_err().to_string();
        assert!(refusal.contains("chmod 600"), "{refusal}");
    }

    #[test]
    fn configured_ones_win_and_a_secret_may_come_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        fs::write(&file, "from a file\n").unwrap();
        let mut config = Config::default();
        config.media.api_key = Some("APIx".into());
        config.media.api_secret_file = Some(file.clone());
        let found = MediaCredentials::load_or_create(&config, dir.path()).unwrap();
        assert_eq!((found.api_key.as_str(), found.api_secret.reveal()), ("APIx", "from a file"));
        fs::write(&file, "\n").unwrap();
        assert!(MediaCredentials::load(&config, dir.path()).unwrap_err().to_string().contains("is empty"));
    }
}
