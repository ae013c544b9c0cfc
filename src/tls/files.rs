//! Certificate in files, which another program renews.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{Certificate, Certificates};
use crate::config::ConfigError;

/// Interval between checks of the files.
const POLL: Duration = Duration::from_secs(1);

/// Files of a certificate and its private key.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    cert: PathBuf,
    key: PathBuf,
}

/// Version of the files: modification time and size of each, if it exists.
type Version = [Option<(SystemTime, u64)>; 2];

impl CertificateFiles {
    /// Creates the pair of `tls.cert` and `tls.key`.
    pub const fn new(cert: PathBuf, key: PathBuf) -> Self {
        Self { cert, key }
    }

    /// Reads the certificate.
    ///
    /// # Errors
    /// If a file cannot be read or has the wrong content. The message names the setting and the file.
    pub fn load(&self) -> Result<Certificate, ConfigError> {
        let read = |setting: &str, path: &PathBuf| {
            let failed = |error| {
                ConfigError::new(
                    setting,
                    format!("{} cannot be read: {error}", path.display()),
                )
            };
            std::fs::read(path).map_err(failed)
        };
        let (chain, key) = (read("tls.cert", &self.cert)?, read("tls.key", &self.key)?);
        Certificate::from_pem(&chain, &key).map_err(|error| {
            let files = format!(
                "{} with tls.key {}: {error}",
                self.cert.display(),
                self.key.display()
            );
            ConfigError::new("tls.cert", files)
        })
    }

    /// Replaces the certificate whenever the files change, until the runtime ends. While they are unusable, as in the middle of a renewal,
    /// the current certificate stays.
    pub fn watch(self, certificates: Certificates) {
        // Polling also notices a container volume's update, which replaces a symbolic link instead of the file.
        // Read before the task starts, so that a change during the start is detected.
        let mut known = self.version();
        tokio::spawn(async move {
            let mut poll = tokio::time::interval(POLL);
            loop {
                poll.tick().await;
                let files = self.clone();
                let changed = tokio::task::spawn_blocking(move || files.load_changed(&known)).await;
                let Ok(Some((version, loaded))) = changed else {
                    continue;
                };
                // Remembered even if the files are unusable, so that the warning is logged once per change.
                known = version;
                match loaded {
                    Ok(certificate) => {
                        log::info!(expires:% = certificate.not_after; "the certificate was read again");
                        certificates.replace(certificate);
                    }
                    Err(error) => {
                        let expires = certificates
                            .current()
                            .map(|certificate| certificate.not_after.to_string());
                        let expires = expires.unwrap_or_default();
                        log::warn!(error:%, expires; "the changed certificate cannot be used; the current one stays");
                    }
                }
            }
        });
    }

    /// Reads the certificate if its files have changed. Also returns their version.
    fn load_changed(&self, known: &Version) -> Option<(Version, Result<Certificate, ConfigError>)> {
        // Read before the content: if the files change in between, the next check reads them again.
        let version = self.version();
        (version != *known).then(|| (version, self.load()))
    }

    fn version(&self) -> Version {
        [&self.cert, &self.key].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_read_once_they_fit() {
        let directory = tempfile::tempdir().unwrap();
        let files = CertificateFiles::new(
            directory.path().join("cert.pem"),
            directory.path().join("key.pem"),
        );
        let missing = files.version();
        assert!(
            files
                .load()
                .unwrap_err()
                .to_string()
                .starts_with("tls.cert: ")
        );
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&files.cert, made.cert.pem()).unwrap();
        let (half, loaded) = files.load_changed(&missing).unwrap();
        assert!(loaded.unwrap_err().to_string().starts_with("tls.key: "));
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        let (whole, loaded) = files.load_changed(&half).unwrap();
        assert_eq!(loaded.unwrap().names, ["localhost"]);
        assert!(files.load_changed(&whole).is_none());
    }
}
