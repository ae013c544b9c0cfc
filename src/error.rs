//! Error of a command or of the server's start: one line for stderr and an exit code.

use std::path::Path;
use std::process::ExitCode;

use conclave_actors::TreeError;
use conclave_db::{RotationError, StoreError, VaultError};
use conclave_media::MediaError;

use crate::config::{ConfigError, MediaCredentialsError};

/// A failed command, or a server that could not start or failed. Printed to stderr after `conclave: `.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A setting is unknown or has an invalid value.
    #[error("{0}")]
    Config(ConfigError),
    /// A command-line argument has an invalid value.
    #[error("{argument}: {problem}")]
    InvalidArgument {
        /// Argument name, such as `--plan`.
        argument: &'static str,
        /// Problem, with the allowed values.
        problem: String,
    },
    /// The data directory cannot be used.
    #[error("--data {path}: {problem}")]
    DataDir {
        /// Path as given on the command line.
        path: String,
        /// Problem with it.
        problem: String,
    },
    /// The database has an older version's schema, and must not be migrated now.
    #[error("the database has schema {found}, this conclave needs {known}")]
    OlderSchema {
        /// Schema of the database; 0 if it is being created.
        found: i64,
        /// Schema that this program needs.
        known: i64,
    },
    /// A page of the database file cannot be read.
    #[error("{0}")]
    Damaged(StoreError),
    /// The operation failed, for this reason.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    /// Creates the error of an operation that failed for `reason`.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// Creates the error of a data directory that cannot be used.
    pub fn data_dir(path: &Path, problem: impl Into<String>) -> Self {
        Self::DataDir {
            path: path.display().to_string(),
            problem: problem.into(),
        }
    }

    /// Returns 2 for an invalid setting or argument, 1 for a failed operation.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            // As clap does for invalid arguments.
            Self::Config(_) | Self::InvalidArgument { .. } => ExitCode::from(2),
            Self::DataDir { .. }
            | Self::OlderSchema { .. }
            | Self::Damaged(_)
            | Self::Failed(_) => ExitCode::from(1),
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<MediaCredentialsError> for CliError {
    fn from(error: MediaCredentialsError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<StoreError> for CliError {
    /// Converts a refusal to its bare message, without `StoreError`'s prefix.
    fn from(error: StoreError) -> Self {
        match error {
            // Written for API clients, and clear for operators, too.
            StoreError::Refused(problem) => Self::failed(problem.message),
            StoreError::OlderSchema { found, known } => Self::OlderSchema { found, known },
            // Kept as it is, since the server's start adds the damaged tables to it.
            damaged @ StoreError::Damaged(_) => Self::Damaged(damaged),
            other => Self::failed(other.to_string()),
        }
    }
}

impl From<VaultError> for CliError {
    fn from(error: VaultError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<RotationError> for CliError {
    fn from(error: RotationError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<TreeError> for CliError {
    fn from(error: TreeError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<MediaError> for CliError {
    fn from(error: MediaError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<prometheus::Error> for CliError {
    fn from(error: prometheus::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error.to_string())
    }
}
