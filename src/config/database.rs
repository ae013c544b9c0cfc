//! Sections `database`, `backup` and `encryption`: the records, their copies, and the key for secrets in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_db::{PostgresOptions, PostgresServer, PostgresSettingsError};
use conclave_model::Secret;
use conclave_model::settings::{KeyFile, Rule};

use super::ConfigError;

conclave_model::settings! {
    /// Database of the records: the file conclave.db in the data directory, or PostgreSQL 14 or newer.
    pub struct DatabaseConfig {
        /// URL of a PostgreSQL database, such as "postgres://conclave:secret@db.example.org:5432/conclave". Default: the file conclave.db.
        /// See [PostgreSQL](postgresql.md).
        ///
        /// The database must exist, and be empty at the first start. With several hosts, such as
        /// "postgres://conclave:secret@db1,db2/conclave", the host that accepts writes is used. TLS with a valid certificate is required,
        /// unless the host is this machine or the URL ends with "?sslmode=disable". If several servers use the same database, one is active
        /// and the others wait for it to stop. They need the same encryption.key and media.key.
        pub url: Option<Secret> = None;
        /// File with the URL, as an alternative to `database.url`.
        pub url_file: Option<PathBuf> = None;
        /// PEM file with the database server's root certificates. Default: the built-in root certificates.
        pub root_cert: Option<PathBuf> = None;
        /// Number of sessions for writes.
        ///
        /// A project's writes run one after another, in one of these sessions. An additional session is used for writes without a project.
        pub lanes: usize = 8, Rule::Numbers(1, 256);
        /// Number of sessions for reads.
        // At least one each for point reads, lists and bulk reads.
        pub readers: usize = 16, Rule::Numbers(3, 1_024);
    }
}

conclave_model::settings! {
    /// Copies of the database while the server runs, if the records are in a file. Each copy is opened and checked before it counts.
    /// `conclave restore` puts a copy into an empty data directory.
    pub struct BackupConfig {
        /// Directory for the copies. Default: no copies are made. See [Backup](running.md#backup-and-restore).
        ///
        /// Use another disk, or a disk that is copied elsewhere. Copies are named by their time, such as
        /// conclave-2026-01-31T12-00-00.000Z.db.
        pub directory: Option<PathBuf> = None;
        /// Interval between copies.
        ///
        /// A failed copy is repeated after 5 minutes. If the last good copy is twice as old as the interval, the server logs a warning.
        pub every: Duration = Duration::from_secs(60 * 60);
        /// Number of copies to keep.
        ///
        /// The oldest copy is removed only after a new one has been checked.
        pub keep: u32 = 24, Rule::COUNT;
    }
}

conclave_model::settings! {
    /// Encryption of secrets in the database: webhook signing secrets, destination credentials, and stored responses with a secret.
    pub struct EncryptionConfig {
        /// File with the key that encrypts secrets in the database. Default: `encryption.key` in the data directory.
        ///
        /// The file is created with mode 0600 if it does not exist. Keep a copy: without the key, encrypted records are lost. `conclave
        /// key-rotate` adds a new key to the file; a database backup needs the file as it was at that time. With an empty string, there is
        /// no key: destinations cannot be stored, and signing secrets are stored in plain text. Example: key_file =
        /// "/etc/conclave/encryption.key".
        pub key_file: Option<KeyFile> = None;
    }
}

impl DatabaseConfig {
    /// Returns whether the records are in PostgreSQL.
    #[must_use]
    pub fn is_postgres(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }

    /// Returns the number of PostgreSQL sessions that a server opens; 0 for a file.
    #[must_use]
    pub fn sessions(&self) -> usize {
        // Besides these, one session writes records without a project, and one has the lease.
        if self.is_postgres() {
            self.lanes + self.readers + 2
        } else {
            0
        }
    }

    /// Returns the options for PostgreSQL, for a server in this epoch or for a command; `None` for a SQLite file.
    ///
    /// # Errors
    /// If the URL is invalid, or if a configured file cannot be read.
    pub fn postgres(&self, epoch: Option<i64>) -> Result<Option<PostgresOptions>, ConfigError> {
        let (setting, url) = match (&self.url, &self.url_file) {
            (Some(url), _) => ("database.url", url.clone()),
            (None, Some(file)) => {
                let failed = |error| {
                    ConfigError::new("database.url_file", format!("{}: {error}", file.display()))
                };
                // The file's mode is not checked: secrets mounted into a container are often readable by a group.
                (
                    "database.url_file",
                    Secret::new(fs::read_to_string(file).map_err(failed)?.trim()),
                )
            }
            (None, None) => return Ok(None),
        };
        // The error names the setting with the mistake, which may be the one for the certificate file.
        let server =
            PostgresServer::new(&url, self.root_cert.as_deref()).map_err(|error| match error {
                PostgresSettingsError::Url(problem) => ConfigError::new(setting, problem),
                PostgresSettingsError::RootCert(problem) => {
                    ConfigError::new("database.root_cert", problem)
                }
            })?;
        Ok(Some(PostgresOptions {
            server,
            lanes: self.lanes,
            readers: self.readers,
            epoch,
        }))
    }
}

impl EncryptionConfig {
    /// Returns the key file's path; `None` for a deployment without a key.
    pub fn key_path(&self, data: &Path) -> Option<PathBuf> {
        match self.key_file.as_ref().map(|KeyFile(path)| path.as_str()) {
            // Unset and empty differ here: an empty string turns encryption off.
            None => Some(data.join("encryption.key")),
            Some("") => None,
            Some(path) => Some(path.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, SettingOrigins};

    const URL: &str = "postgres://conclave:hunter2@127.0.0.1:5433/records";

    fn with(change: impl FnOnce(&mut DatabaseConfig)) -> Config {
        let mut config = Config::default();
        change(&mut config.database);
        config
    }

    fn refusal(change: impl FnOnce(&mut DatabaseConfig)) -> String {
        let refusal = with(change).validate().unwrap_err().to_string();
        assert!(!refusal.contains("hunter2"), "{refusal}");
        refusal
    }

    #[test]
    fn the_url_is_a_setting_or_in_a_file_and_without_one_there_is_a_file_of_records() {
        assert!(Config::default().database.postgres(None).unwrap().is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{URL}\n")).unwrap();
        let in_setting = with(|database| database.url = Some(Secret::new(URL)));
        let in_file = with(|database| database.url_file = Some(file.path().to_owned()));
        for config in [in_setting, in_file] {
            config.validate().unwrap();
            let options = config.database.postgres(Some(3)).unwrap().unwrap();
            assert_eq!(
                options.server.location(),
                "postgres://127.0.0.1:5433/records"
            );
            assert_eq!(
                (options.lanes, options.readers, options.epoch),
                (8, 16, Some(3))
            );
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_setting_and_without_the_password() {
        let url = || Some(Secret::new(URL));
        assert!(
            refusal(|of| of.url = Some(Secret::new("conclave:hunter2@h/d")))
                .starts_with("database.url: must be postgres://")
        );
        assert!(
            refusal(|of| of.url_file = Some("/nowhere".into()))
                .starts_with("database.url_file: /nowhere: ")
        );
        assert!(
            refusal(|of| (of.url, of.url_file) = (url(), Some("x".into())))
                .starts_with("database.url_file: must not")
        );
        assert!(
            refusal(|of| of.root_cert = Some("x".into()))
                .starts_with("database.root_cert: must not")
        );
        assert!(refusal(|of| of.lanes = 0).starts_with("database.lanes: must be 1 to 256"));
        assert!(refusal(|of| of.readers = 2).starts_with("database.readers: must be 3 to 1024"));
        let elsewhere = Some(Secret::new("postgres://u:hunter2@db.example.org/d"));
        let mut copied = with(|of| of.url = url());
        copied.backup.directory = Some("x".into());
        assert!(
            copied
                .validate()
                .unwrap_err()
                .to_string()
                .contains("pg_dump")
        );
        let missing = refusal(|of| (of.url, of.root_cert) = (elsewhere, Some("/nowhere".into())));
        assert!(
            missing.starts_with("database.root_cert: /nowhere: "),
            "{missing}"
        );
    }

    #[test]
    fn neither_debug_output_nor_the_report_of_settings_has_the_url() {
        let config = with(|database| database.url = Some(Secret::new(URL)));
        let report = SettingOrigins::default().report(&config).unwrap();
        let shown = report
            .iter()
            .find(|setting| setting.name == "database.url")
            .unwrap();
        assert!(shown.value == "***" && shown.is_secret());
        assert!(!format!("{config:?}{report:?}").contains("hunter2"));
    }
}
