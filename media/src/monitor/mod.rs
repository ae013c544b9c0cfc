//! Monitoring of any media plane: metrics, a circuit breaker, and detection of outages and recoveries.
//!
//! Calls pass through unchanged, unless the circuit breaker rejects them because the plane keeps failing. A failed call
//! triggers a health check (both in [`outages`]). While the plane is unavailable, the check is repeated, so that a
//! recovery is detected without any call. Reconciliation then makes up for events missed during the outage.

mod outages;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, StartedEgress};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, RoleName, Timestamp,
    TrackSid,
};
use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use tokio::sync::Notify;

use self::outages::CircuitBreaker;
pub use self::outages::CircuitSettings;
use crate::port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaInventory, MediaPlane,
    MuteOutcome, RoleGrant, ServerData,
};

/// A media plane with metrics, a circuit breaker and outage detection. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct MonitoredPlane(Arc<MonitorState>);

struct MonitorState {
    plane: Arc<dyn MediaPlane>,
    clock: Clock,
    metrics: MediaMetrics,
    /// `None` for a plane in this process, whose calls fail without delay.
    breaker: Option<CircuitBreaker>,
    /// Result of the last health check.
    is_unreachable: AtomicBool,
    /// Requests a health check.
    health_check: Notify,
}

impl MonitoredPlane {
    /// Wraps a plane. `circuit` is `None` for a plane whose calls fail without delay.
    pub fn new(
        plane: Arc<dyn MediaPlane>,
        clock: Clock,
        metrics: MediaMetrics,
        circuit: Option<CircuitSettings>,
    ) -> Self {
        let breaker = circuit.map(CircuitBreaker::new);
        let (is_unreachable, health_check) = (AtomicBool::new(false), Notify::new());
        Self(Arc::new(MonitorState {
            plane,
            clock,
            metrics,
            breaker,
            is_unreachable,
            health_check,
        }))
    }

    /// Makes a call, unless the circuit breaker rejects it.
    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, MediaError>> + Send,
    ) -> Result<T, MediaError> {
        let breaker = self.0.breaker.as_ref();
        // Rejected before the call, so the plane's recovery is not delayed by callers that would only time out.
        if let Some(Err(retry_after)) = breaker.map(|breaker| breaker.check(self.0.clock.now())) {
            // Counted apart from the plane's own failures, since no call was made.
            self.0.metrics.record_rejected(name);
            return Err(MediaError::CircuitOpen { retry_after });
        }
        let result = self.0.measure(name, call).await;
        match (breaker, CallOutcome::from(&result)) {
            (None, _) => {}
            // A refusal proves that the plane works: only missing replies count as failures.
            (Some(breaker), CallOutcome::Answered | CallOutcome::Refused) => {
                breaker.record_success();
            }
            (Some(breaker), CallOutcome::Failed) => breaker.record_failure(self.0.clock.now()),
        }
        result
    }
}

impl MonitorState {
    /// Makes a call and records its outcome and duration. Requests a health check if the outcome contradicts the last
    /// one.
    async fn measure<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, MediaError>> + Send,
    ) -> Result<T, MediaError> {
        // Not the plane's clock: a duration must not depend on adjustments of the time of day.
        let started = Instant::now();
        let result = call.await;
        self.metrics
            .record_call(name, CallOutcome::from(&result), started.elapsed());
        // Checks even after a refusal: the health check decides whether it is an outage.
        if result.is_err() != self.is_unreachable.load(Ordering::Relaxed) {
            self.health_check.notify_one();
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
        // Bypasses the circuit breaker, since health checks decide when it closes.
        self.0.measure("health", self.0.plane.health()).await
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        self.call("participants", self.0.plane.participants(room))
            .await
    }

    fn outlives_server(&self) -> bool {
        self.0.plane.outlives_server()
    }

    fn absence_grace(&self) -> Duration {
        self.0.plane.absence_grace()
    }

    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError> {
        self.call("participant", self.0.plane.participant(room, identity))
            .await
    }

    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        self.call(
            "remove_participant",
            self.0.plane.remove_participant(room, sid),
        )
        .await
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.call(
            "mute_track",
            self.0.plane.mute_track(room, identity, track, muted),
        )
        .await
    }

    async fn send_data(
        &self,
        room: &NamespacedRoom,
        message: ServerData,
    ) -> Result<(), MediaError> {
        self.call("send_data", self.0.plane.send_data(room, message))
            .await
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.call("set_role", self.0.plane.set_role(room, identity, role))
            .await
    }

    async fn set_role_of_join(
        &self,
        room: &NamespacedRoom,
        participant: &Participant,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.call(
            "set_role_of_join",
            self.0.plane.set_role_of_join(room, participant, role),
        )
        .await
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.call("close_room", self.0.plane.close_room(room)).await
    }

    fn permits_own_metadata(&self) -> bool {
        self.0.plane.permits_own_metadata()
    }

    fn uploads_recordings(&self) -> bool {
        self.0.plane.uploads_recordings()
    }

    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        storage: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError> {
        self.call("start_egress", self.0.plane.start_egress(plan, storage))
            .await
    }

    async fn egresses_started_by(
        &self,
        plan: &EgressPlan,
        since: Timestamp,
    ) -> Result<Vec<EgressId>, MediaError> {
        self.call(
            "egresses_started_by",
            self.0.plane.egresses_started_by(plan, since),
        )
        .await
    }

    async fn egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.call("egress", self.0.plane.egress(room, id)).await
    }

    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.call("stop_egress", self.0.plane.stop_egress(room, id))
            .await
    }

    async fn set_egress_paused(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
        paused: bool,
    ) -> Result<Option<EgressState>, MediaError> {
        let call = self.0.plane.set_egress_paused(room, id, paused);
        self.call("set_egress_paused", call).await
    }

    async fn create_ingress(
        &self,
        request: IngressRequest,
    ) -> Result<IngressCredentials, MediaError> {
        self.call("create_ingress", self.0.plane.create_ingress(request))
            .await
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.call("ingress", self.0.plane.ingress(known)).await
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.call("delete_ingress", self.0.plane.delete_ingress(id))
            .await
    }

    async fn inventory(&self) -> Result<MediaInventory, MediaError> {
        self.call("survey", self.0.plane.inventory()).await
    }

    async fn inspect_egress(&self, id: &EgressId) -> Option<serde_json::Value> {
        // Inspection is not measured: it returns no error that could show an outage.
        self.0.plane.inspect_egress(id).await
    }

    async fn inspect_room(&self, room: &NamespacedRoom) -> Option<serde_json::Value> {
        self.0.plane.inspect_room(room).await
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError> {
        self.call(
            "set_subscription_rules",
            self.0.plane.set_subscription_rules(room, rules),
        )
        .await
    }
}

/// Bucket bounds in seconds. The highest equals the longest timeout, for starting an egress.
const BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1., 2.5, 5., 10., 30.,
];

/// Number of calls by method and outcome, and their duration by method.
#[derive(Clone)]
pub struct MediaMetrics {
    calls: IntCounterVec,
    seconds: HistogramVec,
}

/// Outcome of a call; each is a value of the `outcome` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// The plane carried out the call.
    Answered,
    /// The plane replied with an error.
    Refused,
    /// The plane did not reply.
    Failed,
}

impl CallOutcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl<T> From<&Result<T, MediaError>> for CallOutcome {
    fn from(result: &Result<T, MediaError>) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(
                MediaError::Refused(_)
                | MediaError::NoSuchTrack
                | MediaError::Encrypted { .. }
                | MediaError::InvalidFilepath(_)
                | MediaError::Busy { .. },
            ) => Self::Refused,
            Err(MediaError::Unavailable(_) | MediaError::CircuitOpen { .. }) => Self::Failed,
        }
    }
}

impl MediaMetrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let calls = Opts::new(
            "conclave_media_calls_total",
            "Calls to the media plane, by call and outcome",
        );
        let seconds = HistogramOpts::new(
            "conclave_media_call_seconds",
            "From a call to the media plane to its answer",
        );
        let metrics = Self {
            calls: IntCounterVec::new(calls, &["call", "outcome"])?,
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["call"])?,
        };
        registry.register(Box::new(metrics.calls.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        Ok(metrics)
    }

    /// Records a completed call and its duration.
    pub(crate) fn record_call(&self, call: &str, outcome: CallOutcome, duration: Duration) {
        self.calls.with_label_values(&[call, outcome.label()]).inc();
        self.seconds
            .with_label_values(&[call])
            .observe(duration.as_secs_f64());
    }

    /// Records a call that the circuit breaker rejected.
    pub(crate) fn record_rejected(&self, call: &str) {
        self.calls.with_label_values(&[call, "not_made"]).inc();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use crate::embedded::EmbeddedPlane;
    use crate::port::ReportInlet;
    use crate::token::TokenSigner;

    use super::*;

    const OUTAGE: Duration = Duration::from_secs(60);
    const CIRCUIT: CircuitSettings = CircuitSettings {
        failures: 5,
        open: Duration::from_secs(5),
    };

    struct TestPlane {
        clock: Clock,
        plane: EmbeddedPlane,
        monitored: MonitoredPlane,
        recoveries: mpsc::UnboundedReceiver<()>,
    }

    impl TestPlane {
        fn new(circuit: Option<CircuitSettings>) -> Self {
            let clock = Clock::manual(Timestamp::from_millis(0));
            let signer = Arc::new(TokenSigner::new(
                "key",
                &conclave_model::Secret::new("secret"),
            ));
            let metrics = MediaMetrics::new(&prometheus::Registry::new()).unwrap();
            let reports = Arc::new(ReportInlet::default());
            let plane =
                EmbeddedPlane::builder(clock.clone(), signer, "ws://localhost", reports).build();
            let monitored =
                MonitoredPlane::new(Arc::new(plane.clone()), clock.clone(), metrics, circuit);
            let (sender, recoveries) = mpsc::unbounded_channel();
            monitored.spawn_health_watch(move || {
                let _ = sender.send(());
            });
            Self {
                clock,
                plane,
                monitored,
                recoveries,
            }
        }

        async fn call(&self) -> Result<Vec<Participant>, MediaError> {
            self.monitored
                .participants(&"prj_0123456789ab.standup".parse().unwrap())
                .await
        }

        async fn advance(&self, seconds: u64) {
            // In steps, since the watch sets its next timer only when it has run.
            for _ in 0..seconds {
                self.clock.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_recovery_is_detected_without_calls_and_reported_once_for_each_outage() {
        for circuit in [None, Some(CIRCUIT)] {
            let mut test = TestPlane::new(circuit);
            for _ in 0..2 {
                test.plane.sandbox().simulate_outage(OUTAGE);
                assert!(test.call().await.is_err() && test.monitored.health().await.is_err());
                test.advance(OUTAGE.as_secs() - 1).await;
                assert!(test.recoveries.try_recv().is_err());
                // With a circuit breaker, a recovery is found only after its open time.
                test.advance(CIRCUIT.open.as_secs() + 1).await;
                assert_eq!(test.recoveries.recv().await, Some(()));
                assert!(test.call().await.is_ok());
                tokio::task::yield_now().await;
                assert!(test.recoveries.try_recv().is_err());
            }
        }
    }

    #[tokio::test]
    async fn a_plane_that_keeps_failing_is_not_called_until_it_has_recovered() {
        let mut test = TestPlane::new(Some(CIRCUIT));
        test.plane.sandbox().simulate_outage(OUTAGE);
        for _ in 0..CIRCUIT.failures {
            assert!(matches!(test.call().await, Err(MediaError::Unavailable(_))));
        }
        test.advance(1).await;
        let Err(MediaError::CircuitOpen { retry_after }) = test.call().await else {
            panic!("the circuit is open")
        };
        assert!(retry_after <= CIRCUIT.open);
        assert!(
            matches!(
                test.monitored.health().await,
                Err(MediaError::Unavailable(_))
            ),
            "health checks are never rejected"
        );
        test.advance(OUTAGE.as_secs() + CIRCUIT.open.as_secs())
            .await;
        // The circuit is closed when the recovery is reported, so that reconciliation can make calls.
        assert_eq!(test.recoveries.recv().await, Some(()));
        assert!(test.call().await.is_ok());
    }
}
