//! Account, certificate and failed attempts in the data directory.
//!
//! ```text
//! tls/acme-v02.api.letsencrypt.org-directory/account.json
//!                                            meet.example.org.pem    the private key, and the certificate with its issuers'
//!                                            meet.example.org.failures.json    only while attempts fail
//! ```
//!
//! Each CA has a folder, so that a test CA's certificate is never served in place of a real one. The key and its certificate are in one
//! file, so that they always match.

use std::io;
use std::path::{Path, PathBuf};

use conclave_db::private_file;
use conclave_model::Secret;
use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};

use super::schedule::Failures;
use crate::config::AcmeConfig;
use crate::tls::Certificate;

/// Files for one CA and one domain.
#[derive(Debug, Clone)]
pub struct Storage {
    folder: PathBuf,
    domain: String,
}

/// Certificate as issued by the CA.
pub(super) struct Issued {
    /// Certificate chain in PEM, the server's own first.
    pub chain: String,
    /// Private key in PEM.
    pub key: Secret,
}

/// The server's account at the CA.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredAccount {
    /// E-mail address that is registered at the CA.
    pub contact: Option<String>,
    /// The account's URL and private key.
    pub credentials: AccountCredentials,
}

/// Failed attempts since the last success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredFailures {
    /// Number of failures, and the time of the next attempt.
    pub failures: Failures,
    /// Error of the last attempt.
    pub error: String,
}

/// Content of the failures' file.
#[derive(Serialize, Deserialize)]
struct FailuresFile {
    count: usize,
    next: String,
    error: String,
}

impl Storage {
    /// Derives the files' paths. Creates nothing.
    pub fn new(data: &Path, config: &AcmeConfig) -> Self {
        let directory = config.directory.trim_start_matches("https://");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        // The directory's URL becomes one folder name, so it must contain no slash.
        let folder: String = directory
            .chars()
            // Prevents path traversal: a directory's URL may have `..` between slashes.
            .map(|c| if is_plain(c) { c } else { '-' })
            .collect();
        Self {
            folder: data.join("tls").join(folder),
            domain: config.domain.clone(),
        }
    }

    /// Returns the path of the certificate.
    pub fn certificate_path(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.domain))
    }

    /// Reads the certificate; `None` if there is none yet.
    ///
    /// # Errors
    /// If the file cannot be read or used. The message names it.
    pub fn certificate(&self) -> io::Result<Option<Certificate>> {
        let path = self.certificate_path();
        let Some(pem) = read(&path)? else {
            return Ok(None);
        };
        // Both are in this file: each parser skips the other's PEM sections.
        let certificate = Certificate::from_pem(pem.as_bytes(), pem.as_bytes());
        certificate
            .map(Some)
            .map_err(|error| named(&path, io::Error::other(error)))
    }

    /// Writes the certificate.
    pub(super) fn store_certificate(&self, issued: &Issued) -> io::Result<()> {
        let key = issued.key.reveal();
        self.write(
            &self.certificate_path(),
            &format!("{}\n{}", key.trim_end(), issued.chain),
        )
    }

    /// Reads the account; `None` if there is none yet.
    pub(super) fn account(&self) -> io::Result<Option<StoredAccount>> {
        let path = self.account_path();
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        // The parser's error could quote the key, so it is dropped.
        let malformed = || {
            named(
                &path,
                io::Error::other("is not an account; remove it to register another one"),
            )
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| malformed())
    }

    /// Writes the account.
    pub(super) fn store_account(&self, account: &StoredAccount) -> io::Result<()> {
        self.write(&self.account_path(), &serde_json::to_string(account)?)
    }

    /// Records the changed contact.
    pub(super) fn store_contact(&self, contact: Option<String>) -> io::Result<()> {
        // Read again, so that only the contact changes.
        self.account()?.map_or(Ok(()), |account| {
            self.store_account(&StoredAccount { contact, ..account })
        })
    }

    /// Removes the account, which the CA does not know.
    pub(super) fn remove_account(&self) -> io::Result<()> {
        std::fs::remove_file(self.account_path())
    }

    /// Returns the path of the failed attempts.
    pub(super) fn failures_path(&self) -> PathBuf {
        self.folder.join(format!("{}.failures.json", self.domain))
    }

    /// Reads the failed attempts; `None` if the last one succeeded.
    pub(super) fn failures(&self) -> io::Result<Option<StoredFailures>> {
        let path = self.failures_path();
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let malformed = || {
            named(
                &path,
                io::Error::other("has no failed attempts in the expected format"),
            )
        };
        let file: FailuresFile = serde_json::from_str(&text).map_err(|_| malformed())?;
        // As text, so that an operator can read when the next attempt is due.
        let next = file.next.parse().map_err(|_| malformed())?;
        Ok(Some(StoredFailures {
            failures: Failures {
                count: file.count,
                next,
            },
            error: file.error,
        }))
    }

    /// Writes the failed attempts, or removes the file if there are none.
    pub(super) fn store_failures(&self, stored: Option<StoredFailures>) -> io::Result<()> {
        let path = self.failures_path();
        let Some(StoredFailures { failures, error }) = stored else {
            return match std::fs::remove_file(&path) {
                // Usually there is no file, since most attempts succeed.
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(named(&path, error)),
                _ => Ok(()),
            };
        };
        let file = FailuresFile {
            count: failures.count,
            next: failures.next.to_string(),
            error,
        };
        self.write(&path, &serde_json::to_string(&file)?)
    }

    fn account_path(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // With mode 0700, since the files have private keys.
        private_file::create_directory(&self.folder).map_err(|error| named(&self.folder, error))?;
        private_file::write(path, text).map_err(|error| named(path, error))
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match private_file::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(path, error)),
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::TlsConfig;

    fn storage(data: &Path, directory: &str) -> Storage {
        let domain = crate::config::HostName::parse("meet.example.org");
        let config = TlsConfig {
            domain,
            acme_directory: directory.to_owned(),
            ..TlsConfig::default()
        };
        Storage::new(data, &config.acme().unwrap())
    }

    fn issued() -> Issued {
        let made = rcgen::generate_simple_self_signed(["meet.example.org".to_owned()]).unwrap();
        Issued {
            chain: made.cert.pem(),
            key: Secret::new(made.signing_key.serialize_pem()),
        }
    }

    #[test]
    fn each_ca_has_its_own_files_which_only_their_owner_can_read() {
        let data = tempfile::tempdir().unwrap();
        let [one, other] = [
            "https://ca.example/a/directory",
            "https://ca.example:444/a/directory",
        ]
        .map(|directory| storage(data.path(), directory));
        assert!(one.certificate().unwrap().is_none() && one.account().unwrap().is_none());
        one.store_certificate(&issued()).unwrap();
        one.store_certificate(&issued()).unwrap();
        assert_eq!(
            one.certificate().unwrap().unwrap().names,
            ["meet.example.org"]
        );
        assert!(other.certificate().unwrap().is_none());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            one.certificate_path(),
            data.path()
                .join("tls/ca.example-a-directory/meet.example.org.pem")
        );
        assert_eq!(
            (
                mode(&one.certificate_path()),
                mode(&one.folder),
                mode(&data.path().join("tls"))
            ),
            (0o600, 0o700, 0o700)
        );
    }

    #[test]
    fn failures_are_kept_for_a_domain_and_a_ca_until_they_are_over() {
        let data = tempfile::tempdir().unwrap();
        let [one, other] = ["https://ca.example/a", "https://ca.example/b"]
            .map(|directory| storage(data.path(), directory));
        let failures = Failures {
            count: 3,
            next: "2026-03-01T12:32:00Z".parse().unwrap(),
        };
        let stored = StoredFailures {
            failures,
            error: "the CA said \"no\"".into(),
        };
        one.store_failures(Some(stored.clone())).unwrap();
        assert_eq!(
            (one.failures().unwrap(), other.failures().unwrap()),
            (Some(stored), None)
        );
        let mode = std::fs::metadata(one.failures_path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        for _ in 0..2 {
            one.store_failures(None).unwrap();
            assert_eq!(one.failures().unwrap(), None);
        }
        for broken in ["", "{}", r#"{"count": 1, "next": "soon", "error": ""}"#] {
            one.write(&one.failures_path(), broken).unwrap();
            let error = one.failures().unwrap_err().to_string();
            assert!(
                error.ends_with(
                    "meet.example.org.failures.json: has no failed attempts in the expected format"
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named_and_not_quoted() {
        let data = tempfile::tempdir().unwrap();
        let storage = storage(data.path(), "https://ca.example/directory");
        storage
            .write(&storage.account_path(), "{\"key\": \"hush\"}")
            .unwrap();
        storage.write(&storage.certificate_path(), "hush").unwrap();
        let account = storage.account().err().unwrap().to_string();
        let certificate = storage.certificate().err().unwrap().to_string();
        assert!(
            account.contains("account.json: is not an account") && !account.contains("hush"),
            "{account}"
        );
        assert!(
            certificate.ends_with("meet.example.org.pem: no certificate in PEM"),
            "{certificate}"
        );
    }
}
