//! The account and the certificate in the data directory.
//!
//! ```text
//! tls/acme-v02.api.letsencrypt.org-directory/account.json
//!                                            meet.example.org.pem    the private key, and the certificate with its issuers'
//! ```
//!
//! Each CA has a folder, so that a certificate of a CA for tests is never served in the place of a real one. The key and its
//! certificate are in one file, so that they always fit.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use conclave_db::private_file;
use conclave_model::Secret;
use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};

use crate::config::AcmeConfig;
use crate::tls::Certificate;

/// The files of one CA and one domain.
#[derive(Debug, Clone)]
pub struct Storage {
    folder: PathBuf,
    domain: String,
}

/// A certificate as the CA has issued it.
pub(super) struct Issued {
    /// The certificate with those of its issuers, in PEM.
    pub chain: String,
    /// The private key, in PEM.
    pub key: Secret,
}

/// The server's account at the CA.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredAccount {
    /// The e-mail address that the CA was given.
    pub contact: Option<String>,
    /// The url of the account and its private key.
    pub credentials: AccountCredentials,
}

impl Storage {
    /// Names the files. Creates nothing.
    #[must_use]
    pub fn new(data: &Path, config: &AcmeConfig) -> Self {
        let directory = config.directory.trim_start_matches("https://");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let folder: String = directory.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        Self { folder: data.join("tls").join(folder), domain: config.domain.clone() }
    }

    /// Returns the file of the certificate.
    #[must_use]
    pub fn certificate_path(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.domain))
    }

    /// Reads the certificate; `None` if there is none yet.
    ///
    /// # Errors
    /// The file cannot be read or used. The message names it.
    pub fn certificate(&self) -> io::Result<Option<Certificate>> {
        let path = self.certificate_path();
        let Some(pem) = read(&path)? else { return Ok(None) };
        let certificate = Certificate::from_pem(pem.as_bytes(), pem.as_bytes());
        certificate.map(Some).map_err(|error| named(&path, io::Error::other(error)))
    }

    /// Writes the certificate.
    pub(super) fn store_certificate(&self, issued: &Issued) -> io::Result<()> {
        let key = issued.key.reveal();
        self.write(&self.certificate_path(), &format!("{}\n{}", key.trim_end(), issued.chain))
    }

    /// Reads the account; `None` if there is none yet.
    pub(super) fn account(&self) -> io::Result<Option<StoredAccount>> {
        let path = self.account_path();
        let Some(text) = read(&path)? else { return Ok(None) };
        // The error of the parser could quote the key.
        let malformed = || named(&path, io::Error::other("is no account; remove it, and another one is registered"));
        serde_json::from_str(&text).map(Some).map_err(|_| malformed())
    }

    /// Writes the account.
    pub(super) fn store_account(&self, account: &StoredAccount) -> io::Result<()> {
        self.write(&self.account_path(), &serde_json::to_string(account)?)
    }

    /// Notes that the CA was given another address.
    pub(super) fn store_contact(&self, contact: Option<String>) -> io::Result<()> {
        self.account()?.map_or(Ok(()), |account| self.store_account(&StoredAccount { contact, ..account }))
    }

    /// Removes the account, which the CA does not know.
    pub(super) fn remove_account(&self) -> io::Result<()> {
        std::fs::remove_file(self.account_path())
    }

    fn account_path(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|error| named(&self.folder, error))?;
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
        let config = TlsConfig { domain, acme_directory: directory.to_owned(), ..TlsConfig::default() };
        Storage::new(data, &config.acme().unwrap())
    }

    fn issued() -> Issued {
        let made = rcgen::generate_simple_self_signed(["meet.example.org".to_owned()]).unwrap();
        Issued { chain: made.cert.pem(), key: Secret::new(made.signing_key.serialize_pem()) }
    }

    #[test]
    fn each_ca_has_its_own_files_which_only_their_owner_can_read() {
        let data = tempfile::tempdir().unwrap();
        let [one, other] = ["https://ca.example/a/directory", "https://ca.example:444/a/directory"]
            .map(|directory| storage(data.path(), directory));
        assert!(one.certificate().unwrap().is_none() && one.account().unwrap().is_none());
        one.store_certificate(&issued()).unwrap();
        one.store_certificate(&issued()).unwrap();
        assert_eq!(one.certificate().unwrap().unwrap().names, ["meet.example.org"]);
        assert!(other.certificate().unwrap().is_none());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(one.certificate_path(), data.path().join("tls/ca.example-a-directory/meet.example.org.pem"));
        assert_eq!(
            (mode(&one.certificate_path()), mode(&one.folder), mode(&data.path().join("tls"))),
            (0o600, 0o700, 0o700)
        );
    }

    #[test]
    fn files_that_cannot_be_used_are_named_and_not_quoted() {
        let data = tempfile::tempdir().unwrap();
        let storage = storage(data.path(), "https://ca.example/directory");
        storage.write(&storage.account_path(), "{\"key\": \"hush\"}").unwrap();
        storage.write(&storage.certificate_path(), "hush").unwrap();
        let account = storage.account().err().unwrap().to_string();
        let certificate = storage.certificate().err().unwrap().to_string();
        assert!(account.contains("account.json: is no account") && !account.contains("hush"), "{account}");
        assert!(certificate.ends_with("meet.example.org.pem: no certificate in PEM"), "{certificate}");
    }
}
