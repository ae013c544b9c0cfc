//! Egresses: recordings and broadcasts, which LiveKit assigns to egress workers.
//!
//! [`Egresses`] starts, finds and stops them. [`request`] converts a plan into LiveKit's request, and recognizes a
//! plan's egress if the reply to its start was lost.
//!
//! LiveKit does not report the end of an egress whose worker died, and lists it as running for as long as its store
//! lives. So [`EgressWorkers`] verifies an egress's status once it has run for a while. A worker is in the room as a
//! participant whose identity is the egress id. If there is none, a call without effect makes LiveKit contact the
//! worker. If that gets no response either, the worker has died.

mod request;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, EgressStatus};
use conclave_model::{Clock, EgressId, NamespacedRoom, Timestamp};
use livekit_protocol as proto;

use self::request::{is_started_by, start_call, to_proto};
use super::convert;
use super::participants::Participants;
use super::rooms::Rooms;
use super::twirp::{self, CallError, TwirpClient, empty_without_redis};
use crate::port::MediaError;

/// Calls for egresses.
#[derive(Debug, Clone)]
pub(super) struct Egresses {
    client: Arc<TwirpClient>,
    rooms: Rooms,
    workers: EgressWorkers,
    clock: Clock,
    /// Directory of local recordings, as the egress workers see it.
    recordings: PathBuf,
}

impl Egresses {
    pub fn new(
        client: Arc<TwirpClient>,
        rooms: Rooms,
        participants: Participants,
        clock: Clock,
        recordings: PathBuf,
    ) -> Self {
        let workers = EgressWorkers {
            client: Arc::clone(&client),
            participants,
            clock: clock.clone(),
        };
        Self {
            client,
            rooms,
            workers,
            clock,
            recordings,
        }
    }

    /// Starts an egress. Opens its room first: LiveKit refuses an egress in a room that is not live.
    pub async fn start(
        &self,
        plan: &EgressPlan,
        storage: Option<&RecordingConfig>,
    ) -> Result<EgressState, MediaError> {
        // Converted first: a plan that LiveKit does not support must not open a room.
        let call = start_call(&to_proto(plan, storage, &self.recordings)?)?;
        self.rooms.open(&plan.room, plan.max_participants).await?;
        let started = self.client.call(call).await.map_err(start_error)?;
        convert::egress(&started, self.clock.now())
            .map(|(_, state)| state)
            .ok_or_else(|| {
                MediaError::Unavailable("LiveKit started an egress without an id".into())
            })
    }

    /// Returns an egress's verified state; `None` if LiveKit does not know it in this room.
    pub async fn get(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        match self.get_unverified(room, id).await? {
            Some(reported) => Ok(Some(self.workers.verify(room, reported).await?)),
            None => Ok(None),
        }
    }

    /// Returns an egress's state as LiveKit reports it.
    async fn get_unverified(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, CallError> {
        let request = proto::ListEgressRequest {
            egress_id: id.to_string(),
            ..Default::default()
        };
        let listed = match self.client.call(twirp::list_egress(&request)).await {
            Err(error) if error.is_not_found() => return Ok(None),
            listed => listed?.items,
        };
        // LiveKit finds an egress by its id alone, so a match in another room, perhaps another project's, is dropped.
        let now = self.clock.now();
        let mut states = listed.iter().filter_map(|info| convert::egress(info, now));
        Ok(states
            .find(|(of, state)| of == room && state.egress_id == *id)
            .map(|(_, state)| state))
    }

    /// Stops an egress. Returns its new state; `None` if LiveKit does not know it in this room.
    pub async fn stop(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        // Read first: LiveKit would stop an egress in any room, and so in another project, by its id alone.
        let Some(known) = self.get_unverified(room, id).await? else {
            return Ok(None);
        };
        // LiveKit would refuse to stop it.
        if known.status.is_final() {
            return Ok(Some(known));
        }
        match self
            .client
            .call(twirp::stop_egress(&proto::StopEgressRequest {
                egress_id: id.to_string(),
            }))
            .await
        {
            Ok(info) => Ok(convert::egress(&info, self.clock.now()).map(|(_, state)| state)),
            Err(error) if error.is_not_found() => Ok(None),
            // It has ended in the meantime, or is ending.
            Err(error) if error.is_failed_precondition() => {
                Ok(self.get_unverified(room, id).await?)
            }
            // The worker does not respond: either it has died, or it is stuck.
            Err(error) if error.is_deadline_exceeded() => {
                match self.workers.verify(room, known).await? {
                    verified if verified.status.is_final() => Ok(Some(verified)),
                    // The worker is in the room, so it may still be recording.
                    _ => Err(MediaError::Refused(
                        "this egress's worker does not respond to LiveKit".into(),
                    )),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the running egresses that a start by this plan may have started at `since` or later.
    pub async fn started_by(
        &self,
        plan: &EgressPlan,
        since: Timestamp,
    ) -> Result<Vec<EgressId>, MediaError> {
        let running = proto::ListEgressRequest {
            room_name: plan.room.to_string(),
            active: true,
            ..Default::default()
        };
        let listed =
            empty_without_redis(self.client.call(twirp::list_egress(&running)).await)?.items;
        let started = listed
            .iter()
            .filter(|info| is_started_by(info, plan, since));
        Ok(started
            .filter_map(|info| info.egress_id.parse().ok())
            .collect())
    }

    /// Returns all projects' egresses that have not ended, with their rooms.
    pub async fn list_running(&self) -> Result<Vec<(NamespacedRoom, EgressState)>, MediaError> {
        let now = self.clock.now();
        let request = proto::ListEgressRequest {
            active: true,
            ..Default::default()
        };
        let listed =
            empty_without_redis(self.client.call(twirp::list_egress(&request)).await)?.items;
        let states = listed.iter().filter_map(|info| convert::egress(info, now));
        Ok(states
            .filter(|(_, state)| !state.status.is_final())
            .collect())
    }
}

/// Converts a start's error. LiveKit offers the egress to every worker, and responds with "unavailable" if none accepts
/// it.
fn start_error(error: CallError) -> MediaError {
    if error.is_no_response() {
        let missing = "no egress worker took the job: is one running and free, and does it share LiveKit's Redis?";
        return MediaError::Refused(missing.into());
    }
    error.into()
}

/// Maximum time for a worker to join the room.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Error of an egress whose worker died.
const WORKER_DIED: &str =
    "the egress worker died: it is not in the room and does not respond to LiveKit";

/// Verifies that egresses still have a worker.
#[derive(Debug, Clone)]
struct EgressWorkers {
    client: Arc<TwirpClient>,
    participants: Participants,
    clock: Clock,
}

impl EgressWorkers {
    /// Returns the state that LiveKit reports, or `failed` if the worker died.
    async fn verify(
        &self,
        room: &NamespacedRoom,
        reported: EgressState,
    ) -> Result<EgressState, CallError> {
        let now = self.clock.now();
        // A worker may have to start a browser before it joins.
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
        match self.client.call(twirp::update_stream(&request)).await {
            Err(error) if error.is_no_response() || error.is_deadline_exceeded() => Ok(false),
            Err(error @ CallError::Unavailable(_)) => Err(error),
            // Any other response, including an error, came from the worker.
            Ok(_) | Err(CallError::Refused(_)) => Ok(true),
        }
    }
}
