//! What stands in front of any media plane: notices when it stops answering, and says when it is back.
//!
//! Calls pass through unchanged, but for a plane that keeps failing: there a [`circuit`] refuses them at once. A call that
//! fails has the plane's health looked at ([`watch`]); while that is bad it is looked at again and again, so that its return
//! is noticed without anybody calling. What was missed meanwhile is then for reconciliation.

mod circuit;
mod watch;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use conclave_model::egress::EgressState;
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, TrackSid,
};
use tokio::sync::Notify;

use self::circuit::Circuit;
pub use self::circuit::CircuitSettings;
use crate::metrics::{MediaMetrics, Outcome};
use crate::port::{
    EgressRequest, IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaPlane, MuteOutcome, RoleGrant,
    ServerData, Survey,
};

/// A media plane that is watched. Cheap to clone.
#[derive(Clone)]
pub struct MonitoredPlane(Arc<Inner>);

struct Inner {
    plane: Arc<dyn MediaPlane>,
    clock: Clock,
    metrics: MediaMetrics,
    /// A plane in the same process needs none: that it is away is known as fast.
    circuit: Option<Circuit>,
    away: AtomicBool,
    /// There is reason to look at the plane's health.
    look: Notify,
}

impl MonitoredPlane {
    /// Guards a plane, with a circuit where asking one that is away takes time.
    #[must_use]
    pub fn new(
        plane: Arc<dyn MediaPlane>,
        clock: Clock,
        metrics: MediaMetrics,
        circuit: Option<CircuitSettings>,
    ) -> Self {
        let circuit = circuit.map(Circuit::new);
        Self(Arc::new(Inner { plane, clock, metrics, circuit, away: AtomicBool::new(false), look: Notify::new() }))
    }

    /// Makes a call, unless the circuit is open.
    async fn call<T>(
        &self,
        name: &'static str,
        asked: impl Future<Output = Result<T, MediaError>> + Send,
    ) -> Result<T, MediaError> {
        let circuit = self.0.circuit.as_ref();
        if let Some(Err(retry_after)) = circuit.map(|circuit| circuit.admit(self.0.clock.now())) {
            self.0.metrics.not_made(name);
            return Err(MediaError::CircuitOpen { retry_after });
        }
        let result = self.0.measured(name, asked).await;
        match (circuit, Outcome::of(&result)) {
            (None, _) => {}
            (Some(circuit), Outcome::Answered | Outcome::Refused) => circuit.answered(),
            (Some(circuit), Outcome::Failed) => circuit.failed(self.0.clock.now()),
        }
        result
    }
}

impl Inner {
    /// Counts a call and its time. One that fails is a reason to look after the plane.
    async fn measured<T>(
        &self,
        name: &'static str,
        asked: impl Future<Output = Result<T, MediaError>> + Send,
    ) -> Result<T, MediaError> {
        let begun = Instant::now();
        let result = asked.await;
        self.metrics.made(name, Outcome::of(&result), begun.elapsed());
        // A failure of a plane that is known to be away is no news, nor is an answer of one that is there.
        if result.is_err() != self.away.load(Ordering::Relaxed) {
            self.look.notify_one();
        }
        result
    }
}

#[async_trait]
impl MediaPlane for MonitoredPlane {
    fn kind(&self) -> &'static str {
        self.0.plane.kind()
    }

    async fn health(&self) -> Result<(), MediaError> {
        // Not what the circuit speaks of: this is how it is found out.
        self.0.measured("health", self.0.plane.health()).await
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        self.call("participants", self.0.plane.participants(room)).await
    }

    async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, MediaError> {
        self.call("participant", self.0.plane.participant(room, who)).await
    }

    async fn remove_participant(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        self.call("remove_participant", self.0.plane.remove_participant(room, sid)).await
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.call("mute_track", self.0.plane.mute_track(room, who, track, muted)).await
    }

    async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        self.call("send_data", self.0.plane.send_data(room, message)).await
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.call("set_role", self.0.plane.set_role(room, who, role)).await
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.call("close_room", self.0.plane.close_room(room)).await
    }

    async fn start_egress(&self, job: EgressRequest) -> Result<EgressState, MediaError> {
        self.call("start_egress", self.0.plane.start_egress(job)).await
    }

    async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.call("egress", self.0.plane.egress(room, id)).await
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.call("stop_egress", self.0.plane.stop_egress(room, id)).await
    }

    async fn create_ingress(&self, new: IngressRequest) -> Result<IngressCredentials, MediaError> {
        self.call("create_ingress", self.0.plane.create_ingress(new)).await
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.call("ingress", self.0.plane.ingress(known)).await
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.call("delete_ingress", self.0.plane.delete_ingress(id)).await
    }

    async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError> {
        self.call("survey", self.0.plane.survey(project)).await
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError> {
        self.call("set_subscription_rules", self.0.plane.set_subscription_rules(room, rules)).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_model::Timestamp;
    use tokio::sync::mpsc;

    use super::*;
    use crate::embedded::EmbeddedPlane;
    use crate::token::TokenSigner;

    const OUTAGE: Duration = Duration::from_secs(60);
    const CIRCUIT: CircuitSettings = CircuitSettings { failures: 5, open: Duration::from_secs(5) };

    struct Stage {
        clock: Clock,
        plane: EmbeddedPlane,
        guard: MonitoredPlane,
        told: mpsc::UnboundedReceiver<()>,
    }

    impl Stage {
        fn new(circuit: Option<CircuitSettings>) -> Self {
            let clock = Clock::manual(Timestamp::from_millis(0));
            let signer = Arc::new(TokenSigner::new("key", &conclave_model::Secret::new("secret")));
            let metrics = MediaMetrics::new(&prometheus::Registry::new()).unwrap();
            let plane = EmbeddedPlane::new(clock.clone(), signer, "ws://localhost");
            let guard = MonitoredPlane::new(Arc::new(plane.clone()), clock.clone(), metrics, circuit);
            let (tell, told) = mpsc::unbounded_channel();
            guard.watch(move || {
                let _ = tell.send(());
            });
            Self { clock, plane, guard, told }
        }

        async fn ask(&self) -> Result<Vec<Participant>, MediaError> {
            self.guard.participants(&"prj_0123456789ab.standup".parse().unwrap()).await
        }

        async fn pass(&self, seconds: u64) {
            for _ in 0..seconds {
                self.clock.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_return_is_noticed_without_callers_and_told_once_for_each_outage() {
        for circuit in [None, Some(CIRCUIT)] {
            let mut stage = Stage::new(circuit);
            for _ in 0..2 {
                stage.plane.simulate_outage(OUTAGE);
                assert!(stage.ask().await.is_err() && stage.guard.health().await.is_err());
                stage.pass(OUTAGE.as_secs() - 1).await;
                assert!(stage.told.try_recv().is_err());
                stage.pass(CIRCUIT.open.as_secs() + 1).await;
                assert_eq!(stage.told.recv().await, Some(()));
                assert!(stage.ask().await.is_ok());
                tokio::task::yield_now().await;
                assert!(stage.told.try_recv().is_err());
            }
        }
    }

    #[tokio::test]
    async fn a_plane_that_keeps_failing_is_not_asked_until_it_is_well_again() {
        let mut stage = Stage::new(Some(CIRCUIT));
        stage.plane.simulate_outage(OUTAGE);
        for _ in 0..CIRCUIT.failures {
            assert!(matches!(stage.ask().await, Err(MediaError::Unavailable(_))));
        }
        stage.pass(1).await;
        let Err(MediaError::CircuitOpen { retry_after }) = stage.ask().await else { panic!("it is open") };
        assert!(retry_after <= CIRCUIT.open);
        assert!(matches!(stage.guard.health().await, Err(MediaError::Unavailable(_))), "health is always looked at");
        stage.pass(OUTAGE.as_secs() + CIRCUIT.open.as_secs()).await;
        // Whoever is told finds the circuit closed, or nothing could be done about what was missed.
        assert_eq!(stage.told.recv().await, Some(()));
        assert!(stage.ask().await.is_ok());
    }
}
