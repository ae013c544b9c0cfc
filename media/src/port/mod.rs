//! The port: what the control plane asks of a media plane, and what a media plane reports back.

mod egress;
mod ingress;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::egress::EgressState;
use conclave_model::event::{PublishLimit, TrackFacts, Who};
use conclave_model::ingress::IngressState;
use conclave_model::participant::{DataKind, Participant, Track};
use conclave_model::role::Role;
use conclave_model::{
    EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, Timestamp, TrackSid,
};
use tokio::sync::oneshot;

use crate::token::Grants;

pub use egress::{EgressOutput, EgressRequest};
pub use ingress::{IngressCredentials, IngressRequest, KnownIngress};

/// A media plane. Calls are idempotent where the contract lets them be, and never change a record: whatever they cause is
/// reported like everything else.
#[async_trait]
pub trait MediaPlane: Send + Sync + 'static {
    /// The plane's name in the configuration.
    fn kind(&self) -> &'static str;

    /// Says whether the plane answers.
    async fn health(&self) -> Result<(), MediaError>;

    /// Everybody in a room, hidden ones too; empty when the plane knows no such room.
    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError>;

    /// Somebody in a room.
    async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, MediaError>;

    /// Disconnects one join. Says whether there was anybody to disconnect.
    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError>;

    /// Mutes or unmutes a track of somebody in a room. One that is so already stays so, and that is a success.
    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError>;

    /// Sends a message from the server to people in a room. Whoever it is meant for and is not there does not get it.
    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError>;

    /// Gives somebody in a room what a role comes to: grants, and the attributes that name the role and its ceiling, in
    /// place of what its token said. Its client gets a refreshed token, tracks that the role does not allow stop and are
    /// reported, and who receives whom follows the new role. The participant as it is then; `None` when nobody by that
    /// identity is there.
    async fn set_role(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError>;

    /// Closes the live side of a room and disconnects everybody. Nothing to close is a success.
    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError>;

    /// Starts a recording or a broadcast. What it is from then on is reported.
    async fn start_egress(&self, job: EgressRequest) -> Result<EgressState, MediaError>;

    /// How a job stands; `None` when the plane does not know it, or no longer.
    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError>;

    /// Tells a job to finish what it has. One that has ended stays as it is; `None` when the plane does not know it.
    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError>;

    /// Makes an endpoint that an encoder can publish to.
    async fn create_ingress(&self, new: IngressRequest) -> Result<IngressCredentials, MediaError>;

    /// How an endpoint stands; `None` when the plane does not know it and cannot take it up again.
    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError>;

    /// Takes an endpoint away, and whoever publishes through it with it. None to take away is a success.
    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError>;

    /// What is live in the rooms of a project, to hold the records against.
    async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError>;

    /// Says which roles each role of a room receives (`role.subscribe.to_roles`, decisions section 4): `None`, or a role
    /// that the map lacks, is everyone. Replaces what was said before. A plane keeps the rules of a room that nobody has
    /// joined yet, and forgets them when the room is closed.
    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError>;
}

/// What muting a track came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MuteOutcome {
    /// The track, as it is now.
    Done(Track),
    /// Nobody by that identity is in the room.
    NoSuchParticipant,
    /// The participant publishes no track with that sid.
    NoSuchTrack,
}

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerData {
    /// The bytes.
    pub data: Vec<u8>,
    /// The topic.
    pub topic: Option<String>,
    /// How it travels.
    pub kind: DataKind,
    /// Whom it is meant for; empty is everyone.
    pub to: Vec<Identity>,
}

/// What holding a role comes to on a media plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleGrant {
    /// Its name.
    pub role: RoleName,
    /// What its holder may do.
    pub grants: Grants,
    /// Ceiling over everything its holder publishes, in kilobits a second.
    pub max_kbps: Option<u32>,
}

impl From<&Role> for RoleGrant {
    fn from(role: &Role) -> Self {
        Self {
            role: role.name.clone(),
            grants: Grants::from_role(&role.publish, &role.subscribe, role.hidden),
            max_kbps: role.publish.max_kbps.and_then(|kbps| u32::try_from(kbps.get()).ok()),
        }
    }
}

/// What is live in the rooms of a project at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Rooms with somebody in them.
    pub rooms: Vec<NamespacedRoom>,
    /// Rooms that are open all the same.
    pub empty_rooms: Vec<NamespacedRoom>,
    /// Jobs that have not ended, with their rooms.
    pub egresses: Vec<(NamespacedRoom, EgressState)>,
    /// Endpoints, with their rooms.
    pub ingresses: Vec<(NamespacedRoom, IngressState)>,
}

/// Why a call to the media plane came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// It did not answer, or not as itself. Safe to retry. The text is for whoever runs the server.
    #[error("the media plane is unavailable: {0}")]
    Unavailable(String),
    /// It answered, and refused for a reason of its own. Safe to retry, once that is seen to: the text says what it is.
    #[error("the media plane refused: {0}")]
    Refused(String),
    /// It has not answered for a while, and was not asked. Safe to retry, after that long.
    #[error("the media plane does not answer, and will be asked again in {retry_after:?}")]
    CircuitOpen {
        /// How long nobody asks.
        retry_after: Duration,
    },
}

/// Something that happened on the media plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In which room.
    pub room: NamespacedRoom,
    /// When, by the media plane's clock.
    pub at: Timestamp,
    /// What.
    pub event: MediaEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaEvent {
    /// Somebody connected. Refusing this report keeps them out.
    ParticipantJoined(Box<Participant>),
    /// Somebody who had joined is gone; `clean` when they said goodbye or were disconnected on purpose.
    ParticipantLeft {
        /// Who.
        participant: Who,
        /// Whether it was a clean leave.
        clean: bool,
    },
    /// A join failed before it completed.
    JoinAborted {
        /// Who would have joined.
        participant: Who,
    },
    /// A track began.
    TrackPublished {
        /// Whose.
        participant: Who,
        /// Which.
        track: TrackFacts,
    },
    /// A track stopped.
    TrackUnpublished {
        /// Whose.
        participant: Who,
        /// Which.
        track: TrackFacts,
    },
    /// A track was muted or unmuted. No event of the contract; the track's next one carries the state.
    TrackMuted {
        /// Whose.
        participant: Who,
        /// Which, as it is now.
        track: TrackFacts,
    },
    /// Somebody's bitrate crossed its ceiling.
    PublishLimit {
        /// Whose.
        participant: Who,
        /// How.
        limit: PublishLimit,
    },
    /// A recording or a broadcast stands differently. The same may be reported twice, and late.
    Egress(EgressState),
    /// An ingress endpoint stands differently. The same may be reported twice, and late.
    Ingress(IngressState),
}

/// Why the control plane did not take a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The room has ended, or never was.
    #[error("the room has ended")]
    RoomEnded,
    /// The role that the participant would hold is full.
    #[error("the role is full for this room")]
    RoleFull,
    /// The report could not be written; it should be sent again.
    #[error("the report could not be written")]
    Unavailable,
}

/// Resolves once the state that a report causes is durable.
pub type ReportAnswer = oneshot::Receiver<Result<(), ReportError>>;

/// Where a plane's reports go.
pub trait ReportSink: Send + Sync + 'static {
    /// Takes a report in without waiting. Reports of one room are handled in the order of these calls, so a plane calls
    /// this while it still holds whatever lock ordered the facts, and waits for the answer after letting go of it.
    fn report(&self, report: Report) -> ReportAnswer;
}
