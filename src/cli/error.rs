//! Why a command failed, and which exit code that is.

use std::process::ExitCode;

use conclave_db::{StoreError, VaultError};

use crate::config::{ConfigError, MediaCredentialsError};

/// Why a command did not do as told.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A setting that does not hold.
    #[error("{0}")]
    Config(ConfigError),
    /// A value of the command line that is not allowed.
    #[error("{argument}: {problem}")]
    BadValue {
        /// Which argument.
        argument: &'static str,
        /// What was wrong, what is allowed.
        problem: String,
    },
    /// The operation failed.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    /// 2 for what the operator wrote, 1 for what then went wrong.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::BadValue { .. } => ExitCode::from(2),
            Self::Failed(_) => ExitCode::from(1),
        }
    }

    /// A failed operation.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// What the store said, in words for an operator: a refusal is its bare message.
    #[must_use]
    pub fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Refused(problem) => Self::failed(problem.message.clone()),
            other => Self::failed(other.to_string()),
        }
    }

    /// A key file that cannot be used.
    #[must_use]
    pub fn of_vault(error: &VaultError) -> Self {
        Self::failed(error.to_string())
    }

    /// Media credentials that cannot be used.
    #[must_use]
    pub fn of_credentials(error: &MediaCredentialsError) -> Self {
        Self::failed(error.to_string())
    }
}
