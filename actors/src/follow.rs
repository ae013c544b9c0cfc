//! Common parts of the egress and ingress actors: each follows one object on the media plane until its status is final.
//!
//! The status comes from reports and from replies to polls. Both are kept for the debug endpoint, and written to the record if they change
//! it.

use conclave_media::{MediaError, ReportError};
use conclave_model::Timestamp;
use serde::Serialize;

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;

/// The media plane's last reply about a followed object, for the debug endpoint.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LastReply<S> {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<S>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Object's state on the media plane.
pub(crate) trait Observation: Clone + Send + Sync + 'static {
    /// Status in the record.
    type Status: Serialize + Send + Sync + 'static;

    /// Returns the status.
    fn status(&self) -> Self::Status;

    /// Returns the error, if there is one.
    fn error(&self) -> Option<String>;
}

/// The media plane's reply to a poll; `None` if it does not know the object.
pub(crate) type PollReply<O> = Result<Option<O>, MediaError>;

/// State of an actor that follows one object on the media plane.
pub(crate) trait Follower: Send {
    /// The object's state on the media plane.
    type Observation: Observation;

    /// Returns the shared services and settings.
    fn context(&self) -> &ActorContext;

    /// Returns the actor's identity and counters.
    fn info(&self) -> &ActorInfo;

    /// Returns the field with the media plane's last reply.
    fn last_answer(&mut self)
    -> &mut Option<LastReply<<Self::Observation as Observation>::Status>>;

    /// Writes a state to the record if it changes the record.
    fn record(
        &mut self,
        observation: Self::Observation,
        at: Timestamp,
    ) -> impl Future<Output = Result<(), TreeError>> + Send;

    /// Stores a reply for the debug endpoint.
    fn remember(&mut self, answer: &PollReply<Self::Observation>) {
        let (status, error) = match answer {
            Ok(Some(observation)) => (Some(observation.status()), observation.error()),
            Ok(None) => (None, Some("not known there".into())),
            Err(error) => (None, Some(error.to_string())),
        };
        let at = self.context().clock.now();
        *self.last_answer() = Some(LastReply { at, status, error });
    }

    /// Writes a reported state, which is durable when this returns `Ok`.
    fn handle_report(
        &mut self,
        observation: Self::Observation,
        at: Timestamp,
    ) -> impl Future<Output = Result<(), ReportError>> + Send {
        async move {
            self.remember(&Ok(Some(observation.clone())));
            // The media plane repeats a report that was unavailable, so the error is logged here only.
            self.record(observation, at).await.map_err(|error| {
                log::error!(actor = &*self.info().id; "a report could not be written: {error}");
                ReportError::Unavailable
            })
        }
    }

    /// Logs a failed poll. The next reconciliation polls again.
    fn warn_if_failed<T>(&self, polled: Result<T, TreeError>) {
        if let Err(error) = polled {
            log::warn!(actor = &*self.info().id; "the media plane's state could not be recorded; it is polled again later: {error}");
        }
    }
}
