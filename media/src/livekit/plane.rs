//! The LiveKit plane's implementation of the port, and the construction of its parts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, StartedEgress};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, LeaseCheck, NamespacedRoom, ParticipantSid, RoleName,
    Timestamp, TrackSid,
};

use super::config_check::{ConfigCheck, ConfigChecker, Signaling};
use super::egress::Egresses;
use super::ghosts::GhostParticipants;
use super::ghosts::search::GhostSearch;
use super::ingress::IngressEndpoints;
use super::participants::{Moderation, Participants};
use super::rooms::Rooms;
use super::subscriptions::SubscriptionEnforcer;
use super::twirp::TwirpClient;
use super::webhook::{WebhookOutcome, WebhookReceiver, WebhookSignature};
use crate::port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaInventory, MediaPlane,
    MuteOutcome, ReportSink, RoleGrant, ServerData,
};
use crate::token::TokenSigner;

/// Time for which LiveKit's lists may lack a connected participant. Less than the time between two reconciliations, so
/// that two consecutive absences end a session.
const ABSENCE_GRACE: Duration = Duration::from_secs(10);

/// Settings of a LiveKit plane.
#[derive(Clone)]
pub struct LivekitSettings {
    /// The API's URL with the scheme `http` or `https`, or the clients' WebSocket URL.
    pub url: String,
    /// Timeout of a call. Starting an egress has at least 30 seconds.
    pub timeout: Duration,
    /// Directory of local recordings, as LiveKit's egress workers see it.
    pub recordings: PathBuf,
    /// Without a valid lease, every call fails as if LiveKit were unavailable.
    pub lease: LeaseCheck,
}

impl fmt::Debug for LivekitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.debug_struct("LivekitSettings")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A LiveKit server as the media plane. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct LivekitPlane(Arc<Services>);

impl fmt::Debug for LivekitPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LivekitPlane")
    }
}

/// The plane's parts, one for each group of calls, with only what these calls need.
struct Services {
    rooms: Rooms,
    participants: Participants,
    ghosts: GhostSearch,
    subscriptions: SubscriptionEnforcer,
    moderation: Moderation,
    egresses: Egresses,
    ingresses: IngressEndpoints,
    config: ConfigChecker,
    webhooks: WebhookReceiver,
}

impl Services {
    fn new(
        settings: LivekitSettings,
        signer: Arc<TokenSigner>,
        clock: Clock,
        sink: Arc<dyn ReportSink>,
    ) -> Self {
        let LivekitSettings {
            url,
            timeout,
            recordings,
            lease,
        } = settings;
        // One client for all parts: they share its connections and its limit on concurrent calls.
        let client = Arc::new(TwirpClient::new(
            &url,
            timeout,
            Arc::clone(&signer),
            clock.clone(),
            lease,
        ));
        let rooms = Rooms::new(Arc::clone(&client));
        // Shared: the search finds ghosts, and every list of participants leaves them out.
        let ghosts = Arc::<GhostParticipants>::default();
        let participants =
            Participants::new(Arc::clone(&client), rooms.clone(), Arc::clone(&ghosts));
        let subscriptions = SubscriptionEnforcer::new(Arc::clone(&client), participants.clone());
        let signaling = Signaling {
            url,
            timeout,
            signer: Arc::clone(&signer),
            clock: clock.clone(),
        };
        Self {
            ghosts: GhostSearch::new(
                Arc::clone(&client),
                rooms.clone(),
                participants.clone(),
                ghosts,
                clock.clone(),
            ),
            moderation: Moderation::new(Arc::clone(&client), participants.clone()),
            egresses: Egresses::new(
                Arc::clone(&client),
                rooms.clone(),
                participants.clone(),
                clock.clone(),
                recordings,
            ),
            ingresses: IngressEndpoints::new(Arc::clone(&client), rooms.clone()),
            config: ConfigChecker::new(client, rooms.clone(), signaling),
            webhooks: WebhookReceiver::new(
                signer,
                clock,
                sink,
                participants.clone(),
                subscriptions.clone(),
            ),
            rooms,
            participants,
            subscriptions,
        }
    }
}

impl LivekitPlane {
    /// Creates a plane that calls the server at `settings.url` with the signer's key, and sends its reports to the
    /// sink. Makes no call yet.
    #[must_use]
    pub fn new(
        settings: LivekitSettings,
        signer: Arc<TokenSigner>,
        clock: Clock,
        sink: Arc<dyn ReportSink>,
    ) -> Self {
        Self(Arc::new(Services::new(settings, signer, clock, sink)))
    }

    /// Checks LiveKit's configuration. Returns problems with the settings to change. The check opens a room that
    /// belongs to no project, and deletes it again.
    ///
    /// # Errors
    /// If LiveKit is unavailable, or rejects the credentials.
    pub async fn check_config(&self) -> Result<ConfigCheck, MediaError> {
        self.0.config.run().await
    }

    /// Verifies a webhook's `Authorization` header. `None` if it is not signed with this server's key; then the body
    /// need not be read.
    #[must_use]
    pub fn verify_webhook(&self, authorization: &str) -> Option<WebhookSignature> {
        self.0.webhooks.verify(authorization)
    }

    /// Handles a webhook with a verified signature; `body` contains the bytes as received.
    pub async fn handle_webhook(
        &self,
        signature: &WebhookSignature,
        body: &[u8],
    ) -> WebhookOutcome {
        self.0.webhooks.handle(signature, body).await
    }
}

#[async_trait]
impl MediaPlane for LivekitPlane {
    fn kind(&self) -> &'static str {
        "livekit"
    }

    async fn health(&self) -> Result<(), MediaError> {
        Ok(self.0.rooms.check_health().await?)
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        let participants = self.0.participants.list_confirmed(room).await?;
        // An empty list has no ghosts.
        if !participants.is_empty() {
            self.0.ghosts.spawn_if_due(room);
        }
        Ok(participants)
    }

    fn outlives_server(&self) -> bool {
        // LiveKit keeps its connections while this server restarts.
        true
    }

    fn absence_grace(&self) -> Duration {
        ABSENCE_GRACE
    }

    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError> {
        Ok(self.0.participants.get(room, identity).await?)
    }

    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        self.0.participants.remove(room, sid).await
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.0.moderation.mute(room, identity, track, muted).await
    }

    async fn send_data(
        &self,
        room: &NamespacedRoom,
        message: ServerData,
    ) -> Result<(), MediaError> {
        self.0.moderation.send_data(room, message).await
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let changed = self.0.moderation.set_role(room, identity, &role).await?;
        // The new role may receive other roles, and be received by others.
        self.0.subscriptions.spawn_apply(room);
        Ok(changed)
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        // Forgotten first, so that a task that is applying rules finds none and ends.
        self.0.subscriptions.forget(room);
        self.0.ghosts.forget(room);
        self.0.rooms.close(room).await
    }

    fn permits_own_metadata(&self) -> bool {
        false
    }

    fn uploads_recordings(&self) -> bool {
        true
    }

    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        storage: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError> {
        // LiveKit's worker uploads the file, so this server never sees it.
        Ok(self.0.egresses.start(&plan, storage.as_ref()).await?.into())
    }

    async fn egresses_started_by(
        &self,
        plan: &EgressPlan,
        since: Timestamp,
    ) -> Result<Vec<EgressId>, MediaError> {
        self.0.egresses.started_by(plan, since).await
    }

    async fn egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0.egresses.get(room, id).await
    }

    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0.egresses.stop(room, id).await
    }

    async fn set_egress_paused(
        &self,
        _: &NamespacedRoom,
        _: &EgressId,
        _: bool,
    ) -> Result<Option<EgressState>, MediaError> {
        // LiveKit's egress service has calls to start, change, list and stop an egress, and none to pause it.
        Err(MediaError::Refused(
            "LiveKit cannot pause a recording; stop it, and start another one later".into(),
        ))
    }

    async fn create_ingress(
        &self,
        request: IngressRequest,
    ) -> Result<IngressCredentials, MediaError> {
        self.0.ingresses.create(&request).await
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0.ingresses.get(known).await
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.ingresses.delete(id).await
    }

    async fn inventory(&self) -> Result<MediaInventory, MediaError> {
        // Three calls, so the inventory is not of one moment.
        let rooms = self.0.rooms.list().await?;
        let egresses = self.0.egresses.list_running().await?;
        let ingresses = self.0.ingresses.list().await?;
        Ok(MediaInventory {
            rooms: rooms.occupied,
            empty_rooms: rooms.empty,
            egresses,
            ingresses,
        })
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        mut rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError> {
        // LiveKit cannot limit a participant's received bitrate.
        rules.retain(|_, subscribe| subscribe.to_roles.is_some());
        // Set even if empty: tracks that earlier rules withheld must be subscribed again.
        self.0.subscriptions.set_rules(room, rules.into());
        self.0.subscriptions.spawn_apply(room);
        Ok(())
    }
}
