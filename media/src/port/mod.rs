//! The port: the control plane's calls to a media plane, and a media plane's reports.

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
pub use report::{MediaEvent, Report, ReportError, ReportInlet, ReportReply, ReportSink};

/// A media plane. A call can be repeated wherever the API operation can be. Calls never change a record: their effects
/// are reported, like all other events.
#[async_trait]
pub trait MediaPlane: Send + Sync + 'static {
    /// Returns the plane's name in the configuration.
    fn kind(&self) -> &'static str;

    /// Checks whether the plane is available.
    async fn health(&self) -> Result<(), MediaError>;

    /// Returns a room's connected participants, including hidden ones; empty if the room is not live.
    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError>;

    /// Returns whether participants stay connected when this server crashes, because the plane is another process.
    fn outlives_server(&self) -> bool {
        false
    }

    /// Returns how long a connected participant may be missing from the plane's lists. It has left only if a second
    /// list, at least this much later, lacks it too. Zero for a plane whose lists are exact.
    fn absence_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns a participant; `None` if no participant with this identity is connected.
    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError>;

    /// Disconnects the participant with this sid. Returns whether it was connected.
    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError>;

    /// Mutes or unmutes a participant's track. Succeeds if the track already has that state.
    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError>;

    /// Sends a data message from the server. Skips recipients that are not connected.
    async fn send_data(&self, room: &NamespacedRoom, message: ServerData)
    -> Result<(), MediaError>;

    /// Sets a participant's grants, and its attributes for role and bitrate limit, to a role's values. The client receives
    /// a refreshed token, tracks that the role forbids are unpublished and reported, and the new role's subscription
    /// rules apply. Returns the participant's new state; `None` if no participant with this identity is connected.
    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError>;

    /// Replaces a joining participant's role from its token. On a plane that requests joins, this happens before the
    /// participant can use its token's role. Returns the participant's new state; `None` if it is gone.
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

    /// Returns whether clients may change their participants' name, metadata and attributes, if their roles permit it.
    /// False for a plane that would also permit changing the attribute that holds the role.
    fn permits_own_metadata(&self) -> bool {
        true
    }

    /// Returns whether the plane uploads recordings to their destinations itself, and so needs the credentials.
    fn uploads_recordings(&self) -> bool {
        false
    }

    /// Starts a recording or broadcast. Its later states are reported. `storage` belongs to the recording's
    /// destination, for a plane that uploads recordings.
    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        storage: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError>;

    /// Returns the running egresses that a start by this plan at `since` may have started, in case its reply was lost.
    /// Empty on a plane whose replies cannot be lost.
    async fn egresses_started_by(
        &self,
        _plan: &EgressPlan,
        _since: Timestamp,
    ) -> Result<Vec<EgressId>, MediaError> {
        Ok(Vec::new())
    }

    /// Returns an egress's state; `None` if the plane does not know it, or no longer does.
    async fn egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError>;

    /// Stops an egress, without effect if it has ended. Returns its state; `None` if the plane does not know it.
    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError>;

    /// Pauses or resumes a recording, without effect if it is already so or has ended. Media of the pause is left out of the file, which
    /// goes on without a gap. Returns the recording's state; `None` if the plane does not know it.
    ///
    /// # Errors
    /// Refused by a plane that cannot pause recordings.
    async fn set_egress_paused(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
        paused: bool,
    ) -> Result<Option<EgressState>, MediaError>;

    /// Creates an ingress endpoint, and returns its credentials.
    async fn create_ingress(
        &self,
        request: IngressRequest,
    ) -> Result<IngressCredentials, MediaError>;

    /// Returns an ingress endpoint's state; `None` if the plane does not know it and cannot restore it.
    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError>;

    /// Deletes an ingress endpoint and disconnects its encoder. Succeeds if there is none.
    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError>;

    /// Returns an inventory of all projects' rooms, for reconciliation with the records.
    async fn inventory(&self) -> Result<MediaInventory, MediaError>;

    /// Returns the state of a room's transports and tracks, for inspection; `None` if the plane does not offer it.
    /// Waits for the plane without a limit, so callers need a timeout.
    async fn inspect_room(&self, _room: &NamespacedRoom) -> Option<serde_json::Value> {
        None
    }

    /// Returns an egress's progress, for inspection; `None` if the plane does not offer it.
    async fn inspect_egress(&self, _id: &EgressId) -> Option<serde_json::Value> {
        None
    }

    /// Replaces a room's subscription rules (`role.subscribe`). A role that is not in the map receives everyone. The
    /// plane keeps the rules before the room's first join, and removes them when the room is closed.
    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError>;
}

/// Outcome of muting or unmuting a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MuteOutcome {
    /// The track has the requested state.
    Done(Track),
    /// No participant with this identity is connected to the room.
    NoSuchParticipant,
    /// The participant publishes no track with this sid.
    NoSuchTrack,
}

/// A data message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerData {
    /// The message, which the plane does not interpret.
    pub data: Vec<u8>,
    /// The topic, which clients use to distinguish messages.
    pub topic: Option<String>,
    /// Whether delivery is reliable.
    pub kind: DataKind,
    /// Recipients; empty for all participants.
    pub to: Vec<Identity>,
}

/// A role as a media plane applies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleGrant {
    /// The role's name.
    pub role: RoleName,
    /// Permissions of a participant with the role.
    pub grants: Grants,
    /// Limit for a participant's total published bitrate, in kbit/s; `None` for no limit.
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
                // A limit beyond 32 bits is no limit in practice.
                .and_then(|kbps| u32::try_from(kbps.get()).ok()),
        }
    }
}

/// Inventory of live objects in all projects' rooms, or in one project's, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediaInventory {
    /// Rooms with participants.
    pub rooms: Vec<NamespacedRoom>,
    /// Live rooms without participants.
    pub empty_rooms: Vec<NamespacedRoom>,
    /// Egresses that have not ended, with their rooms.
    pub egresses: Vec<(NamespacedRoom, EgressState)>,
    /// Ingress endpoints, with their rooms.
    pub ingresses: Vec<(NamespacedRoom, IngressState)>,
}

impl MediaInventory {
    /// Divides the inventory by project.
    pub fn by_project(self) -> BTreeMap<ProjectId, Self> {
        // One inventory of the plane serves all projects, so that reconciliation costs it one call.
        let mut shares = BTreeMap::<ProjectId, Self>::new();
        for room in self.rooms {
            // A room's name starts with its project's id.
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

/// Reason why a call to the media plane failed. The texts are for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The plane did not reply. The call can be repeated.
    #[error("the media plane is unavailable: {0}")]
    Unavailable(String),
    /// The plane replied with an error. The call can be repeated once the cause named in the text is removed.
    #[error("the media plane refused: {0}")]
    Refused(String),
    /// The track to record is not published.
    #[error("the room has no such track")]
    NoSuchTrack,
    /// All tracks to record are encrypted end to end.
    #[error("all of the tracks are encrypted end to end, which the server cannot decrypt")]
    Encrypted {
        /// The request's field that selects the tracks.
        field: &'static str,
    },
    /// No file can have the requested path. The text is for the client.
    #[error("{0}")]
    InvalidFilepath(String),
    /// The plane runs its maximum number of recordings and broadcasts.
    #[error(
        "this server runs its maximum number of recordings and broadcasts; retry after {retry_after:?}"
    )]
    Busy {
        /// Time after which a retry makes sense.
        retry_after: Duration,
    },
    /// The circuit breaker rejected the call, because earlier calls had no reply.
    #[error("the media plane is unavailable; calls are rejected for {retry_after:?}")]
    CircuitOpen {
        /// Time for which calls are still rejected.
        retry_after: Duration,
    },
}

/// A request to create an ingress endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressRequest {
    /// The room that the encoder publishes into.
    pub room: NamespacedRoom,
    /// The room's effective maximum number of participants, used if the media plane opens it; `None` for no limit.
    pub max_participants: Option<u32>,
    /// The encoder's protocol.
    pub input_type: InputType,
    /// The encoder's participant identity.
    pub identity: Identity,
    /// The encoder's display name.
    pub name: Option<String>,
    /// The WebSocket URL at which the client reaches the embedded plane, if that depends on the client. Encoders
    /// connect to its host.
    pub public_url: Option<String>,
    /// Whether the stream is transcoded; `None` for the media plane's default for the input type.
    pub enable_transcoding: Option<bool>,
}

/// Id, URL and stream key of a new ingress endpoint.
#[derive(Debug, Clone)]
pub struct IngressCredentials {
    /// The endpoint's id.
    pub ingress_id: IngressId,
    /// Publish URL without the stream key, which is appended as the last path segment.
    pub url: String,
    /// The stream key. It is shown once, and only its hash is stored.
    pub stream_key: Secret,
}

/// An ingress endpoint as recorded in the database. The embedded plane restores endpoints from it after a restart.
#[derive(Debug, Clone)]
pub struct KnownIngress {
    /// The endpoint's id.
    pub ingress_id: IngressId,
    /// The room that the encoder publishes into.
    pub room: NamespacedRoom,
    /// The encoder's participant identity.
    pub identity: Identity,
    /// The encoder's display name.
    pub name: Option<String>,
    /// The encoder's protocol.
    pub input_type: InputType,
    /// Hash of the stream key.
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
