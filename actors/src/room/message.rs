//! Messages to a room actor: the requests of callers with their replies, and the outcomes of calls to the media plane.

use conclave_db::{OpenTrack, StoreError};
use conclave_media::{MediaError, MuteOutcome, ServerData};
use conclave_model::event::ChangedBy;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::participant::Participant;
use conclave_model::permits::ProjectPermit;
use conclave_model::role_change::RoleChanged;
use conclave_model::{Identity, ParticipantSid, Problem, RoleName, Timestamp, TrackSid};
use ractor::RpcReplyPort;

use crate::error::TreeError;
use crate::mailbox::Barrier;
use crate::registry::{InspectMessage, Inspection};

/// Room on the media plane, and in the records at the time of the query.
#[derive(Debug)]
pub struct RoomObservation {
    /// Query time.
    pub(super) asked_at: Timestamp,
    /// Joins in the records that have had time to complete.
    pub(super) known: Vec<ParticipantSid>,
    /// Open tracks in the records.
    pub(super) tracks: Vec<OpenTrack>,
    /// Participants on the media plane.
    pub(super) participants: Vec<Participant>,
}

/// Message to a room actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoomMsg {
    /// Reports of the media plane are queued for the room.
    #[strum(to_string = "report")]
    Reports,
    /// Release the actor that waits until earlier messages are handled.
    Barrier(Barrier),
    /// End the room.
    End(RpcReplyPort<Result<(), TreeError>>),
    /// Give a participant another role.
    ChangeRole {
        /// The participant and the role.
        request: Box<ChangeRoleRequest>,
        /// Response to store with the change.
        recorder: Option<ResponseRecorder<RoleChanged>>,
        /// Replied to once the change is durable.
        reply: RoleReply,
    },
    /// Disconnect a participant.
    RemoveParticipant {
        /// Participant to remove.
        identity: Identity,
        /// Replied to once the media plane has done it.
        reply: RemoveReply,
    },
    /// Mute or unmute a participant's track.
    MuteTrack {
        /// Publisher, track, and whether to mute it.
        request: Box<MuteTrackRequest>,
        /// Replied to once the media plane has done it.
        reply: MuteReply,
    },
    /// Send data to the participants.
    SendData {
        /// Data and recipients.
        data: Box<ServerData>,
        /// Replied to once the media plane has accepted it.
        reply: SendDataReply,
    },
    /// A call to the media plane has returned.
    MediaCallEnded {
        /// Call id.
        call: CallId,
        /// Result; absent if the call panicked.
        outcome: Option<Box<CallOutcome>>,
    },
    /// The empty timer fired. The state decides whether the room ends. A room that was woken for this has a permit.
    EmptyTimeout(Option<ProjectPermit>),
    /// The participants have to be notified that the room reaches its maximum duration.
    DurationNotice,
    /// The room has reached its maximum duration.
    DurationEnd,
    /// A reserved seat may have expired.
    ReservationExpired,
    /// Reconcile the records with the media plane.
    Reconcile,
    /// Participants on the media plane, for reconciliation.
    Observed(Box<RoomObservation>),
    /// The start of a recording that starts by itself is over.
    AutoRecorded {
        /// Participant whose join was the cause.
        sid: ParticipantSid,
        /// Whether it was started, has failed for good, or is not needed.
        is_settled: bool,
    },
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl RoomMsg {
    /// Replies on behalf of a room that has ended.
    pub(crate) fn reply_as_ended(self) {
        match self {
            // The outcome that the caller wanted, or the nearest refusal.
            Self::Barrier(barrier) => barrier.pass(),
            // Ending an ended room succeeds.
            Self::End(reply) => drop(reply.send(Ok(()))),
            Self::ChangeRole { reply, .. } => drop(reply.send(Err(participant_not_found()))),
            // Same reply as for a participant that is not connected.
            Self::RemoveParticipant { reply, .. } => drop(reply.send(Ok(false))),
            Self::MuteTrack { reply, .. } => drop(reply.send(Ok(MuteOutcome::NoSuchParticipant))),
            Self::SendData { reply, .. } => drop(reply.send(Err(room_ended()))),
            Self::MediaCallEnded { outcome, .. } => outcome
                .into_iter()
                .for_each(|outcome| outcome.reply_as_ended()),
            // Queued reports are refused where the end of the room is noticed.
            Self::Reports
            | Self::EmptyTimeout(_)
            | Self::DurationNotice
            | Self::DurationEnd
            | Self::ReservationExpired
            | Self::Reconcile
            | Self::Observed(_)
            | Self::AutoRecorded { .. }
            | Self::Inspect(_) => {}
        }
    }

    /// Replies on behalf of a room whose records cannot be read because the database file is damaged.
    pub(crate) fn reply_as_unreadable(self) {
        let unreadable = || {
            TreeError::Store(StoreError::Damaged(
                "the records of the room cannot be read".into(),
            ))
        };
        match self {
            Self::ChangeRole { reply, .. } => drop(reply.send(Err(unreadable()))),
            Self::RemoveParticipant { reply, .. } => drop(reply.send(Err(unreadable()))),
            Self::MuteTrack { reply, .. } => drop(reply.send(Err(unreadable()))),
            Self::End(reply) | Self::SendData { reply, .. } => drop(reply.send(Err(unreadable()))),
            // The others do not depend on the records.
            other => other.reply_as_ended(),
        }
    }
}

impl InspectMessage for RoomMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// Reply to a role change.
pub type RoleReply = RpcReplyPort<Result<RoleChanged, TreeError>>;
/// Reply to a removal; false if the participant is not connected.
pub type RemoveReply = RpcReplyPort<Result<bool, TreeError>>;
/// Reply to muting or unmuting a track.
pub type MuteReply = RpcReplyPort<Result<MuteOutcome, TreeError>>;
/// Reply to sending data.
pub type SendDataReply = RpcReplyPort<Result<(), TreeError>>;

/// Request to give a participant another role.
#[derive(Debug, Clone)]
pub struct ChangeRoleRequest {
    /// Participant, which must be connected.
    pub identity: Identity,
    /// Role in the room's template.
    pub role: RoleName,
    /// Participant or API key that makes the request.
    pub by: ChangedBy,
}

/// Request to mute or unmute a participant's track.
#[derive(Debug, Clone)]
pub struct MuteTrackRequest {
    /// Participant that publishes the track.
    pub identity: Identity,
    /// Track to mute or unmute.
    pub track: TrackSid,
    /// True mutes, false unmutes.
    pub muted: bool,
}

/// Returns the error for a participant that is not connected.
pub(super) fn participant_not_found() -> TreeError {
    Problem::participant_not_found().into()
}

/// Returns the error for data to a room that has ended.
pub(super) fn room_ended() -> TreeError {
    Problem::no_room_for_data().into()
}

/// Call number, unique within one run of a room's actor.
pub type CallId = u64;

/// Call result, with the caller's reply port.
#[derive(Debug)]
pub enum CallOutcome {
    /// A participant was disconnected, or was not connected.
    Removed(RemoveReply, Result<bool, MediaError>),
    /// A track was muted or unmuted, or did not exist.
    Muted(MuteReply, Result<MuteOutcome, MediaError>),
    /// Data was sent.
    DataSent(SendDataReply, Result<(), MediaError>),
    /// Joins were notified of the room's end.
    Notified(Vec<ParticipantSid>, Result<(), MediaError>),
    /// A participant was given another role, which is not written yet.
    RoleSet(Box<AcceptedRole>, Result<Participant, TreeError>),
}

/// Role change to be written, accepted by the media plane.
#[derive(Debug)]
pub struct AcceptedRole {
    /// The participant and the role.
    pub(super) request: ChangeRoleRequest,
    /// Response to store with the change.
    pub(super) recorder: Option<ResponseRecorder<RoleChanged>>,
    /// Replied to once the change is durable.
    pub(super) reply: RoleReply,
}

impl CallOutcome {
    /// Sends the caller the media plane's reply. A role change that can no longer be written is refused as in a room that has ended.
    pub(super) fn reply_as_ended(self) {
        match self {
            Self::Removed(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::Muted(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::DataSent(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            // No caller waits for this.
            Self::Notified(..) => {}
            Self::RoleSet(accepted, result) => {
                // The media plane has changed the role, but the session that it belongs to has ended.
                let error = result.map_or_else(|error| error, |_| participant_not_found());
                let _ = accepted.reply.send(Err(error));
            }
        }
    }
}
