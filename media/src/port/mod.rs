//! The port: the calls that the control plane makes to a media plane, and the reports that a media plane sends.

mod report;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, StartedEgress};
use conclave_model::ingress::{Ingress, IngressState, InputType, StreamKeyHash};
use conclave_model::participant::{DataKind, Participant, Track};
use conclave_model::role::{Role, RoleSubscribe};
use conclave_model::{
    EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, Secret,
    Timestamp, TrackSid,
};

use crate::token::Grants;
pub use report::{MediaEvent, Report, ReportAnswer, ReportError, ReportInlet, ReportSink};

/// A media plane. Calls can be repeated wherever an operation of the API can be. They never change a record: what they cause is
/// reported, like everything else.
#[async_trait]
pub trait MediaPlane: Send + Sync + 'static {
    /// Returns the plane's name in the configuration.
    fn kind(&self) -> &'static str;

    /// Checks whether the plane answers.
    async fn health(&self) -> Result<(), MediaError>;

    /// Returns the participants connected to a room, including hidden ones. A room that is not live has none.
    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError>;

    /// Returns whether participants stay connected when this server crashes: the plane is in another process.
    fn outlives_server(&self) -> bool {
        false
    }

    /// Returns how long a participant may still be connected after a list that lacks it: only if a list at least this much
    /// later lacks it too, it has left. Zero for a plane whose lists are exact.
    fn absence_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns a participant; `None` if no participant with that identity is connected.
    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError>;

    /// Disconnects the participant with this sid; returns whether it was connected.
    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError>;

    /// Mutes or unmutes a participant's track. Succeeds if the track is in that state already.
    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError>;

    /// Sends a data message from the server. Recipients that are not connected are skipped.
    async fn send_data(&self, room: &NamespacedRoom, message: ServerData)
    -> Result<(), MediaError>;

    /// Replaces a participant's grants, and the attributes for role and bitrate limit, by those of a role. The client
    /// receives a refreshed token, tracks that the role forbids are unpublished and reported, and the subscription rules of
    /// the new role apply. Returns the participant afterwards; `None` if no participant with that identity is connected.
    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError>;

    /// Gives a participant that is joining a role in place of its token's, before it can do anything by the token's if the plane
    /// asks about joins. Returns the participant afterwards; `None` if it is gone.
    async fn set_role_of_join(
        &self,
        room: &NamespacedRoom,
        participant: &Participant,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.set_role(room, &participant.identity, role).await
    }

    /// Closes a room and disconnects its participants. Succeeds if the room is not live.
    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError>;

    /// Returns whether clients may change the name, metadata and attributes of their participants, if their roles permit. Not on a plane
    /// that would let them change the attribute with their role, too.
    fn permits_own_metadata(&self) -> bool {
        true
    }

    /// Returns whether the plane writes recordings to their destinations itself, for which it needs the credentials.
    fn uploads_recordings(&self) -> bool {
        false
    }

    /// Starts a recording or a broadcast. Its later states are reported. `storage` is that of a recording with a destination, for a
    /// plane that uploads recordings.
    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        storage: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError>;

    /// Returns the running egresses that a start by this plan at `since` may have started, also if its answer was lost. None on a
    /// plane whose answers cannot be lost.
    async fn egresses_started_by(
        &self,
        _plan: &EgressPlan,
        _since: Timestamp,
    ) -> Result<Vec<EgressId>, MediaError> {
        Ok(Vec::new())
    }

    /// Returns the state of an egress; `None` if the plane does not know it, or no longer knows it.
    async fn egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError>;

    /// Tells an egress to finish, without effect if it has ended. Returns its state; `None` if the plane does not know it.
    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError>;

    /// Creates an ingress endpoint.
    async fn create_ingress(
        &self,
        request: IngressRequest,
    ) -> Result<IngressCredentials, MediaError>;

    /// Returns the state of an ingress endpoint; `None` if the plane does not know it and cannot restore it.
    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError>;

    /// Deletes an ingress endpoint and disconnects its encoder. Succeeds if there is none.
    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError>;

    /// Returns what is live in the rooms of all projects, for reconciliation with the records.
    async fn survey(&self) -> Result<Survey, MediaError>;

    /// Returns the state of the transports and tracks of a room's participants, for inspection; `None` if the plane shows
    /// none. It does not return before the plane answers, so callers limit the time.
    async fn inspect_room(&self, _room: &NamespacedRoom) -> Option<serde_json::Value> {
        None
    }

    /// Returns what an egress has done so far, for inspection; `None` if the plane does not show it.
    async fn inspect_egress(&self, _id: &EgressId) -> Option<serde_json::Value> {
        None
    }

    /// Sets what each role of a room receives (`role.subscribe`). A role that is not in the map receives
    /// all. Replaces the previous rules. The plane keeps the rules of a room before its first join, and removes them when the
    /// room is closed.
    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError>;
}

/// The outcome of muting or unmuting a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MuteOutcome {
    /// The track has the requested state. Holds the track afterwards.
    Done(Track),
    /// No participant with that identity is connected to the room.
    NoSuchParticipant,
    /// The participant publishes no track with that sid.
    NoSuchTrack,
}

/// A data message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerData {
    /// The bytes of the message, passed on unread.
    pub data: Vec<u8>,
    /// The topic, by which clients tell messages apart.
    pub topic: Option<String>,
    /// Whether the delivery is reliable.
    pub kind: DataKind,
    /// The recipients; empty means all participants.
    pub to: Vec<Identity>,
}

/// A role as a media plane applies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleGrant {
    /// The role's name.
    pub role: RoleName,
    /// What a participant with the role may do.
    pub grants: Grants,
    /// Limit of everything a participant publishes together, in kilobits per second; `None` means no limit.
    pub max_kbps: Option<u32>,
}

impl From<&Role> for RoleGrant {
    fn from(role: &Role) -> Self {
        Self {
            role: role.name.clone(),
            grants: Grants::from_role(role),
            max_kbps: role
                .publish
                .max_kbps
                .and_then(|kbps| u32::try_from(kbps.get()).ok()),
        }
    }
}

/// What is live in the rooms of all projects, or of one, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Rooms with participants.
    pub rooms: Vec<NamespacedRoom>,
    /// Live rooms without participants.
    pub empty_rooms: Vec<NamespacedRoom>,
    /// Egresses that have not ended, with their rooms.
    pub egresses: Vec<(NamespacedRoom, EgressState)>,
    /// Ingress endpoints, with their rooms.
    pub ingresses: Vec<(NamespacedRoom, IngressState)>,
}

impl Survey {
    /// Shares a survey out to the projects of its rooms.
    pub fn by_project(self) -> BTreeMap<ProjectId, Self> {
        let mut shares = BTreeMap::<ProjectId, Self>::new();
        for room in self.rooms {
            shares.entry(room.split().0).or_default().rooms.push(room);
        }
        for room in self.empty_rooms {
            shares
                .entry(room.split().0)
                .or_default()
                .empty_rooms
                .push(room);
        }
        for egress in self.egresses {
            shares
                .entry(egress.0.split().0)
                .or_default()
                .egresses
                .push(egress);
        }
        for ingress in self.ingresses {
            shares
                .entry(ingress.0.split().0)
                .or_default()
                .ingresses
                .push(ingress);
        }
        shares
    }
}

/// Why a call to the media plane failed. The texts are for the operator of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The plane did not answer. The call can be repeated.
    #[error("the media plane is unavailable: {0}")]
    Unavailable(String),
    /// The plane answered with an error. The call can be repeated once the cause that the text names is removed.
    #[error("the media plane refused: {0}")]
    Refused(String),
    /// The track that is to be recorded is not published.
    #[error("the room has no such track")]
    NoSuchTrack,
    /// All tracks that are to be recorded are encrypted end to end.
    #[error(
        "the server cannot decrypt what is encrypted end to end, so there is nothing to record"
    )]
    Encrypted {
        /// The field of the request that names the tracks.
        field: &'static str,
    },
    /// No file can have the path that a recording was asked for. The text is for the client.
    #[error("{0}")]
    InvalidFilepath(String),
    /// The plane runs as many recordings and broadcasts as it can.
    #[error(
        "as many recordings and broadcasts run as this server can encode; retry after {retry_after:?}"
    )]
    Busy {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// The circuit breaker rejected the call, because earlier calls were not answered.
    #[error("the media plane does not answer, and will be asked again in {retry_after:?}")]
    CircuitOpen {
        /// How long calls are still rejected.
        retry_after: Duration,
    },
}

/// A request to create an ingress endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressRequest {
    /// The room that the encoder publishes into.
    pub room: NamespacedRoom,
    /// The room's effective maximum of participants, used if the media plane opens it; `None` means no limit.
    pub max_participants: Option<u32>,
    /// The protocol of the encoder.
    pub input_type: InputType,
    /// The identity that the encoder joins as.
    pub identity: Identity,
    /// The display name that the encoder joins with.
    pub name: Option<String>,
    /// The websocket URL by which the client reaches the embedded plane, if that depends on the client: encoders connect to its host.
    pub public_url: Option<String>,
    /// Whether the stream is transcoded; `None` means the media plane's default for the input type.
    pub enable_transcoding: Option<bool>,
}

/// What an encoder needs to publish to a new ingress endpoint.
#[derive(Debug, Clone)]
pub struct IngressCredentials {
    /// The endpoint's id.
    pub ingress_id: IngressId,
    /// The publish url, without the stream key, which is appended as the last path segment.
    pub url: String,
    /// The stream key. It is shown once, and only its hash is stored.
    pub stream_key: Secret,
}

/// An ingress endpoint as recorded in the database. The embedded plane restores an endpoint from it after a restart.
#[derive(Debug, Clone)]
pub struct KnownIngress {
    /// The endpoint's id.
    pub ingress_id: IngressId,
    /// The room that the encoder publishes into.
    pub room: NamespacedRoom,
    /// The identity that the encoder joins as.
    pub identity: Identity,
    /// The display name that the encoder joins with.
    pub name: Option<String>,
    /// The protocol of the encoder.
    pub input_type: InputType,
    /// The hash of the stream key.
    pub key_hash: StreamKeyHash,
}

impl From<&Ingress> for KnownIngress {
    fn from(ingress: &Ingress) -> Self {
        Self {
            ingress_id: ingress.ingress_id.clone(),
            room: ingress.namespaced_room(),
            identity: ingress.participant_identity.clone(),
            name: ingress.participant_name.clone(),
            input_type: ingress.input_type,
            key_hash: ingress.key_hash,
        }
    }
}
