//! Workers that died. LiveKit goes on saying that a job runs whose worker is gone, for as long as its store lives, and nobody
//! reports its end.
//!
//! So a job that has run for a while is not believed by its status alone. Its worker records as a participant by the id of
//! the job; where none is in the room, LiveKit is made to ask the worker itself, for a change of nothing. Only when both are
//! silent has it died.

use std::time::Duration;

use conclave_model::NamespacedRoom;
use conclave_model::egress::{EgressState, JobStatus};
use livekit_protocol as proto;

use super::calls;
use super::failure::Failure;
use super::plane::Inner;

/// How long a worker may take until it is in the room.
const SETTLING: Duration = Duration::from_secs(60);
/// What the record says of a job whose worker has died.
const DIED: &str = "the egress worker died: no recorder of this job is in the room, and none answers LiveKit";

impl Inner {
    /// A job as LiveKit says that it stands, or as failed when its worker has died.
    ///
    /// # Errors
    /// What kept LiveKit from telling.
    pub async fn verified(&self, room: &NamespacedRoom, said: EgressState) -> Result<EgressState, Failure> {
        let now = self.clock.now();
        let settling = now < said.started_at.after(SETTLING);
        if said.status.is_final() || settling || self.has_worker(room, &said).await? {
            return Ok(said);
        }
        Ok(EgressState { status: JobStatus::Failed, error: Some(DIED.into()), ended_at: Some(now), ..said })
    }

    async fn has_worker(&self, room: &NamespacedRoom, job: &EgressState) -> Result<bool, Failure> {
        let inside = self.listed(room).await?;
        if inside.iter().any(|person| person.identity.as_str() == job.egress_id.as_str()) {
            return Ok(true);
        }
        let nothing = proto::UpdateStreamRequest { egress_id: job.egress_id.to_string(), ..Default::default() };
        match self.twirp.call(calls::update_stream(&nothing)).await {
            Err(failure) if failure.is_no_response() || failure.is_deadline() => Ok(false),
            Err(failure @ Failure::Away(_)) => Err(failure),
            // Whatever it says, somebody said it.
            Ok(_) | Err(Failure::Refused(_)) => Ok(true),
        }
    }
}
