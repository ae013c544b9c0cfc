//! What the media plane last said of something that an actor follows, for the debug endpoint.

use conclave_media::MediaError;
use conclave_model::Timestamp;
use serde::Serialize;

/// What was said, by the plane itself or when asked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LastAnswer<S> {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<S>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<S> LastAnswer<S> {
    /// What the plane answered; `read` takes the status and what went wrong out of it.
    pub fn of<T>(
        said: &Result<Option<T>, MediaError>,
        at: Timestamp,
        read: impl FnOnce(&T) -> (S, Option<String>),
    ) -> Self {
        let (status, error) = match said {
            Ok(Some(state)) => {
                let (status, error) = read(state);
                (Some(status), error)
            }
            Ok(None) => (None, Some("not known there".into())),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { at, status, error }
    }
}
