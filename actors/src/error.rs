//! Errors in requests to actors.

use conclave_db::StoreError;
use conclave_media::MediaError;
use conclave_model::Problem;

use crate::mailbox::NoReply;

/// Failed request to an actor.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The records or an actor do not allow it. The problem is the response to the client.
    #[error("refused: {0}")]
    Refused(Problem),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The media plane refused or was unavailable, and nothing was written.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// No actor replied in time.
    #[error("no actor replied in time")]
    NoReply,
}

impl From<Problem> for TreeError {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<StoreError> for TreeError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(problem) => Self::Refused(problem),
            failure => Self::Store(failure),
        }
    }
}

impl From<NoReply> for TreeError {
    fn from(_: NoReply) -> Self {
        Self::NoReply
    }
}
