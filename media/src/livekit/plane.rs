//! The plane itself: what its parts share, and the port.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::egress::EgressState;
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, TrackSid,
};

use super::recent::Recent;
use super::settings::ConfigCheck;
use super::stranded::Stranded;
use super::subscriptions::Subscriptions;
use super::twirp::Twirp;
use super::webhook::Early;
use crate::port::{
    EgressRequest, IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaPlane, MuteOutcome, ReportSink,
    RoleGrant, ServerData, Survey,
};
use crate::token::TokenSigner;

/// What a LiveKit plane is made of.
#[derive(Clone)]
pub struct LivekitSettings {
    /// Where its API is: `http`, `https`, or the websocket address that clients use.
    pub url: String,
    /// How long a call may take. The start of an egress gets 30 seconds if that is more.
    pub timeout: Duration,
    /// The directory of local recordings, as LiveKit's egress workers see it.
    pub recordings: PathBuf,
}

impl fmt::Debug for LivekitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.debug_struct("LivekitSettings").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// A LiveKit server as the media plane. Cheap to clone; all clones are the same plane.
#[derive(Clone)]
pub struct LivekitPlane(pub(super) Arc<Inner>);

impl fmt::Debug for LivekitPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LivekitPlane")
    }
}

/// What all clones share.
pub(super) struct Inner {
    pub twirp: Twirp,
    /// Where LiveKit is, as the configuration says.
    pub url: String,
    /// How long a call may take.
    pub timeout: Duration,
    pub signer: Arc<TokenSigner>,
    pub clock: Clock,
    pub recordings: PathBuf,
    pub sink: OnceLock<Arc<dyn ReportSink>>,
    pub subscriptions: Subscriptions,
    /// Who is listed and not there.
    pub stranded: Stranded,
    /// The webhooks that were taken lately.
    pub recent: Recent,
    /// Leaves that may have come before their joins.
    pub early: Early,
}

impl LivekitPlane {
    /// A plane that calls the server at `settings.url` with the signer's key. Nothing is asked of it yet.
    #[must_use]
    pub fn new(settings: LivekitSettings, signer: Arc<TokenSigner>, clock: Clock) -> Self {
        let twirp = Twirp::new(&settings.url, settings.timeout, Arc::clone(&signer), clock.clone());
        Self(Arc::new(Inner {
            twirp,
            url: settings.url,
            timeout: settings.timeout,
            signer,
            clock,
            recordings: settings.recordings,
            sink: OnceLock::new(),
            subscriptions: Subscriptions::default(),
            stranded: Stranded::default(),
            recent: Recent::default(),
            early: Early::default(),
        }))
    }

    /// Says where reports go. Only the first call counts; says whether this was it.
    pub fn set_report_sink(&self, sink: Arc<dyn ReportSink>) -> bool {
        self.0.sink.set(sink).is_ok()
    }

    /// Looks whether LiveKit is set as it is needed: what does not fit, and which of its settings to change. For that, a
    /// room that is no project's is opened for a moment.
    ///
    /// # Errors
    /// It does not answer, or does not take the credentials.
    pub async fn check_config(&self) -> Result<ConfigCheck, MediaError> {
        self.0.check_config().await
    }
}

#[async_trait]
impl MediaPlane for LivekitPlane {
    fn kind(&self) -> &'static str {
        "livekit"
    }

    async fn health(&self) -> Result<(), MediaError> {
        self.0.health().await
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        let people = self.0.participants(room).await?;
        if !people.is_empty() {
            self.0.look_for_stranded(room);
        }
        Ok(people)
    }

    async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, MediaError> {
        Ok(self.0.participant(room, who).await?)
    }

    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        self.0.remove(room, sid).await
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.0.mute(room, who, track, muted).await
    }

    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        self.0.send_data(room, message).await
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let changed = self.0.set_role(room, who, &role).await?;
        self.0.keep_subscriptions(room);
        Ok(changed)
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.close_room(room).await
    }

    async fn start_egress(&self, job: EgressRequest) -> Result<EgressState, MediaError> {
        self.0.start_egress(job).await
    }

    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.0.egress(room, id).await
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.0.stop_egress(room, id).await
    }

    async fn create_ingress(&self, new: IngressRequest) -> Result<IngressCredentials, MediaError> {
        self.0.create_ingress(&new).await
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0.ingress(known).await
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.delete_ingress(id).await
    }

    async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError> {
        self.0.survey(project).await
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError> {
        self.0.subscriptions.set(room, rules.into());
        self.0.keep_subscriptions(room);
        Ok(())
    }
}
