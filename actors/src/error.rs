//! Errors of requests to actors.

use conclave_db::StoreError;
use conclave_media::MediaError;

use crate::mailbox::NoAnswer;

/// A request to an actor failed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The store refused the write or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The media plane refused or did not answer, and nothing was written.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// No actor answered in time.
    #[error("no actor answered in time")]
    NoAnswer,
}

impl From<NoAnswer> for TreeError {
    fn from(_: NoAnswer) -> Self {
        Self::NoAnswer
    }
}
