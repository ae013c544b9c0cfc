//! Media plane that fails on demand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use conclave_media::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaInventory, MediaPlane,
    MuteOutcome, RoleGrant, ServerData,
};
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, EgressStatus, StartedEgress};
use conclave_model::ingress::{IngressState, IngressStatus};
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, RoleName, Secret, Timestamp,
    TrackSid,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::fixture::START;

/// Media plane that panics a set number of times, inside the handler of a join, a poll or a deletion, and whose commands hang until they
/// are released.
pub struct FaultyPlane {
    /// Number of calls that panic from now on.
    pub panics: AtomicU32,
    pub participants: Mutex<Vec<(NamespacedRoom, Participant)>>,
    pub egresses: Mutex<Vec<EgressState>>,
    pub ingresses: Mutex<Vec<IngressState>>,
    /// Commands that have started, as in `mute alice`.
    pub commands: Mutex<Vec<String>>,
    /// Whether role changes are accepted.
    pub accepts_roles: Mutex<bool>,
    /// Subscription rules that were set last.
    pub rules: Mutex<BTreeMap<RoleName, RoleSubscribe>>,
    /// Whether a room inspection never returns.
    pub inspection_hangs: AtomicBool,
    permits: Semaphore,
}

impl Default for FaultyPlane {
    fn default() -> Self {
        Self {
            panics: AtomicU32::default(),
            participants: Mutex::default(),
            egresses: Mutex::default(),
            ingresses: Mutex::default(),
            commands: Mutex::default(),
            accepts_roles: Mutex::default(),
            rules: Mutex::default(),
            inspection_hangs: AtomicBool::default(),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

impl FaultyPlane {
    fn panic_if_told(&self) {
        let told = self
            .panics
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        assert!(told.is_err(), "the plane was told to panic");
    }

    /// Makes every command hang from now on.
    pub fn hang(&self) {
        self.permits.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Releases this many hanging commands.
    pub fn release(&self, commands: usize) {
        self.permits.add_permits(commands);
    }

    /// Records a command's start, and waits while commands hang.
    async fn begin(&self, command: String) {
        self.commands.lock().unwrap().push(command);
        self.permits.acquire().await.unwrap().forget();
    }
}

#[async_trait]
impl MediaPlane for FaultyPlane {
    fn kind(&self) -> &'static str {
        "faulty"
    }

    async fn health(&self) -> Result<(), MediaError> {
        Ok(())
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        let participants = self.participants.lock().unwrap();
        Ok(participants
            .iter()
            .filter(|(inside, _)| inside == room)
            .map(|(_, participant)| participant.clone())
            .collect())
    }

    async fn participant(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
    ) -> Result<Option<Participant>, MediaError> {
        Ok(self
            .participants(room)
            .await?
            .into_iter()
            .find(|participant| participant.identity == *who))
    }

    async fn remove_participant(
        &self,
        _: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        self.begin(format!("remove {sid}")).await;
        Ok(true)
    }

    async fn mute_track(
        &self,
        _: &NamespacedRoom,
        publisher: &Identity,
        _: &TrackSid,
        _: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.begin(format!("mute {publisher}")).await;
        Ok(MuteOutcome::NoSuchTrack)
    }

    async fn send_data(&self, _: &NamespacedRoom, _: ServerData) -> Result<(), MediaError> {
        self.begin("send".into()).await;
        Ok(())
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        _: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.begin(format!("role {identity}")).await;
        if *self.accepts_roles.lock().unwrap() {
            return self.participant(room, identity).await;
        }
        Err(MediaError::Unavailable("unreachable".into()))
    }

    async fn close_room(&self, _: &NamespacedRoom) -> Result<(), MediaError> {
        Ok(())
    }

    async fn start_egress(
        &self,
        _: Arc<EgressPlan>,
        _: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError> {
        let mut egresses = self.egresses.lock().unwrap();
        let state = EgressState {
            egress_id: format!("EG_{}", egresses.len()).parse().unwrap(),
            status: EgressStatus::Starting,
            error: None,
            started_at: Timestamp::from_millis(START),
            ended_at: None,
        };
        egresses.push(state.clone());
        Ok(state.into())
    }

    async fn egress(
        &self,
        _: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.panic_if_told();
        Ok(self
            .egresses
            .lock()
            .unwrap()
            .iter()
            .find(|egress| egress.egress_id == *id)
            .cloned())
    }

    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.egress(room, id).await
    }

    async fn set_egress_paused(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
        paused: bool,
    ) -> Result<Option<EgressState>, MediaError> {
        let command = if paused { "pause" } else { "resume" };
        self.begin(format!("{command} {id}")).await;
        self.egress(room, id).await
    }

    async fn create_ingress(&self, _: IngressRequest) -> Result<IngressCredentials, MediaError> {
        let mut ingresses = self.ingresses.lock().unwrap();
        let ingress_id: IngressId = format!("IN_{}", ingresses.len()).parse().unwrap();
        let status = IngressStatus::Inactive;
        ingresses.push(IngressState {
            ingress_id: ingress_id.clone(),
            status,
            error: None,
        });
        Ok(IngressCredentials {
            ingress_id,
            url: "rtmp://media/live".into(),
            stream_key: Secret::new("stream-key"),
        })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.panic_if_told();
        Ok(self
            .ingresses
            .lock()
            .unwrap()
            .iter()
            .find(|seen| seen.ingress_id == known.ingress_id)
            .cloned())
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.panic_if_told();
        self.ingresses
            .lock()
            .unwrap()
            .retain(|seen| seen.ingress_id != *id);
        Ok(())
    }

    async fn inventory(&self) -> Result<MediaInventory, MediaError> {
        let participants = self.participants.lock().unwrap();
        Ok(MediaInventory {
            rooms: participants.iter().map(|(room, _)| room.clone()).collect(),
            ..MediaInventory::default()
        })
    }

    async fn inspect_room(&self, _: &NamespacedRoom) -> Option<Value> {
        if self.inspection_hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Some(json!([{"identity": "alice"}]))
    }

    async fn set_subscription_rules(
        &self,
        _: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError> {
        self.panic_if_told();
        *self.rules.lock().unwrap() = rules;
        Ok(())
    }
}
