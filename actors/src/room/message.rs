//! The messages of a room actor: the requests of callers with their replies, and the outcomes of calls to the media plane.

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

/// A room on the media plane, and in the records at the moment when the plane was asked.
#[derive(Debug)]
pub struct RoomObservation {
    /// The instant at which the plane was asked.
    pub(super) asked_at: Timestamp,
    /// Joins in the records that had had the time to complete.
    pub(super) known: Vec<ParticipantSid>,
    /// Open tracks in the records.
    pub(super) tracks: Vec<OpenTrack>,
    /// Participants on the media plane.
    pub(super) participants: Vec<Participant>,
}

/// A message to a room actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoomMsg {
    /// Reports of the media plane wait in the room's queue.
    #[strum(to_string = "report")]
    Reports,
    /// Release the actor that waits until the messages before this one are handled.
    Barrier(Barrier),
    /// End the room.
    End(RpcReplyPort<Result<(), TreeError>>),
    /// Give a participant another role.
    ChangeRole {
        /// The participant and the role.
        request: Box<ChangeRoleRequest>,
        /// The response to store with the change.
        recorder: Option<ResponseRecorder<RoleChanged>>,
        /// Answered once the change is durable.
        reply: RoleReply,
    },
    /// Disconnect a participant.
    RemoveParticipant {
        /// The participant to remove.
        identity: Identity,
        /// Answered once the media plane has done it.
        reply: RemoveReply,
    },
    /// Mute or unmute a participant's track.
    MuteTrack {
        /// The publisher, the track, and whether to mute it.
        request: Box<MuteTrackRequest>,
        /// Answered once the media plane has done it.
        reply: MuteReply,
    },
    /// Send data to the participants.
    SendData {
        /// The data and its recipients.
        data: Box<ServerData>,
        /// Answered once the media plane has accepted it.
        reply: SendDataReply,
    },
    /// A call to the media plane has returned.
    MediaCallEnded {
        /// The id of the call that has ended.
        call: CallId,
        /// Its result; absent if the call panicked.
        outcome: Option<Box<CallOutcome>>,
    },
    /// The empty timer fired. The state decides whether the room ends. A room that was woken for this holds a permit.
    EmptyTimeout(Option<ProjectPermit>),
    /// The time of a reserved seat may be over.
    ReservationExpired,
    /// Reconcile the records with the media plane.
    Reconcile,
    /// The media plane's participants, for reconciliation.
    Observed(Box<RoomObservation>),
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl RoomMsg {
    /// Answers on behalf of a room that has ended.
    pub(crate) fn answer_as_ended(self) {
        match self {
            Self::Barrier(barrier) => barrier.pass(),
            Self::End(reply) => drop(reply.send(Ok(()))),
            Self::ChangeRole { reply, .. } => drop(reply.send(Err(participant_not_found()))),
            Self::RemoveParticipant { reply, .. } => drop(reply.send(Ok(false))),
            Self::MuteTrack { reply, .. } => drop(reply.send(Ok(MuteOutcome::NoSuchParticipant))),
            Self::SendData { reply, .. } => drop(reply.send(Err(room_ended()))),
            Self::MediaCallEnded { outcome, .. } => outcome
                .into_iter()
                .for_each(|outcome| outcome.answer_as_ended()),
            // Who finds that the room has ended answers what waits in its queue.
            Self::Reports
            | Self::EmptyTimeout(_)
            | Self::ReservationExpired
            | Self::Reconcile
            | Self::Observed(_)
            | Self::Inspect(_) => {}
        }
    }

    /// Answers on behalf of a room whose records cannot be read, since the file of the database is damaged.
    pub(crate) fn answer_as_unreadable(self) {
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
            other => other.answer_as_ended(),
        }
    }
}

impl InspectMessage for RoomMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The reply to a request for another role.
pub type RoleReply = RpcReplyPort<Result<RoleChanged, TreeError>>;
/// The reply to a removal: false when the participant is not connected.
pub type RemoveReply = RpcReplyPort<Result<bool, TreeError>>;
/// The reply to muting or unmuting a track.
pub type MuteReply = RpcReplyPort<Result<MuteOutcome, TreeError>>;
/// The reply to sending data.
pub type SendDataReply = RpcReplyPort<Result<(), TreeError>>;

/// A request to give a participant another role.
#[derive(Debug, Clone)]
pub struct ChangeRoleRequest {
    /// The participant, who must be connected.
    pub identity: Identity,
    /// A role of the room's template.
    pub role: RoleName,
    /// The participant or the API key that makes the request.
    pub by: ChangedBy,
}

/// A request to mute or unmute a participant's track.
#[derive(Debug, Clone)]
pub struct MuteTrackRequest {
    /// The participant that publishes the track.
    pub identity: Identity,
    /// The track to mute or unmute.
    pub track: TrackSid,
    /// True mutes, false unmutes.
    pub muted: bool,
}

/// Returns the error for a participant who is not connected.
pub(super) fn participant_not_found() -> TreeError {
    Problem::participant_not_found().into()
}

/// Returns the error for data to a room that has ended.
pub(super) fn room_ended() -> TreeError {
    Problem::no_room_for_data().into()
}

/// The number of a call, unique within one run of a room's actor.
pub type CallId = u64;

/// The result of a call, with the reply that waits for it.
#[derive(Debug)]
pub enum CallOutcome {
    /// A participant was disconnected, or was not there.
    Removed(RemoveReply, Result<bool, MediaError>),
    /// A track was muted or unmuted, or was not there.
    Muted(MuteReply, Result<MuteOutcome, MediaError>),
    /// Data was sent.
    DataSent(SendDataReply, Result<(), MediaError>),
    /// A participant was given another role, which is not written yet.
    RoleSet(Box<AcceptedRole>, Result<Participant, TreeError>),
}

/// A role change that is written once the media plane has accepted it.
#[derive(Debug)]
pub struct AcceptedRole {
    /// The participant and the role.
    pub(super) request: ChangeRoleRequest,
    /// The response to store with the change.
    pub(super) recorder: Option<ResponseRecorder<RoleChanged>>,
    /// Answered once the change is durable.
    pub(super) reply: RoleReply,
}

impl CallOutcome {
    /// Gives the caller the media plane's answer. A role change that cannot be written any more is answered as one of a room
    /// that has ended.
    pub(super) fn answer_as_ended(self) {
        match self {
            Self::Removed(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::Muted(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::DataSent(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::RoleSet(accepted, result) => {
                let error = result.map_or_else(|error| error, |_| participant_not_found());
                let _ = accepted.reply.send(Err(error));
            }
        }
    }
}
