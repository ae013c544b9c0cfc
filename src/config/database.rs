//! Settings of the database: none for a file in the data directory, or a database of PostgreSQL.

use std::fs;
use std::path::PathBuf;

use conclave_db::{PostgresOptions, PostgresServer, PostgresSettingsError};
use conclave_model::Secret;
use serde::{Deserialize, Serialize};

use super::{ConfigError, text};

/// Section `database`: where the records are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseConfig {
    /// The url of a database of PostgreSQL, which holds a password. Default: none; the records are then in a file of SQLite.
    #[serde(with = "text::optional")]
    pub url: Option<Secret>,
    /// A file with the url.
    #[serde(with = "text::optional")]
    pub url_file: Option<PathBuf>,
    /// PEM file with the root certificates of the database server. Default: the public authorities.
    #[serde(with = "text::optional")]
    pub root_cert: Option<PathBuf>,
    /// Number of sessions that write.
    pub lanes: usize,
    /// Number of sessions that read.
    pub readers: usize,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            root_cert: None,
            lanes: 8,
            readers: 16,
        }
    }
}

impl DatabaseConfig {
    /// Whether the records are in PostgreSQL.
    #[must_use]
    pub fn is_postgres(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }

    /// Returns the number of sessions that a server has with PostgreSQL; 0 for a file.
    #[must_use]
    pub fn sessions(&self) -> usize {
        // One more writes what is of no project, and one has the lease.
        if self.is_postgres() {
            self.lanes + self.readers + 2
        } else {
            0
        }
    }

    /// Returns how the database of PostgreSQL is used, by a server in this epoch or by a command; `None` for a file of SQLite.
    ///
    /// # Errors
    /// The url cannot be read, or a file that is named cannot.
    pub fn postgres(&self, epoch: Option<i64>) -> Result<Option<PostgresOptions>, ConfigError> {
        let (setting, url) = match (&self.url, &self.url_file) {
            (Some(url), _) => ("database.url", url.clone()),
            (None, Some(file)) => {
                let failed = |error| {
                    ConfigError::new("database.url_file", format!("{}: {error}", file.display()))
                };
                // Its mode is not checked: secrets mounted into a container are often readable by a group.
                (
                    "database.url_file",
                    Secret::new(fs::read_to_string(file).map_err(failed)?.trim()),
                )
            }
            (None, None) => return Ok(None),
        };
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
