//! What stands in front of any media plane: notices when it stops answering, and says when it is back.
//!
//! Calls pass through unchanged. A call that fails has the plane's health looked at; while that is bad it is looked at again
//! and again, so that its return is noticed without anybody calling. What was missed meanwhile is then for reconciliation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use conclave_model::egress::EgressState;
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, Timestamp, TrackSid,
};
use tokio::sync::Notify;

use crate::metrics::MediaMetrics;
use crate::port::{
    CreatedIngress, KnownIngress, MediaError, MediaPlane, MuteOutcome, NewEgress, NewIngress, RoleGrant, ServerData,
    Survey,
};

/// How soon a plane that is away is looked at again; doubled each time.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How long it is left alone at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long after a return it is not told of another for the sake of single calls that failed: a plane refuses some for
/// reasons of its own.
const QUIET: Duration = Duration::from_secs(30);

/// A media plane that is watched. Cheap to clone.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    plane: Arc<dyn MediaPlane>,
    clock: Clock,
    metrics: MediaMetrics,
    away: AtomicBool,
    /// There is reason to look at the plane's health.
    look: Notify,
}

impl Guard {
    /// Guards a plane.
    #[must_use]
    pub fn new(plane: Arc<dyn MediaPlane>, clock: Clock, metrics: MediaMetrics) -> Self {
        Self(Arc::new(Inner { plane, clock, metrics, away: AtomicBool::new(false), look: Notify::new() }))
    }

    /// Calls `returned` whenever the plane answers again after it was away, for as long as the runtime lives that this is
    /// called in.
    pub fn watch(&self, returned: impl Fn() + Send + Sync + 'static) {
        let guard = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut told = None;
            loop {
                guard.look.notified().await;
                if guard.is_away().await {
                    guard.wait_for_return().await;
                } else if told.is_some_and(|told: Timestamp| guard.clock.now().since(told) < QUIET) {
                    continue;
                }
                // Also after a failure that was over by the time of the look: what was lost in it is lost all the same.
                told = Some(guard.clock.now());
                returned();
            }
        });
    }

    fn noted<T>(&self, call: &str, result: Result<T, MediaError>) -> Result<T, MediaError> {
        self.0.metrics.calls.with_label_values(&[call, if result.is_ok() { "answered" } else { "failed" }]).inc();
        // A failure of a plane that is known to be away is no news, nor is an answer of one that is there.
        if result.is_err() != self.0.away.load(Ordering::Relaxed) {
            self.0.look.notify_one();
        }
        result
    }
}

impl Inner {
    async fn is_away(&self) -> bool {
        let health = self.plane.health().await;
        if let Err(error) = &health {
            log::warn!(media = self.plane.kind(); "{error}");
        }
        self.away.store(health.is_err(), Ordering::Relaxed);
        health.is_err()
    }

    async fn wait_for_return(&self) {
        let mut wait = FIRST_LOOK;
        loop {
            tokio::select! {
                () = self.clock.sleep_until(self.clock.now().after(wait)) => {}
                () = self.look.notified() => {}
            }
            if self.plane.health().await.is_ok() {
                self.away.store(false, Ordering::Relaxed);
                log::info!(media = self.plane.kind(); "the media plane is back");
                return;
            }
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
        }
    }
}

#[async_trait]
impl MediaPlane for Guard {
    fn kind(&self) -> &'static str {
        self.0.plane.kind()
    }

    async fn health(&self) -> Result<(), MediaError> {
        self.noted("health", self.0.plane.health().await)
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        self.noted("participants", self.0.plane.participants(room).await)
    }

    async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, MediaError> {
        self.noted("participant", self.0.plane.participant(room, who).await)
    }

    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        self.noted("remove_participant", self.0.plane.remove_participant(room, sid).await)
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.noted("mute_track", self.0.plane.mute_track(room, who, track, muted).await)
    }

    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        self.noted("send_data", self.0.plane.send_data(room, message).await)
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.noted("set_role", self.0.plane.set_role(room, who, role).await)
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.noted("close_room", self.0.plane.close_room(room).await)
    }

    async fn start_egress(&self, job: NewEgress) -> Result<EgressState, MediaError> {
        self.noted("start_egress", self.0.plane.start_egress(job).await)
    }

    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.noted("egress", self.0.plane.egress(room, id).await)
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.noted("stop_egress", self.0.plane.stop_egress(room, id).await)
    }

    async fn create_ingress(&self, new: NewIngress) -> Result<CreatedIngress, MediaError> {
        self.noted("create_ingress", self.0.plane.create_ingress(new).await)
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.noted("ingress", self.0.plane.ingress(known).await)
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.noted("delete_ingress", self.0.plane.delete_ingress(id).await)
    }

    async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError> {
        self.noted("survey", self.0.plane.survey(project).await)
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError> {
        self.noted("set_subscription_rules", self.0.plane.set_subscription_rules(room, rules).await)
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Timestamp;
    use tokio::sync::mpsc;

    use super::*;
    use crate::embedded::EmbeddedPlane;
    use crate::token::TokenSigner;

    #[tokio::test]
    async fn a_return_is_noticed_without_callers_and_told_once_for_each_outage() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let signer = Arc::new(TokenSigner::new("key", &conclave_model::Secret::new("secret")));
        let metrics = MediaMetrics::new(&prometheus::Registry::new()).unwrap();
        let plane = EmbeddedPlane::new(clock.clone(), signer, "ws://localhost");
        let guard = Guard::new(Arc::new(plane.clone()), clock.clone(), metrics);
        let (tell, mut told) = mpsc::unbounded_channel();
        guard.watch(move || {
            let _ = tell.send(());
        });
        for _ in 0..2 {
            plane.be_away(Duration::from_secs(60));
            let room = "prj_0123456789ab.standup".parse().unwrap();
            assert!(guard.participants(&room).await.is_err() && guard.health().await.is_err());
            for _ in 0..59 {
                clock.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
            assert!(told.try_recv().is_err());
            clock.advance(LONGEST_WAIT);
            assert_eq!(told.recv().await, Some(()));
            assert!(guard.participants(&room).await.is_ok());
            tokio::task::yield_now().await;
            assert!(told.try_recv().is_err());
        }
    }
}
