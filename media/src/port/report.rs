//! Reports: what a media plane tells the control plane.

use std::sync::{Arc, OnceLock, Weak};

use conclave_model::egress::EgressState;
use conclave_model::event::{Departure, ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::{Identity, NamespacedRoom, Timestamp};
use tokio::sync::oneshot;

/// An event on the media plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The room of the event.
    pub room: NamespacedRoom,
    /// When the event occurred, by the media plane's clock.
    pub at: Timestamp,
    /// The event itself.
    pub event: MediaEvent,
}

/// An event in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaEvent {
    /// A participant wants to connect: a question, which leaves no record. It is answered as the report of its join would
    /// be, and refused if nothing can be written now.
    JoinRequested {
        /// The participant that is joining.
        participant: Box<Participant>,
        /// Whether a seat of its role is kept for it, for 60 seconds at most. Its report of
        /// [`ParticipantJoined`](Self::ParticipantJoined) takes the seat, and that of
        /// [`JoinAborted`](Self::JoinAborted) releases it.
        reserves_seat: bool,
    },
    /// A participant connected. If this report is refused, the media plane disconnects it, unless the room is unknown and
    /// may be another server's.
    ParticipantJoined(Box<Participant>),
    /// A participant connected whose identity the API does not allow, so that it can have no session. The report is
    /// refused, and the media plane disconnects the participant, unless the room is unknown.
    InvalidIdentity,
    /// A participant that had joined disconnected.
    ParticipantLeft {
        /// The participant that left.
        participant: ParticipantRef,
        /// Whether it left or was removed on purpose, or its connection was lost.
        departure: Departure,
    },
    /// A join failed before it was complete.
    JoinAborted {
        /// The participant that did not join.
        participant: ParticipantRef,
    },
    /// A participant published a track.
    TrackPublished {
        /// The participant that publishes the track.
        participant: ParticipantRef,
        /// The track at the time of the event.
        track: TrackSummary,
    },
    /// A track ended.
    TrackUnpublished {
        /// The participant that publishes the track.
        participant: ParticipantRef,
        /// The track at the time of the event.
        track: TrackSummary,
    },
    /// A track was muted or unmuted. There is no event for this; the state is part of the track's next event.
    TrackMuted {
        /// The participant that publishes the track.
        participant: ParticipantRef,
        /// The track afterwards.
        track: TrackSummary,
    },
    /// A participant's bitrate exceeded its limit, or fell back below it.
    PublishLimit {
        /// The participant that publishes the track.
        participant: ParticipantRef,
        /// The bitrate, the limit, and which of the two is higher.
        limit: PublishLimit,
    },
    /// The state of a recording or broadcast changed. The same state may be reported twice, and late.
    Egress(EgressState),
    /// The state of an ingress endpoint changed. The same state may be reported twice, and late.
    Ingress(IngressState),
}

impl MediaEvent {
    /// Returns the identity of the participant that the event is about.
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::JoinRequested { participant, .. } | Self::ParticipantJoined(participant) => {
                Some(&participant.identity)
            }
            Self::ParticipantLeft { participant, .. }
            | Self::JoinAborted { participant }
            | Self::TrackPublished { participant, .. }
            | Self::TrackUnpublished { participant, .. }
            | Self::TrackMuted { participant, .. }
            | Self::PublishLimit { participant, .. } => Some(&participant.identity),
            Self::InvalidIdentity | Self::Egress(_) | Self::Ingress(_) => None,
        }
    }
}

/// Why the control plane did not accept a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The room has no record. Another server may own it that uses the same media plane.
    #[error("the room is in no record")]
    UnknownRoom,
    /// The participant's role has its maximum of participants in this room.
    #[error("the role is full for this room")]
    RoleFull,
    /// The room's template no longer has the participant's role.
    #[error("the room has no such role any more")]
    RoleRemoved,
    /// The participant's identity does not match the API's pattern.
    #[error("the API does not allow the identity")]
    InvalidIdentity,
    /// The report could not be recorded. The media plane has to repeat it, if it can.
    #[error("the report could not be written")]
    Unavailable,
}

/// Resolves once what the report causes is durable.
pub type ReportAnswer = oneshot::Receiver<Result<(), ReportError>>;

/// Receives the reports of a media plane.
pub trait ReportSink: Send + Sync + 'static {
    /// Accepts a report without waiting. Reports of one room are handled in the order of these calls. A plane therefore
    /// calls this while it holds the lock that orders its events, and awaits the answer after it has released the lock.
    fn report(&self, report: Report) -> ReportAnswer;
}

/// Takes the reports for a control plane that is started after the media plane, and that keeps the media plane: the other way round it is
/// not kept. Clones share it.
#[derive(Clone, Default)]
pub struct ReportInlet(Arc<OnceLock<Weak<dyn ReportSink>>>);

impl ReportInlet {
    /// Connects the control plane. Before that, and once it is dropped, reports count as refused, so that no participant can join.
    /// Only the first call has an effect.
    pub fn connect(&self, sink: Weak<dyn ReportSink>) {
        // There is one control plane.
        let _ = self.0.set(sink);
    }
}

impl ReportSink for ReportInlet {
    fn report(&self, report: Report) -> ReportAnswer {
        match self.0.get().and_then(Weak::upgrade) {
            Some(sink) => sink.report(report),
            // The sender is dropped, which counts as `ReportError::Unavailable`.
            None => oneshot::channel().1,
        }
    }
}
