//! A certificate in files, which another program renews.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{Certificate, Certificates};
use crate::config::ConfigError;

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(1);

/// The files of a certificate and of its private key.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    cert: PathBuf,
    key: PathBuf,
}

/// By what a change of the files is noticed: the time and the size of each, if it exists.
type Version = [Option<(SystemTime, u64)>; 2];

impl CertificateFiles {
    /// Names the files of `tls.cert` and `tls.key`.
    pub const fn new(cert: PathBuf, key: PathBuf) -> Self {
        Self { cert, key }
    }

    /// Reads the certificate.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it should. The message names the setting and the file.
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

    /// Replaces the certificate whenever the files have changed, until the runtime ends. While they cannot be used, as in the
    /// middle of a renewal, the present one stays.
    pub fn watch(self, certificates: Certificates) {
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
                        log::warn!(error:%, expires; "the changed certificate cannot be used, so the one before stays");
                    }
                }
            }
        });
    }

    /// Reads the certificate if its files are not of this version any more. Returns their version of now as well.
    fn load_changed(&self, known: &Version) -> Option<(Version, Result<Certificate, ConfigError>)> {
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
