//! Reports from a media plane to the control plane.

use std::sync::{Arc, OnceLock, Weak};

use conclave_model::egress::EgressState;
use conclave_model::event::{Departure, ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::{Identity, NamespacedRoom, Timestamp};
use tokio::sync::oneshot;

/// A report of an event on the media plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The event's room.
    pub room: NamespacedRoom,
    /// Time of the event, by the media plane's clock.
    pub at: Timestamp,
    /// The event.
    pub event: MediaEvent,
}

/// An event in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaEvent {
    /// A participant requests a join. This is a question, which leaves no record. The reply is the same as for the
    /// join's report. Refused if nothing can be written at the moment.
    JoinRequested {
        /// The joining participant.
        participant: Box<Participant>,
        /// Whether a seat in its role is reserved for it, for at most 60 seconds.
        /// [`ParticipantJoined`](Self::ParticipantJoined) takes the seat, [`JoinAborted`](Self::JoinAborted) releases
        /// it.
        reserves_seat: bool,
    },
    /// A participant connected. If this report is refused, the media plane disconnects it, unless the room is unknown
    /// and may belong to another server.
    ParticipantJoined(Box<Participant>),
    /// A participant connected whose identity the API does not allow, so that it can have no session. The report is
    /// refused, and the media plane disconnects the participant, unless the room is unknown.
    InvalidIdentity,
    /// A joined participant disconnected.
    ParticipantLeft {
        /// The participant that left.
        participant: ParticipantRef,
        /// Whether it left or was removed on purpose, or lost its connection.
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
    /// A track was muted or unmuted. Causes no event for receivers; the state is part of the track's next event.
    TrackMuted {
        /// The participant that publishes the track.
        participant: ParticipantRef,
        /// The track's new state.
        track: TrackSummary,
    },
    /// A participant's bitrate exceeded its limit, or fell back below it.
    PublishLimit {
        /// The participant.
        participant: ParticipantRef,
        /// The bitrate, the limit, and whether the limit is exceeded.
        limit: PublishLimit,
    },
    /// A recording's or broadcast's state changed. The same state may be reported twice, and late.
    Egress(EgressState),
    /// An ingress endpoint's state changed. The same state may be reported twice, and late.
    Ingress(IngressState),
}

impl MediaEvent {
    /// Returns the identity of the participant that the event concerns.
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

/// Reason why the control plane did not accept a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The room has no record. It may belong to another server that uses the same media plane.
    #[error("the room has no record")]
    UnknownRoom,
    /// The participant's role has its maximum number of participants in this room.
    #[error("the role is full for this room")]
    RoleFull,
    /// The room's template no longer has the participant's role.
    #[error("the room no longer has this role")]
    RoleRemoved,
    /// The participant's identity is banned from the room.
    #[error("the identity is banned from this room")]
    Banned,
    /// The participant's token was minted before the tokens of its identity were revoked.
    #[error("the token was revoked")]
    TokenRevoked,
    /// The participant's identity does not match the API's pattern.
    #[error("the API does not allow the identity")]
    InvalidIdentity,
    /// The report could not be recorded. The media plane must repeat it, if it can.
    #[error("the report could not be written")]
    Unavailable,
}

/// Resolves once the report's effects are durable.
pub type ReportReply = oneshot::Receiver<Result<(), ReportError>>;

/// Receiver of a media plane's reports.
pub trait ReportSink: Send + Sync + 'static {
    /// Accepts the reports about one change of one room, without blocking. The control plane gets them at once, so that nothing happens
    /// between them: a room does not end between the leave of a replaced participant and the join of its successor. Reports for one room are
    /// handled in the order of these calls. So a plane calls this while it holds the lock that orders its events, and awaits the replies
    /// after it has released the lock.
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply>;

    /// Accepts a single report, like [`Self::report_all`].
    fn report(&self, report: Report) -> ReportReply {
        self.report_all(vec![report]).remove(0)
    }
}

/// Accepts reports for a control plane that starts after the media plane. The control plane owns the media plane; this
/// holds only a weak reference in the other direction. Clones share it.
#[derive(Clone, Default)]
pub struct ReportInlet(Arc<OnceLock<Weak<dyn ReportSink>>>);

impl ReportInlet {
    /// Connects the control plane. Before that, and once it is dropped, reports count as refused, so that no
    /// participant can join. Only the first call has an effect.
    pub fn connect(&self, sink: Weak<dyn ReportSink>) {
        // Ignored: there is only one control plane.
        let _ = self.0.set(sink);
    }
}

impl ReportSink for ReportInlet {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        match self.0.get().and_then(Weak::upgrade) {
            Some(sink) => sink.report_all(reports),
            // Dropping the sender counts as `ReportError::Unavailable`.
            None => reports.iter().map(|_| oneshot::channel().1).collect(),
        }
    }
}
