//! The messages of a room actor.

use conclave_db::{OpenTrack, StoreError};
use conclave_media::{MuteOutcome, ServerData};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::participant::Participant;
use conclave_model::permits::ProjectPermit;
use conclave_model::role_change::RoleChanged;
use conclave_model::{Identity, ParticipantSid, Timestamp};
use ractor::RpcReplyPort;

use super::outcome::{CallId, CallOutcome};
use super::requests::{
    ChangeRoleRequest, MuteReply, MuteTrackRequest, RemoveReply, RoleReply, SendDataReply,
    participant_not_found, room_ended,
};
use crate::barrier::Barrier;
use crate::error::TreeError;
use crate::inspection::{InspectMessage, Inspection};

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
