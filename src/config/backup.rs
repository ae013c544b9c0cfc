//! Settings of the copies of the database.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// Section `backup`: copies of the database at regular times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackupConfig {
    /// Directory of the copies. Default: none; no copies are made.
    #[serde(with = "text::optional")]
    pub directory: Option<PathBuf>,
    /// The time from one copy to the next.
    #[serde(with = "text::required")]
    pub every: Duration,
    /// Number of copies that are kept.
    pub keep: u32,
}

impl Default for BackupConfig {
    fn default() -> Self {
        Self {
            directory: None,
            every: Duration::from_secs(60 * 60),
            keep: 24,
        }
    }
}
