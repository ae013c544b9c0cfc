//! Where things lie: the encryption key, recordings, plans, and the service that keeps wallets.

use std::path::{Path, PathBuf};

use conclave_model::Secret;
use serde::{Deserialize, Serialize};

use super::text;

/// Secrets at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncryptionConfig {
    /// The key's file. Unset is `encryption.key` in the data directory; empty is a deployment without a key, which
    /// cannot store destinations.
    pub key_file: Option<String>,
}

/// Recordings kept on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordingsConfig {
    /// Their directory. Unset is `recordings` in the data directory.
    #[serde(with = "text::optional")]
    pub dir: Option<PathBuf>,
}

/// What projects may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlansConfig {
    /// The plans' file. Unset is the plans built in.
    #[serde(with = "text::optional")]
    pub file: Option<PathBuf>,
}

/// The service that keeps wallets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BillingConfig {
    /// Where it is. Unset is none: wallets are kept here, and the operator credits them by hand.
    #[serde(with = "text::optional")]
    pub url: Option<String>,
    /// What it is shown as a bearer token.
    #[serde(with = "text::optional")]
    pub token: Option<Secret>,
}

impl EncryptionConfig {
    /// The key's file, for a data directory; `None` is a deployment without a key.
    #[must_use]
    pub fn key_path(&self, data: &Path) -> Option<PathBuf> {
        match self.key_file.as_deref() {
            None => Some(data.join("encryption.key")),
            Some("") => None,
            Some(path) => Some(path.into()),
        }
    }
}

impl RecordingsConfig {
    /// The recordings' directory, for a data directory.
    #[must_use]
    pub fn path(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("recordings"))
    }
}
