//! An actor that fails: rebuilt from the database, and nobody else notices more than a delay. Rooms are looked at here, jobs
//! and ingress endpoints in [`jobs`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod jobs;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use conclave_actors::debug::ActorView;
use conclave_actors::delivery::sender::Sender;
use conclave_actors::metrics::ActorMetrics;
use conclave_actors::room::ChangeRoleRequest;
use conclave_actors::{ActorContext, ActorRegistry, EventRelay, Settings, Tree, TreeError};
use conclave_db::{NewRoom, NewTemplate, SessionFilter, Store, StoreMetrics, StoreOptions, Vault};
use conclave_media::{
    EgressRequest, IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaEvent, MediaPlane, MuteOutcome,
    Report, ReportAnswer, ReportSink, RoleGrant, ServerData, Survey,
};
use conclave_model::address::AddressFilter;
use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::event::{ChangedBy, ParticipantRef};
use conclave_model::ingress::{IngressState, IngressStatus};
use conclave_model::page::PageRequest;
use conclave_model::participant::{Participant, ParticipantKind, ParticipantState, ROLE_ATTRIBUTE};
use conclave_model::project::Environment;
use conclave_model::role::RoleInput;
use conclave_model::template::Region;
use conclave_model::{
    Clock, EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, ProjectId, RoleName, Secret, Timestamp,
    TrackSid,
};

/// A media plane that panics, as often as it is told to, inside the handler of a join, or of whoever asks it about a job or
/// an ingress endpoint.
#[derive(Default)]
struct BrittlePlane {
    panics: AtomicU32,
    people: Mutex<Vec<(NamespacedRoom, Participant)>>,
    jobs: Mutex<Vec<EgressState>>,
    ingresses: Mutex<Vec<IngressState>>,
}

impl BrittlePlane {
    fn panic_if_told(&self) {
        let told = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(told.is_err(), "the plane was told to panic");
    }
}

#[async_trait]
impl MediaPlane for BrittlePlane {
    fn kind(&self) -> &'static str {
        "brittle"
    }

    async fn health(&self) -> Result<(), MediaError> {
        Ok(())
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        let people = self.people.lock().unwrap();
        Ok(people.iter().filter(|(inside, _)| inside == room).map(|(_, person)| person.clone()).collect())
    }

    async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, MediaError> {
        Ok(self.participants(room).await?.into_iter().find(|person| person.identity == *who))
    }

    async fn remove_participant(&self, _: &NamespacedRoom, _: &ParticipantSid) -> Result<bool, MediaError> {
        Ok(false)
    }

    async fn mute_track(
        &self,
        _: &NamespacedRoom,
        _: &Identity,
        _: &TrackSid,
        _: bool,
    ) -> Result<MuteOutcome, MediaError> {
        Ok(MuteOutcome::NoSuchParticipant)
    }

    async fn send_data(&self, _: &NamespacedRoom, _: ServerData) -> Result<(), MediaError> {
        Ok(())
    }

    /// Away: it does not answer.
    async fn set_role(
        &self,
        _: &NamespacedRoom,
        _: &Identity,
        _: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        Err(MediaError::Unavailable("away".into()))
    }

    async fn close_room(&self, _: &NamespacedRoom) -> Result<(), MediaError> {
        Ok(())
    }

    async fn start_egress(&self, _: EgressRequest) -> Result<EgressState, MediaError> {
        let mut jobs = self.jobs.lock().unwrap();
        let state = EgressState {
            egress_id: format!("EG_{}", jobs.len()).parse().unwrap(),
            status: EgressStatus::Starting,
            error: None,
            started_at: Timestamp::from_millis(START),
            ended_at: None,
        };
        jobs.push(state.clone());
        Ok(state)
    }

    async fn egress(&self, _: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.panic_if_told();
        Ok(self.jobs.lock().unwrap().iter().find(|job| job.egress_id == *id).cloned())
    }

    async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        self.egress(room, id).await
    }

    async fn create_ingress(&self, _: IngressRequest) -> Result<IngressCredentials, MediaError> {
        let mut ingresses = self.ingresses.lock().unwrap();
        let ingress_id: IngressId = format!("IN_{}", ingresses.len()).parse().unwrap();
        let status = IngressStatus::Inactive;
        ingresses.push(IngressState { ingress_id: ingress_id.clone(), status, error: None });
        Ok(IngressCredentials { ingress_id, url: "rtmp://media/live".into(), stream_key: Secret::new("stream-key") })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.panic_if_told();
        Ok(self.ingresses.lock().unwrap().iter().find(|seen| seen.ingress_id == known.ingress_id).cloned())
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.panic_if_told();
        self.ingresses.lock().unwrap().retain(|seen| seen.ingress_id != *id);
        Ok(())
    }

    async fn survey(&self, _: &ProjectId) -> Result<Survey, MediaError> {
        let people = self.people.lock().unwrap();
        Ok(Survey { rooms: people.iter().map(|(room, _)| room.clone()).collect(), ..Survey::default() })
    }

    async fn set_subscription_rules(
        &self,
        _: &NamespacedRoom,
        _: BTreeMap<RoleName, Option<Vec<RoleName>>>,
    ) -> Result<(), MediaError> {
        self.panic_if_told();
        Ok(())
    }
}

/// Where the clock starts, in milliseconds.
const START: i64 = 1_700_000_000_000;

struct Stage {
    tree: Tree,
    store: Store,
    clock: Clock,
    plane: Arc<BrittlePlane>,
    project: ProjectId,
    _dir: tempfile::TempDir,
}

impl Stage {
    /// A project with the rooms "stage" and "sibling", whose roles make each join call the media plane.
    async fn set() -> Self {
        let (dir, relay) = (tempfile::tempdir().unwrap(), EventRelay::default());
        let clock = Clock::manual(Timestamp::from_millis(START));
        let options = StoreOptions {
            path: dir.path().join("conclave.db"),
            clock: clock.clone(),
            vault: Vault::open(Some(&dir.path().join("encryption.key")), &Secret::new("media")).unwrap(),
            on_commit: relay.hook(),
            readers: 1,
            metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
        };
        let (store, plane) = (Store::open(options).unwrap(), Arc::new(BrittlePlane::default()));
        let context = ActorContext {
            store: store.clone(),
            media: Arc::clone(&plane) as Arc<dyn MediaPlane>,
            clock: clock.clone(),
            sender: Arc::new(Sender::new(AddressFilter::new(Vec::new()), Duration::from_secs(1))),
            settings: Settings::default(),
            registry: ActorRegistry::default(),
            metrics: ActorMetrics::new(&prometheus::Registry::new()).unwrap(),
        };
        let tree = Tree::start(context, &relay).await.unwrap();
        let project = store.create_project("p".into(), Environment::Test, "self_hosted".into()).await.unwrap().id;
        let template = store.create_template(template(&project), None).await.unwrap();
        for name in ["stage", "sibling"] {
            let new = NewRoom {
                project_id: project.clone(),
                name: name.parse().unwrap(),
                max_participants: 0,
                empty_timeout_seconds: 3_600,
                metadata: None,
                template_id: Some(template.id.clone()),
            };
            tree.create_room(new, None, None).await.unwrap();
        }
        Self { tree, store, clock, plane, project, _dir: dir }
    }

    fn room(&self, name: &str) -> NamespacedRoom {
        NamespacedRoom::new(&self.project, &name.parse().unwrap())
    }

    fn report(&self, room: &str, event: MediaEvent) -> ReportAnswer {
        self.tree.report(Report { room: self.room(room), at: self.clock.now(), event })
    }

    fn join(&self, room: &str, identity: &str) -> ReportAnswer {
        let participant = person(identity, self.clock.now());
        self.plane.people.lock().unwrap().push((self.room(room), participant.clone()));
        self.report(room, MediaEvent::ParticipantJoined(Box::new(participant)))
    }

    /// Makes the next join fail its room's actor, and waits until that has been noticed.
    async fn fail(&self, room: &str) {
        let before = self.actor(room).await.restarts;
        self.plane.panics.store(1, Ordering::SeqCst);
        let victim = MediaEvent::ParticipantJoined(Box::new(person("victim", self.clock.now())));
        let refused = tokio::time::timeout(Duration::from_secs(20), self.report(room, victim)).await;
        assert!(refused.unwrap().is_err(), "a report that failed its actor is not taken");
        self.until(room, |actor| actor.restarts == before + 1 && actor.status == "restarting").await;
    }

    async fn actor(&self, room: &str) -> ActorView {
        self.tree.actor(&format!("{}/room/{room}", self.project)).await.expect("an open room has an actor")
    }

    async fn until(&self, room: &str, holds: impl Fn(&ActorView) -> bool) -> ActorView {
        wait_until(async || self.actor(room).await, holds).await
    }

    async fn open_sessions(&self) -> Vec<String> {
        let filter = SessionFilter { active: Some(true), ..SessionFilter::default() };
        let page = PageRequest { limit: 50, offset: 0 };
        let page = self.store.sessions(self.project.clone(), filter, page).await.unwrap();
        let mut identities: Vec<_> =
            page.items.iter().map(|session| session.participant_identity.to_string()).collect();
        identities.sort_unstable();
        identities
    }
}

fn template(project: &ProjectId) -> NewTemplate {
    let role = |name: &str, input: &str| {
        let (name, input): (RoleName, RoleInput) = (name.parse().unwrap(), serde_json::from_str(input).unwrap());
        (name.clone(), input.with_defaults(name).unwrap())
    };
    NewTemplate {
        project_id: project.clone(),
        name: "brittle".parse().unwrap(),
        region: Region::Auto,
        roles: BTreeMap::from([role("host", "{}"), role("guest", r#"{"subscribe": {"to_roles": ["host"]}}"#)]),
    }
}

fn person(identity: &str, at: Timestamp) -> Participant {
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

fn sid(identity: &str) -> ParticipantSid {
    format!("PA_{identity}").parse().unwrap()
}

fn who(identity: &str) -> ParticipantRef {
    ParticipantRef { identity: identity.parse().unwrap(), sid: sid(identity), role: Some("host".parse().unwrap()) }
}

/// An actix system for the store, on the multi-threaded runtime that actors need.
/// Looks until what is seen holds, and gives it.
async fn wait_until<T: Debug>(look: impl AsyncFn() -> T, holds: impl Fn(&T) -> bool) -> T {
    let started = Instant::now();
    loop {
        let seen = look().await;
        if holds(&seen) {
            return seen;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "waited in vain: {seen:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn run(diagnostics: impl Future<Output = ()>) {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    actix::System::with_tokio_rt(runtime).block_on(diagnostics);
}

#[test]
fn a_failed_room_is_rebuilt_with_everybody_who_was_in_it() {
    run(async {
        let stage = Stage::set().await;
        stage.join("stage", "alice").await.unwrap().unwrap();
        stage.clock.advance(Duration::from_secs(30));
        stage.fail("stage").await;
        let failed = stage.actor("stage").await;
        let failure = failed.last_failure.expect("a failure on its info");
        assert_eq!((failed.restarts, failure.at), (1, stage.clock.now()));
        assert!(failure.reason.contains("the plane was told to panic"), "{}", failure.reason);

        stage.clock.advance(Duration::from_millis(100));
        let back = stage.until("stage", |actor| actor.status == "running").await;
        assert_eq!(back.state["participants"], serde_json::json!({"host": ["alice"]}));
        assert_eq!((back.restarts, back.started_at), (1, stage.clock.now()));
        assert!(back.last_failure.is_some(), "the info keeps the failure");
        assert_eq!(stage.open_sessions().await, ["alice"]);
    });
}

#[test]
fn what_is_sent_to_a_failed_room_waits_and_is_handled_in_order() {
    run(async {
        let stage = Stage::set().await;
        stage.fail("stage").await;
        let answers = [
            stage.join("stage", "bob"),
            stage.join("stage", "carol"),
            stage.report("stage", MediaEvent::ParticipantLeft { participant: who("bob"), clean: true }),
        ];
        stage.plane.people.lock().unwrap().retain(|(_, person)| person.identity.as_str() != "bob");
        stage.clock.advance(Duration::from_millis(100));
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        assert_eq!(stage.open_sessions().await, ["carol"]);
    });
}

#[test]
fn a_room_can_be_ended_while_it_waits_to_be_rebuilt() {
    run(async {
        let stage = Stage::set().await;
        stage.fail("stage").await;
        let (tree, project) = (stage.tree.clone(), stage.project.clone());
        let ending = tokio::spawn(async move { tree.end_room(project, "stage".parse().unwrap()).await });
        stage.clock.advance(Duration::from_millis(100));
        ending.await.unwrap().unwrap();
        let room = stage.store.room(stage.project.clone(), "stage".parse().unwrap()).await.unwrap();
        assert_eq!(room.status.as_str(), "ended");
    });
}

#[test]
fn the_wait_doubles_with_each_failure_in_a_row_and_starts_over_after_a_good_minute() {
    run(async {
        let stage = Stage::set().await;
        // Somebody is inside: a room that nobody is in would rest and not run.
        stage.join("stage", "alice").await.unwrap().unwrap();
        for (restarts, delay) in [(1, 100), (2, 200), (3, 400), (4, 800)] {
            stage.fail("stage").await;
            stage.clock.advance(Duration::from_millis(delay - 1));
            // Whatever the clock has woken by now is done before a project's next answer.
            let project = stage.tree.actor(stage.project.as_str()).await.unwrap();
            assert_eq!(project.status, "running");
            assert_eq!(stage.actor("stage").await.status, "restarting", "not before {delay} ms");
            stage.clock.advance(Duration::from_millis(1));
            stage.until("stage", |actor| actor.status == "running" && actor.restarts == restarts).await;
        }
        stage.clock.advance(Duration::from_secs(60));
        stage.fail("stage").await;
        stage.clock.advance(Duration::from_millis(100));
        stage.until("stage", |actor| actor.status == "running" && actor.restarts == 5).await;
    });
}

#[test]
fn a_rebuilt_room_still_ends_at_its_deadline() {
    run(async {
        let stage = Stage::set().await;
        let deadline = stage.clock.now().after(Duration::from_secs(3_600));
        stage.fail("stage").await;
        stage.clock.advance(Duration::from_millis(100));
        // Nobody is inside, so it rests until then.
        let back = stage.until("stage", |actor| actor.status == "hibernating").await;
        assert_eq!(back.timers.iter().map(|timer| timer.fires_at).collect::<Vec<_>>(), [deadline]);
    });
}

#[test]
fn siblings_and_the_project_do_not_notice() {
    run(async {
        let stage = Stage::set().await;
        stage.join("sibling", "dora").await.unwrap().unwrap();
        let before = stage.actor("sibling").await;
        stage.clock.advance(Duration::from_secs(1));
        stage.fail("stage").await;
        // The sibling works on while the other is down.
        stage.join("sibling", "emil").await.unwrap().unwrap();
        let after = stage.actor("sibling").await;
        assert_eq!((after.status, after.restarts, after.started_at), ("running", 0, before.started_at));
        assert!(after.last_failure.is_none());
        let project = stage.tree.actor(stage.project.as_str()).await.unwrap();
        assert_eq!((project.status, project.restarts), ("running", 0));
        assert_eq!(project.state["open_rooms"], 2);
        assert_eq!(stage.open_sessions().await, ["dora", "emil"]);
    });
}

#[test]
fn a_role_that_the_media_plane_does_not_take_is_not_written() {
    run(async {
        let stage = Stage::set().await;
        stage.join("stage", "alice").await.unwrap().unwrap();
        let wanted = |identity: &str, role: &str| ChangeRoleRequest {
            identity: identity.parse().unwrap(),
            role: role.parse().unwrap(),
            by: ChangedBy::ApiKey("vk_test_0123".parse().unwrap()),
        };
        let change = |wanted| stage.tree.change_role(stage.project.clone(), "stage".parse().unwrap(), wanted, None);
        assert!(matches!(change(wanted("alice", "guest")).await, Err(TreeError::Media(_))));
        assert!(matches!(change(wanted("bob", "guest")).await, Err(TreeError::Store(_))), "it was not even asked");
        assert_eq!(stage.actor("stage").await.state["participants"], serde_json::json!({"host": ["alice"]}));
        let room = stage.store.room(stage.project.clone(), "stage".parse().unwrap()).await.unwrap();
        let page = PageRequest { limit: 50, offset: 0 };
        let log = stage.store.role_changes(stage.project.clone(), room.id, None, page).await.unwrap();
        assert_eq!(log.items, []);
    });
}
