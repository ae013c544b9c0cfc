//! Settings of files and of the billing service: the encryption key, recordings, the plans file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_model::Secret;
use serde::{Deserialize, Serialize};

use super::text;

/// Section `encryption`: the key that seals secrets in the database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncryptionConfig {
    /// The key file. Default: `encryption.key` in the data directory. Empty: no key, so destinations cannot be stored.
    pub key_file: Option<String>,
}

/// Section `recordings`: recordings on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordingsConfig {
    /// Directory of recordings. Default: `recordings` in the data directory.
    #[serde(with = "text::optional")]
    pub dir: Option<PathBuf>,
    /// How long a file on the disk of another server is waited for, before its recording has failed.
    #[serde(with = "text::required")]
    pub lost_after: Duration,
    /// How long the files stay there after the recording has ended. Default: until they are removed by others.
    #[serde(with = "text::optional")]
    pub retention: Option<Duration>,
}

impl Default for RecordingsConfig {
    fn default() -> Self {
        Self {
            dir: None,
            lost_after: Duration::from_secs(24 * 60 * 60),
            retention: None,
        }
    }
}

/// Section `plans`: the plans file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlansConfig {
    /// The plans file. Default: the plans built into the program.
    #[serde(with = "text::optional")]
    pub file: Option<PathBuf>,
}

/// Section `billing`: the external billing service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BillingConfig {
    /// URL of the service. Default: none; wallets are then in the database, and the operator credits them.
    #[serde(with = "text::optional")]
    pub url: Option<String>,
    /// Bearer token of requests to the service.
    #[serde(with = "text::optional")]
    pub token: Option<Secret>,
}

impl EncryptionConfig {
    /// Returns the path of the key file; `None` for a deployment without a key.
    pub fn key_path(&self, data: &Path) -> Option<PathBuf> {
        match self.key_file.as_deref() {
            None => Some(data.join("encryption.key")),
            Some("") => None,
            Some(path) => Some(path.into()),
        }
    }
}

impl RecordingsConfig {
    /// Returns the directory of recordings.
    pub fn path(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("recordings"))
    }
}
