//! Detection of egress workers that died. LiveKit reports no end of such an egress, and lists it as running as long as its
//! store lives.
//!
//! So the status of an egress is verified once it has run for a while. Its worker is in the room as a participant whose
//! identity is the egress id. If there is none, a call without effect makes LiveKit ask the worker. The worker died only if
//! it does not answer either.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::{Clock, NamespacedRoom};
use livekit_protocol as proto;

use super::call_error::CallError;
use super::calls;
use super::participants::Participants;
use super::twirp::TwirpClient;

/// How long a worker may take to join the room.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The error of an egress whose worker died.
const WORKER_DIED: &str =
    "the egress worker died: no recorder of this job is in the room, and none answers LiveKit";

/// Verifies that egresses still have a worker.
#[derive(Debug, Clone)]
pub(super) struct EgressWorkers {
    pub client: Arc<TwirpClient>,
    pub participants: Participants,
    pub clock: Clock,
}

impl EgressWorkers {
    /// Returns the state that LiveKit reports, or `failed` if the worker died.
    pub async fn verify(
        &self,
        room: &NamespacedRoom,
        reported: EgressState,
    ) -> Result<EgressState, CallError> {
        let now = self.clock.now();
        let may_be_joining = now < reported.started_at.after(JOIN_TIMEOUT);
        if reported.status.is_final() || may_be_joining || self.has_worker(room, &reported).await? {
            return Ok(reported);
        }
        let error = Some(WORKER_DIED.into());
        Ok(EgressState {
            status: EgressStatus::Failed,
            error,
            ended_at: Some(now),
            ..reported
        })
    }

    async fn has_worker(
        &self,
        room: &NamespacedRoom,
        egress: &EgressState,
    ) -> Result<bool, CallError> {
        let participants = self.participants.list_with_ghosts(room).await?;
        if participants
            .iter()
            .any(|participant| participant.identity.as_str() == egress.egress_id.as_str())
        {
            return Ok(true);
        }
        let request = proto::UpdateStreamRequest {
            egress_id: egress.egress_id.to_string(),
            ..Default::default()
        };
        match self.client.call(calls::update_stream(&request)).await {
            Err(error) if error.is_no_response() || error.is_deadline_exceeded() => Ok(false),
            Err(error @ CallError::Unavailable(_)) => Err(error),
            // Any other answer, also an error, came from the worker.
            Ok(_) | Err(CallError::Refused(_)) => Ok(true),
        }
    }
}
