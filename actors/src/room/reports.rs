//! Joins, leaves and tracks as the media plane reports them, and the end of the room.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use conclave_db::{RoomSnapshot, StoreError};
use conclave_media::{MediaEvent, Report, ReportError};
use conclave_model::event::{ParticipantRef, TrackChange};
use conclave_model::participant::Participant;
use conclave_model::{ErrorCode, Timestamp};

use super::join::role_is_full;
use super::roster::RoomState;
use super::{RoomActor, RoomMsg};
use crate::mailbox::{Mailbox, Timer};

/// How a join became known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Join {
    /// The media plane reported it for this time.
    Reported { at: Timestamp },
    /// Reconciliation found the participant. A session of this join that was closed at `left_before` or earlier is reopened.
    Listed { left_before: Timestamp },
}

impl RoomActor {
    /// Writes a reported event. It is durable when this returns `Ok`.
    pub(super) async fn handle_report(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        report: Report,
    ) -> Result<(), ReportError> {
        let (project, id) = (state.room.project_id.clone(), state.room.id);
        let (store, at) = (&self.context.store, report.at);
        let written = match report.event {
            MediaEvent::JoinRequested {
                participant,
                reserves_seat,
            } => {
                return self
                    .request_join(me, state, *participant, reserves_seat)
                    .await;
            }
            MediaEvent::ParticipantJoined(participant) => {
                return self
                    .admit(me, state, *participant, Join::Reported { at })
                    .await;
            }
            MediaEvent::InvalidIdentity => return Err(ReportError::InvalidIdentity),
            MediaEvent::ParticipantLeft {
                participant,
                departure,
            } => {
                state.forget_join(&participant.sid);
                let left = if self.context.is_stopping.load(Ordering::Relaxed) {
                    store
                        .sessions()
                        .record_leave_at_stop(project, id, participant.sid, at, departure)
                        .await
                } else {
                    store
                        .sessions()
                        .record_leave(project, id, participant.sid, at, departure)
                        .await
                };
                left.map(|left| self.apply_leave(me, state, left))
            }
            MediaEvent::JoinAborted { participant } => {
                state.reservations.release(&participant.sid);
                store
                    .sessions()
                    .record_join_aborted(project, id, participant, at)
                    .await
            }
            MediaEvent::TrackPublished { participant, track } => {
                store
                    .tracks()
                    .record(project, id, participant, track, TrackChange::Published, at)
                    .await
            }
            MediaEvent::TrackUnpublished { participant, track } => {
                store
                    .tracks()
                    .record(
                        project,
                        id,
                        participant,
                        track,
                        TrackChange::Unpublished,
                        at,
                    )
                    .await
            }
            MediaEvent::TrackMuted { participant, track } => {
                store
                    .tracks()
                    .record_muted(project, id, participant.sid, track)
                    .await
            }
            // Whoever can sign a webhook can measure anybody.
            MediaEvent::PublishLimit { participant, .. } if !state.is_present(&participant) => {
                Ok(())
            }
            MediaEvent::PublishLimit { participant, limit } => {
                store
                    .tracks()
                    .record_publish_limit(project, id, participant, limit, at)
                    .await
            }
            // The project passes these to the egress and ingress actors.
            MediaEvent::Egress(_) | MediaEvent::Ingress(_) => Ok(()),
        };
        written.map_err(|error| self.report_error(&error))
    }

    /// Writes a join, unless the participant's role is full.
    pub(super) async fn admit(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        mut participant: Participant,
        join: Join,
    ) -> Result<(), ReportError> {
        let project = state.room.project_id.clone();
        let roles = self
            .context
            .store
            .rooms()
            .roles(project.clone(), state.room.template_id.clone())
            .await;
        let roles = roles.map_err(|error| self.report_error(&error))?;
        let changed = self.take_last_role(state, &mut participant, &roles).await?;
        if role_is_full(state, &participant, &roles) {
            state.reservations.release(&participant.sid);
            let at = self.joined_at(&participant, join);
            return self.refuse_join(state, &participant, at).await;
        }
        self.set_rules_of_join(state, &roles).await?;
        self.set_role_of_join(state, &participant, changed).await?;
        let sid = participant.sid.clone();
        let joined = self.record_join(state, participant, join).await;
        let joined = joined.map_err(|error| self.report_error(&error))?;
        state.joined(sid, self.context.clock.monotonic(), joined);
        self.arm_empty_timer(me, state);
        Ok(())
    }

    async fn record_join(
        &self,
        state: &RoomState,
        participant: Participant,
        join: Join,
    ) -> Result<RoomSnapshot, StoreError> {
        let (store, project, room) = (
            &self.context.store,
            state.room.project_id.clone(),
            state.room.id,
        );
        if let Join::Listed { left_before } = join {
            store
                .sessions()
                .record_return(project.clone(), room, participant.clone(), left_before)
                .await?;
        }
        let at = self.joined_at(&participant, join);
        store
            .sessions()
            .record_join(project, room, participant, at)
            .await
    }

    fn joined_at(&self, participant: &Participant, join: Join) -> Timestamp {
        match join {
            Join::Reported { at } => at,
            Join::Listed { .. } => participant
                .joined_at
                .unwrap_or_else(|| self.context.clock.now()),
        }
    }

    /// Writes the one event of a refused join. The role filled up after the participant's token was minted.
    async fn refuse_join(
        &self,
        state: &RoomState,
        participant: &Participant,
        at: Timestamp,
    ) -> Result<(), ReportError> {
        log::warn!(
            room = state.room.namespaced_name().as_str(), identity = participant.identity.as_str();
            "a join was refused: the role is full"
        );
        let (project, participant) = (
            state.room.project_id.clone(),
            ParticipantRef::from(participant),
        );
        let aborted = self
            .context
            .store
            .sessions()
            .record_join_aborted(project, state.room.id, participant, at)
            .await;
        aborted.map_err(|error| self.report_error(&error))?;
        Err(ReportError::RoleFull)
    }

    /// Applies a leave that was written: the participants have changed, and perhaps the deadline.
    pub(super) fn apply_leave(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        left: RoomSnapshot,
    ) {
        state.refresh(left);
        self.arm_empty_timer(me, state);
    }

    /// Arms the empty timer for the deadline of the record, or disarms it if there is none.
    pub(super) fn arm_empty_timer(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        let wanted = state.room.empty_deadline;
        if state
            .empty_timer
            .as_ref()
            .map(|timer| timer.view().fires_at)
            != wanted
        {
            let arm = |at| {
                Timer::arm(
                    &self.context.clock,
                    "empty_timeout",
                    at,
                    me,
                    RoomMsg::EmptyTimeout(None),
                )
            };
            state.empty_timer = wanted.map(arm);
        }
    }

    /// Ends the room if its deadline has passed. If the store does not answer, the room hibernates and its project wakes it
    /// again a little later.
    pub(super) async fn end_if_empty(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        let now = self.context.clock.now();
        if !state.room.is_past_deadline(now) {
            return;
        }
        if let Err(error) = self.end(me, state).await {
            log::error!(room = state.room.namespaced_name().as_str(); "an empty room could not be ended: {error}");
            state.end_failed = true;
        }
    }

    /// Ends the record, then the room on the media plane, then the actor. The record does not wait for the media plane, which
    /// may be unreachable; reconciliation closes the room later.
    pub(super) async fn end(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
    ) -> Result<(), StoreError> {
        let ended = self
            .context
            .store
            .rooms()
            .end(state.room.project_id.clone(), state.room.id)
            .await?;
        state.refresh(RoomSnapshot {
            room: ended,
            participants: Vec::new(),
        });
        self.answer_waiting_as_ended(state);
        state.empty_timer = None;
        let (media, room) = (
            Arc::clone(&self.context.media),
            state.room.namespaced_name(),
        );
        tokio::spawn(async move {
            if let Err(error) = media.close_room(&room).await {
                log::warn!(room = room.as_str(); "an ended room was not closed on the media plane: {error}");
            }
        });
        // Messages sent by now are answered that the room has ended; a stop would drop them.
        if me.actor().drain().is_err() {
            me.actor().stop(Some("ended".into()));
        }
        Ok(())
    }

    pub(super) fn report_error(&self, error: &StoreError) -> ReportError {
        match error {
            StoreError::Refused(problem) if problem.code == ErrorCode::RoomEnded => {
                ReportError::RoomEnded
            }
            error => {
                log::error!(actor = &*self.info.id; "a report could not be written: {error}");
                ReportError::Unavailable
            }
        }
    }
}
