//! A project on a store, with a faulty media plane and a clock that the tests move.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conclave_actors::debug::ActorView;
use conclave_actors::metrics::ActorMetrics;
use conclave_actors::{
    ActorContext, ActorRegistry, EventRelay, ROOMS_ENDING, ReportQueues, Settings, Tree,
};
use conclave_db::{
    CommitHook, Location, NewRoom, NewTemplate, OlderSchema, PostgresOptions, PostgresServer,
    SessionFilter, Store, StoreMetrics, StoreOptions, Vault,
};
use conclave_media::{MediaEvent, MediaPlane, Report, ReportReply, ReportSink};
use conclave_model::address::AddressFilter;
use conclave_model::bounded::MaxDuration;
use conclave_model::event::ParticipantRef;
use conclave_model::page::PageRequest;
use conclave_model::participant::{Participant, ParticipantKind, ParticipantState, ROLE_ATTRIBUTE};
use conclave_model::permits::ProjectPermits;
use conclave_model::project::Environment;
use conclave_model::role::RoleInput;
use conclave_model::template::Region;
use conclave_model::{
    Clock, LeaseCheck, NamespacedRoom, NodeId, ParticipantSid, ProjectId, RoleName, Secret,
    Timestamp,
};
use conclave_outbound::TrustedRoots;
use conclave_outbound::upload::Uploader;
use conclave_outbound::webhook::DeliveryPool;
use test_postgres::Records;

use super::plane::FaultyPlane;

/// Start time of the clock, in milliseconds.
pub const START: i64 = 1_700_000_000_000;

pub struct Fixture {
    pub tree: Tree,
    pub store: Store,
    pub clock: Clock,
    pub plane: Arc<FaultyPlane>,
    pub room_ends: ProjectPermits,
    pub project: ProjectId,
    pub relay: EventRelay,
    pub records: Records,
    _dir: tempfile::TempDir,
}

fn at_server(url: &str) -> Location {
    let server = PostgresServer::new(&Secret::new(url), None).unwrap();
    Location::Server(PostgresOptions {
        server,
        lanes: 2,
        readers: 2,
        epoch: None,
    })
}

fn open(location: Location, key: Option<&Path>, clock: &Clock, on_commit: CommitHook) -> Store {
    Store::open(StoreOptions {
        location,
        older_schema: OlderSchema::Migrate,
        clock: clock.clone(),
        vault: Vault::open(key, &Secret::new("media")).unwrap(),
        on_commit,
        readers: 1,
        metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
    })
    .unwrap()
}

impl Fixture {
    /// Creates a project with the rooms "stage" and "sibling", whose roles make each join call the media plane.
    pub async fn new() -> Self {
        Self::with_lease(LeaseCheck::not_needed()).await
    }

    /// Creates the same with a lease. Webhooks may be posted to this machine.
    pub async fn with_lease(lease: LeaseCheck) -> Self {
        let receivers = AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]);
        let (dir, relay) = (tempfile::tempdir().unwrap(), EventRelay::default());
        let room_ends = ProjectPermits::new(ROOMS_ENDING);
        let clock = Clock::manual(Timestamp::from_millis(START));
        let records = Records::create(dir.path().join("conclave.db"), |url| {
            open(at_server(url), None, &clock, Box::new(|_| {})).close();
        });
        let location = match &records {
            Records::File(path) => Location::File(path.clone()),
            Records::Server(database) => at_server(&database.url()),
        };
        let store = open(
            location,
            Some(&dir.path().join("encryption.key")),
            &clock,
            relay.hook(),
        );
        let plane = Arc::new(FaultyPlane::default());
        let context = ActorContext {
            store: store.clone(),
            media: Arc::clone(&plane) as Arc<dyn MediaPlane>,
            clock: clock.clone(),
            deliveries: DeliveryPool::new(
                receivers,
                Duration::from_secs(60),
                &TrustedRoots::default(),
                lease,
            )
            .unwrap(),
            uploads: Uploader::new(
                dir.path().join("recordings"),
                AddressFilter::default(),
                TrustedRoots::default(),
                || {},
            )
            .unwrap(),
            node: NodeId::new(),
            plans: HashMap::new(),
            settings: Settings::default(),
            room_ends: room_ends.clone(),
            reports: ReportQueues::default(),
            is_stopping: AtomicBool::default(),
            ends_egresses: AtomicBool::default(),
            registry: ActorRegistry::default(),
            metrics: ActorMetrics::new(&prometheus::Registry::new()).unwrap(),
        };
        let tree = Tree::start(context, &relay).await.unwrap();
        let project = store
            .projects()
            .create("p".into(), Environment::Test, "self_hosted".into())
            .await
            .unwrap()
            .id;
        let template = store
            .templates()
            .create(template(&project), None)
            .await
            .unwrap();
        for name in ["stage", "sibling"] {
            let new = NewRoom {
                template_id: Some(template.id.clone()),
                ..room(&project, name)
            };
            tree.create_room(new, None, None).await.unwrap();
        }
        Self {
            tree,
            store,
            clock,
            plane,
            room_ends,
            project,
            relay,
            records,
            _dir: dir,
        }
    }

    pub fn room(&self, name: &str) -> NamespacedRoom {
        NamespacedRoom::new(&self.project, &name.parse().unwrap())
    }

    pub fn report(&self, room: &str, event: MediaEvent) -> ReportReply {
        self.tree.report(Report {
            room: self.room(room),
            at: self.clock.now(),
            event,
        })
    }

    pub fn join(&self, room: &str, identity: &str) -> ReportReply {
        let participant = participant(identity, self.clock.now());
        self.plane
            .participants
            .lock()
            .unwrap()
            .push((self.room(room), participant.clone()));
        self.report(room, MediaEvent::ParticipantJoined(Box::new(participant)))
    }

    /// Makes the next join fail its room's actor, and waits until that has been noticed.
    pub async fn fail(&self, room: &str) {
        let before = self.reconciled(room).await.restarts;
        self.plane.panics.store(1, Ordering::SeqCst);
        let victim =
            MediaEvent::ParticipantJoined(Box::new(participant("victim", self.clock.now())));
        let refused =
            tokio::time::timeout(Duration::from_secs(60), self.report(room, victim)).await;
        assert!(
            refused.unwrap().is_err(),
            "a report that failed its actor is not taken"
        );
        self.until(room, |actor| {
            actor.restarts == before + 1 && actor.status == "restarting"
        })
        .await;
        self.restart_is_due().await;
    }

    /// Waits until the project has armed the timer of a restart that is shown.
    pub async fn restart_is_due(&self) {
        // It answers after the message with the failure.
        let project = self.tree.actor(self.project.as_str()).await;
        project.expect("an open project has an actor");
    }

    /// Waits until a rebuilt room has queried the media plane for its participants, so that this is not the call that fails.
    pub async fn reconciled(&self, room: &str) -> ActorView {
        let handled = |actor: &ActorView, name| {
            actor
                .history
                .iter()
                .flatten()
                .filter(|handled| handled.message == name)
                .count()
        };
        self.until(room, |actor| {
            handled(actor, "reconcile") <= handled(actor, "observed")
        })
        .await;
        // The reply comes after the observation has been handled.
        self.actor(room).await
    }

    pub async fn actor(&self, room: &str) -> ActorView {
        self.tree
            .actor(&format!("{}/room/{room}", self.project))
            .await
            .expect("an open room has an actor")
    }

    pub async fn until(&self, room: &str, holds: impl Fn(&ActorView) -> bool) -> ActorView {
        wait_until(async || self.actor(room).await, holds).await
    }

    pub async fn open_sessions(&self) -> Vec<String> {
        let filter = SessionFilter {
            active: Some(true),
            ..SessionFilter::default()
        };
        let page = PageRequest {
            limit: 50,
            offset: 0,
        };
        let page = self
            .store
            .sessions()
            .list(self.project.clone(), filter, page)
            .await
            .unwrap();
        let mut identities: Vec<_> = page
            .items
            .iter()
            .map(|session| session.participant_identity.to_string())
            .collect();
        identities.sort_unstable();
        identities
    }
}

/// Room that stays open for an hour without participants.
pub fn room(project: &ProjectId, name: &str) -> NewRoom {
    NewRoom {
        project_id: project.clone(),
        name: name.parse().unwrap(),
        max_participants: 0,
        empty_timeout_seconds: 3_600,
        max_duration: None,
        metadata: None,
        template_id: None,
    }
}

fn template(project: &ProjectId) -> NewTemplate {
    let role = |name: &str, input: &str| {
        let (name, input): (RoleName, RoleInput) =
            (name.parse().unwrap(), serde_json::from_str(input).unwrap());
        (name.clone(), input.with_defaults(name).unwrap())
    };
    NewTemplate {
        project_id: project.clone(),
        name: "brittle".parse().unwrap(),
        region: Region::Auto,
        auto_record: None,
        max_duration: MaxDuration::known(0),
        roles: BTreeMap::from([
            role("host", "{}"),
            role("guest", r#"{"subscribe": {"to_roles": ["host"]}}"#),
            role("viewer", r#"{"subscribe": {"max_kbps": 500}}"#),
            role("soloist", r#"{"max_peer_count": 1}"#),
        ]),
    }
}

pub fn participant(identity: &str, at: Timestamp) -> Participant {
    Participant {
        sid: sid(identity),
        identity: identity.parse().unwrap(),
        name: String::new(),
        state: ParticipantState::Active,
        kind: ParticipantKind::Standard,
        metadata: String::new(),
        attributes: BTreeMap::from([(ROLE_ATTRIBUTE.to_owned(), "host".to_owned())]),
        is_publisher: false,
        joined_at: Some(at),
        tracks: Vec::new(),
    }
}

pub fn sid(identity: &str) -> ParticipantSid {
    format!("PA_{identity}").parse().unwrap()
}

pub fn participant_ref(identity: &str) -> ParticipantRef {
    ParticipantRef {
        identity: identity.parse().unwrap(),
        sid: sid(identity),
        role: Some("host".parse().unwrap()),
    }
}

/// Polls until a condition holds. Returns the last result.
pub async fn wait_until<T: Debug>(poll: impl AsyncFn() -> T, holds: impl Fn(&T) -> bool) -> T {
    let started = Instant::now();
    loop {
        let seen = poll().await;
        if holds(&seen) {
            return seen;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "waited in vain: {seen:?}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs a test in an actix system for the store, on the multi-threaded runtime that actors need.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    actix::System::with_tokio_rt(runtime).block_on(test);
}
