//! Scenario that runs each job of the store where it changes something.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::{
    Erasure, LogRetention, NewBan, NewCode, NewDestination, NewQuality, NewRoleChange, NewTemplate,
    Store, TemplateChange, UploadRest,
};
use conclave_model::bounded::MaxDuration;
use conclave_model::destination::{ConfigInput, RecordingInput};
use conclave_model::egress::{
    CompositeMedia, EgressOutput, EgressPlan, EgressSource, EgressState, EgressStatus, Layout,
    StartedEgress, UsedDestination,
};
use conclave_model::event::{
    ChangedBy, Departure, ParticipantRef, PublishLimit, TrackChange, TrackSummary,
};
use conclave_model::idempotency::{IdempotencyRecord, IdempotencySlot, Response, ResponseRecorder};
use conclave_model::ingress::{IngressState, IngressStatus};
use conclave_model::participant::{Participant, TrackKind, TrackSource};
use conclave_model::plan::{Plan, PlanFeatures, PlanLimits};
use conclave_model::project::{Environment, ProjectStatus};
use conclave_model::quality::{QualitySample, QualitySummary};
use conclave_model::role::{Role, RoleInput};
use conclave_model::room::Room;
use conclave_model::template::{AutoRecord, AutoRecordType, Region};
use conclave_model::webhook::{Attempt, AttemptOutcome, WebhookEndpointChange};
use conclave_model::{
    DestinationId, DestinationName, EgressId, EndpointId, NodeId, ProjectId, RoleName, Secret,
    TemplateId, Timestamp,
};
use serde_json::json;

use super::Failures;
use crate::support::{create_project, create_room, new_ingress, new_room, participant};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SECOND: Duration = Duration::from_secs(1);

/// Store with a project whose jobs are made to fail.
pub(super) struct Scenario {
    store: Store,
    pub(super) failures: Failures,
    project: ProjectId,
}

fn role(name: &str) -> Role {
    RoleInput::default()
        .with_defaults(name.parse().unwrap())
        .unwrap()
}

impl Scenario {
    pub(super) async fn new(store: Store, failures: Failures) -> Self {
        let project = create_project(&store).await;
        Self {
            store,
            failures,
            project,
        }
    }

    /// Runs all jobs.
    pub(super) async fn run(&self) {
        let endpoint = self.begin().await;
        let template = self.create_template().await;
        let destination = self.change_destinations(&template).await;
        self.change_projects(&template).await;
        let room = self.create_room().await;
        self.join_and_leave(&room).await;
        self.publish(&room).await;
        self.use_codes(&room).await;
        self.ban(&room).await;
        self.use_ingress(&room).await;
        self.record(&room, destination).await;
        self.erase(&room).await;
        self.deliver(endpoint).await;
        let ending = async || self.store.rooms().end(self.project.clone(), room.id).await;
        self.failures.check("Rooms::end", ending).await;
        self.run_server().await;
        self.clean_up(endpoint).await;
        self.delete_template().await;
        self.remove_project().await;
    }

    fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    fn record_of(&self, key: &str) -> IdempotencyRecord {
        let slot = IdempotencySlot {
            project_id: self.project.clone(),
            operation: "create_room",
            key: key.parse().unwrap(),
            refused: None,
        };
        IdempotencyRecord::new(slot, [7; 32], true)
    }

    /// Sets up a server, a key and a webhook endpoint.
    async fn begin(&self) -> EndpointId {
        let (store, failures) = (&self.store, &self.failures);
        failures
            .check("ServerRecords::begin_run", async || {
                store.server().begin_run().await
            })
            .await;
        let created = store
            .api_keys()
            .create(self.project.clone(), "key".into())
            .await
            .unwrap();
        let prefix = created.record.prefix;
        failures
            .check("ApiKeys::revoke", async || {
                store.api_keys().revoke(prefix.clone()).await
            })
            .await;
        let expires_at = self.now().after(DAY);
        let create_until = async || {
            store
                .api_keys()
                .create_until(self.project.clone(), "until".into(), Some(expires_at))
                .await
        };
        failures.check("ApiKeys::create_until", create_until).await;
        let renew = async || {
            store
                .api_keys()
                .create_or_renew(self.project.clone(), "key".into(), expires_at)
                .await
        };
        let renewed = failures.check("ApiKeys::create_or_renew", renew).await;
        assert_eq!(renewed.record.prefix, prefix);
        let using = async || {
            store
                .api_keys()
                .record_use(self.project.clone(), prefix.clone(), self.now().into())
                .await
        };
        failures.check("ApiKeys::record_use", using).await;
        let create = async || {
            let url = "https://a.example".to_owned();
            store
                .webhook_endpoints()
                .create(self.project.clone(), url, Secret::new("s"), None)
                .await
        };
        let endpoint = failures.check("WebhookEndpoints::create", create).await.id;
        failures
            .check("WebhookEndpoints::send_test_event", async || {
                store
                    .webhook_endpoints()
                    .send_test_event(self.project.clone(), endpoint)
                    .await
            })
            .await;
        endpoint
    }

    fn new_template(&self, name: &str) -> NewTemplate {
        NewTemplate {
            project_id: self.project.clone(),
            name: name.parse().unwrap(),
            region: Region::Auto,
            auto_record: None,
            max_duration: MaxDuration::known(0),
            roles: ["host", "guest"]
                .map(|name| (name.parse().unwrap(), role(name)))
                .into(),
        }
    }

    async fn create_template(&self) -> TemplateId {
        let create = async || {
            self.store
                .templates()
                .create(self.new_template("default"), None)
                .await
        };
        let template = self.failures.check("Templates::create", create).await.id;
        let update = async || {
            let roles = [("speaker".parse().unwrap(), role("speaker"))].into();
            let change = TemplateChange {
                name: Some("first".parse().unwrap()),
                region: None,
                auto_record: Some(Some(AutoRecord {
                    recording_type: AutoRecordType::RoomComposite,
                    layout: None,
                    destination: None,
                })),
                max_duration: None,
                roles,
            };
            self.store
                .templates()
                .update(self.project.clone(), template.clone(), change)
                .await
        };
        self.failures.check("Templates::update", update).await;
        let put = async || {
            self.store
                .templates()
                .put_role(self.project.clone(), template.clone(), role("listener"))
                .await
        };
        self.failures.check("Templates::put_role", put).await;
        template
    }

    fn new_destination(&self, template: &TemplateId, bucket: &str) -> NewDestination {
        let config =
            json!({"type": "s3", "bucket": bucket, "access_key": "AKIA", "secret": "hush"});
        NewDestination {
            project_id: self.project.clone(),
            template_id: template.clone(),
            name: "files".parse().unwrap(),
            kind: None,
            config: ConfigInput::Recording(RecordingInput::S3(
                serde_json::from_value(config).unwrap(),
            )),
            features: PlanFeatures {
                recording: true,
                streaming: true,
            },
        }
    }

    async fn change_destinations(&self, template: &TemplateId) -> DestinationId {
        let create = async || {
            self.store
                .destinations()
                .create(self.new_destination(template, "a"), None)
                .await
        };
        let destination = self.failures.check("Destinations::create", create).await;
        let update = async || {
            self.store
                .destinations()
                .update(self.new_destination(template, "b"))
                .await
        };
        self.failures.check("Destinations::update", update).await;
        destination.id
    }

    async fn change_projects(&self, template: &TemplateId) {
        let (store, failures, id) = (&self.store, &self.failures, || self.project.clone());
        let create = async || {
            store
                .projects()
                .create("other".into(), Environment::Test, "pro".into())
                .await
        };
        failures.check("Projects::create", create).await;
        let set = async || {
            store
                .projects()
                .set_default_template(id(), template.clone())
                .await
        };
        failures.check("Projects::set_default_template", set).await;
        failures
            .check("Projects::set_plan", async || {
                store.projects().set_plan(id(), "pro".into()).await
            })
            .await;
        failures
            .check("Projects::credit", async || {
                store.projects().credit(id(), 5).await
            })
            .await;
        for status in [ProjectStatus::Suspended, ProjectStatus::Active] {
            failures
                .check("Projects::set_status", async || {
                    store.projects().set_status(id(), status).await
                })
                .await;
        }
    }

    /// Creates a room, with the stored response of its request.
    async fn create_room(&self) -> Room {
        let render = |room: &Room| Response {
            code: 201,
            body: room.name.as_str().as_bytes().to_vec(),
        };
        let create = async || {
            let recorder = ResponseRecorder {
                record: self.record_of("created"),
                render,
            };
            create_room(&self.store, new_room(&self.project, "a"), Some(recorder)).await
        };
        self.failures.check("Rooms::create", create).await
    }

    async fn join(&self, room: &Room, identity: &str) {
        let joined = participant(identity, &format!("PA_{identity}"));
        self.store
            .sessions()
            .record_join(self.project.clone(), room.id, joined, self.now())
            .await
            .unwrap();
    }

    /// Records the quality of a participant's session.
    async fn measure(&self, room: &Room, participant: &Participant) {
        let measuring = async || {
            let measured = NewQuality {
                room: room.namespaced_name(),
                participant: participant.sid.clone(),
                at: self.now(),
                sample: Some(QualitySample::default()),
                summary: Some(QualitySummary::default()),
            };
            self.store.quality().record(vec![measured]).await
        };
        self.failures.check("Quality::record", measuring).await;
    }

    async fn join_and_leave(&self, room: &Room) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let ada = participant("ada", "PA_ada");
        let joining = async || {
            store
                .sessions()
                .record_join(project(), room.id, ada.clone(), self.now())
                .await
        };
        failures.check("Sessions::record_join", joining).await;
        let aborted = ParticipantRef::from(&participant("eve", "PA_eve"));
        let aborting = async || {
            store
                .sessions()
                .record_join_aborted(project(), room.id, aborted.clone(), self.now())
                .await
        };
        failures
            .check("Sessions::record_join_aborted", aborting)
            .await;
        self.measure(room, &ada).await;
        let leaving = async || {
            store
                .sessions()
                .record_leave(
                    project(),
                    room.id,
                    ada.sid.clone(),
                    self.now(),
                    Departure::Left,
                )
                .await
        };
        failures.check("Sessions::record_leave", leaving).await;
        let returning = async || {
            store
                .sessions()
                .record_return(project(), room.id, ada.clone(), self.now())
                .await
        };
        failures.check("Sessions::record_return", returning).await;
        let dave = participant("dave", "PA_dave").sid;
        self.join(room, "dave").await;
        let at_stop = async || {
            store
                .sessions()
                .record_leave_at_stop(
                    project(),
                    room.id,
                    dave.clone(),
                    self.now(),
                    Departure::Lost,
                )
                .await
        };
        failures
            .check("Sessions::record_leave_at_stop", at_stop)
            .await;
        self.join(room, "bob").await;
        let lost = || vec!["PA_bob".parse().unwrap()];
        failures
            .check("Sessions::record_lost", async || {
                store
                    .sessions()
                    .record_lost(project(), room.id, lost(), self.now())
                    .await
            })
            .await;
        self.join(room, "carol").await;
        let lost = || vec!["PA_carol".parse().unwrap()];
        let interrupting = async || {
            store
                .sessions()
                .record_interrupted(project(), room.id, lost(), self.now())
                .await
        };
        failures
            .check("Sessions::record_interrupted", interrupting)
            .await;
        let change = || NewRoleChange {
            project_id: project(),
            room: room.id,
            role: "host".parse().unwrap(),
            participant: ada.clone(),
            by: ChangedBy::Operator,
        };
        failures
            .check("RoleChanges::record", async || {
                store.role_changes().record(change(), None).await
            })
            .await;
    }

    /// Publishes tracks of the remaining participant.
    async fn publish(&self, room: &Room) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let ada = ParticipantRef::from(&participant("ada", "PA_ada"));
        let track = |muted| TrackSummary {
            sid: "TR_1".parse().unwrap(),
            kind: TrackKind::Audio,
            source: TrackSource::Microphone,
            muted,
        };
        let change = async |change| {
            let record = async || {
                store
                    .tracks()
                    .record(
                        project(),
                        room.id,
                        ada.clone(),
                        track(false),
                        change,
                        self.now(),
                    )
                    .await
            };
            failures.check("Tracks::record", record).await;
        };
        change(TrackChange::Published).await;
        let muting = async || {
            store
                .tracks()
                .record_muted(project(), room.id, ada.sid.clone(), track(true))
                .await
        };
        failures.check("Tracks::record_muted", muting).await;
        change(TrackChange::Unpublished).await;
        let limit = || PublishLimit {
            exceeded: true,
            track: None,
            kbps: 2_000,
            max_kbps: 1_000,
        };
        let crossing = async || {
            store
                .tracks()
                .record_publish_limit(project(), room.id, ada.clone(), limit(), self.now())
                .await
        };
        failures
            .check("Tracks::record_publish_limit", crossing)
            .await;
    }

    async fn use_codes(&self, room: &Room) {
        let (store, failures) = (&self.store, &self.failures);
        let new = || NewCode {
            project_id: self.project.clone(),
            room: room.name.clone(),
            role: "host".parse().unwrap(),
            identity: None,
            expires_at: self.now().after(DAY),
            max_uses: Some(3),
        };
        let code = failures
            .check("Codes::create", async || {
                store.codes().create(new(), None).await
            })
            .await
            .code
            .hash();
        let exchange = async || {
            let identity = Some("ada".parse().unwrap());
            store
                .codes()
                .exchange(&self.project, code, identity, |_| Ok(()))
                .await
        };
        failures.check("Codes::exchange", exchange).await;
        failures
            .check("Codes::disable", async || {
                store.codes().disable(self.project.clone(), code).await
            })
            .await;
        let other = store.codes().create(new(), None).await.unwrap().record.id;
        failures
            .check("Codes::disable_by_id", async || {
                let (project, room) = (self.project.clone(), room.name.clone());
                store.codes().disable_by_id(project, room, other).await
            })
            .await;
    }

    /// Bans an identity, changes the ban, lifts it, and revokes tokens.
    async fn ban(&self, room: &Room) {
        let (store, failures) = (&self.store, &self.failures);
        let mallory = || "mallory".parse().unwrap();
        let new = |until| NewBan {
            project_id: self.project.clone(),
            room: room.name.clone(),
            identity: mallory(),
            until,
            reason: Some("spam".into()),
            may_shorten: true,
        };
        for until in [None, Some(self.now().after(DAY))] {
            failures
                .check("Bans::put", async || store.bans().put(new(until)).await)
                .await;
        }
        failures
            .check("Bans::lift", async || {
                let (project, room) = (self.project.clone(), room.name.clone());
                store.bans().lift(project, room, mallory()).await
            })
            .await;
        failures
            .check("Bans::revoke_tokens", async || {
                let (project, room) = (self.project.clone(), room.name.clone());
                store.bans().revoke_tokens(project, room, mallory()).await
            })
            .await;
    }

    async fn use_ingress(&self, room: &Room) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let new = new_ingress(room);
        failures
            .check("Ingresses::create", async || {
                store.ingresses().create(new.clone()).await
            })
            .await;
        let id = new.ingress_id;
        let state = || IngressState {
            ingress_id: id.clone(),
            status: IngressStatus::Publishing,
            error: None,
        };
        failures
            .check("Ingresses::record", async || {
                store
                    .ingresses()
                    .record(project(), state(), self.now())
                    .await
            })
            .await;
        failures
            .check("Ingresses::delete", async || {
                store.ingresses().delete(project(), id.clone()).await
            })
            .await;
    }

    fn egress(&self, status: EgressStatus) -> EgressState {
        let ended_at = status.is_final().then(|| self.now());
        let egress_id: EgressId = "EG_1".parse().unwrap();
        EgressState {
            egress_id,
            status,
            error: None,
            started_at: self.now(),
            ended_at,
        }
    }

    /// Records an automatic start that has failed.
    async fn fail_start(&self, plan: &EgressPlan) {
        let (store, failures) = (&self.store, &self.failures);
        let automatic = EgressPlan {
            source: EgressSource::Participant("alice".parse().unwrap()),
            destination: None,
            is_automatic: true,
            ..plan.clone()
        };
        let automatic = Arc::new(automatic);
        failures
            .check("Egresses::record_failed_start", async || {
                let (plan, id) = (Arc::clone(&automatic), "EG_failed".parse().unwrap());
                store
                    .egresses()
                    .record_failed_start(plan, id, "refused".into())
                    .await
            })
            .await;
    }

    /// Makes a recording whose file is uploaded.
    async fn record(&self, room: &Room, destination: DestinationId) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let plan = Arc::new(EgressPlan {
            room_id: room.id,
            room: room.namespaced_name(),
            max_participants: None,
            source: EgressSource::RoomComposite {
                layout: Layout::Grid,
                media: CompositeMedia::Both,
            },
            output: EgressOutput::File {
                filepath: "a.mp4".parse().unwrap(),
                taken: Vec::new(),
            },
            destination: Some(UsedDestination {
                id: destination,
                name: "files".parse().unwrap(),
            }),
            is_automatic: false,
        });
        let started = || StartedEgress {
            is_uploaded_by_server: true,
            ..self.egress(EgressStatus::Starting).into()
        };
        let node: NodeId = "node_0123456789ab".parse().unwrap();
        let start = async || {
            store
                .egresses()
                .start(Arc::clone(&plan), started(), node.clone(), None)
                .await
        };
        failures.check("Egresses::start", start).await;
        self.fail_start(&plan).await;
        let active = || self.egress(EgressStatus::Active);
        failures
            .check("Egresses::record", async || {
                store
                    .egresses()
                    .record(project(), active(), self.now(), None)
                    .await
            })
            .await;
        failures
            .check("Egresses::set_paused", async || {
                let id = active().egress_id;
                store.egresses().set_paused(project(), id, true, None).await
            })
            .await;
        let complete = || self.egress(EgressStatus::Complete);
        let id = complete().egress_id;
        let multipart = async || {
            store
                .uploads()
                .record_multipart(project(), id.clone(), "upload".into())
                .await
        };
        failures.check("Uploads::record_multipart", multipart).await;
        let ending = async || {
            store
                .uploads()
                .record_recording_end(project(), complete(), self.now(), None)
                .await
        };
        failures
            .check("Uploads::record_recording_end", ending)
            .await;
        let missing = async || {
            store
                .uploads()
                .record_missing_file(project(), id.clone(), Some(self.now()))
                .await
        };
        failures
            .check("Uploads::record_missing_file", missing)
            .await;
        let settle = async || {
            store
                .uploads()
                .settle(project(), complete(), self.now(), UploadRest::Nothing)
                .await
        };
        failures.check("Uploads::settle", settle).await;
        let removed = async || {
            store
                .local_files()
                .record_removed(project(), id.clone())
                .await
        };
        failures.check("LocalFiles::record_removed", removed).await;
    }

    /// Erases a participant whose only trace is an event, and attributes a track's recording that was started before the track's report.
    async fn erase(&self, room: &Room) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let eve = || "eve".parse().unwrap();
        let erasure = failures
            .check("Erasures::begin", async || {
                store.erasures().begin(project(), eve()).await
            })
            .await;
        let rows = failures
            .check("Erasures::erase_rows", async || {
                store.erasures().erase_rows(&erasure).await
            })
            .await;
        assert_eq!((rows.sessions, rows.events), (0, 1));
        failures
            .check("Erasures::complete", async || {
                store.erasures().complete(erasure.clone()).await
            })
            .await;
        let track = TrackSummary {
            sid: "TR_late".parse().unwrap(),
            kind: TrackKind::Audio,
            source: TrackSource::Microphone,
            muted: false,
        };
        let plan = EgressPlan {
            room_id: room.id,
            room: room.namespaced_name(),
            max_participants: None,
            source: EgressSource::Track(track.sid.clone()),
            output: EgressOutput::File {
                filepath: "late.ogg".parse().unwrap(),
                taken: Vec::new(),
            },
            destination: None,
            is_automatic: false,
        };
        let started = EgressState {
            egress_id: "EG_late".parse().unwrap(),
            ..self.egress(EgressStatus::Starting)
        };
        let node: NodeId = "node_0123456789ab".parse().unwrap();
        store
            .egresses()
            .start(Arc::new(plan), started.into(), node, None)
            .await
            .unwrap();
        let ada = ParticipantRef::from(&participant("ada", "PA_ada"));
        let (change, now) = (TrackChange::Published, self.now());
        store
            .tracks()
            .record(project(), room.id, ada.clone(), track, change, now)
            .await
            .unwrap();
        let publisher = Erasure {
            project_id: project(),
            identity: ada.identity,
            replacement: "erased-ada".parse().unwrap(),
        };
        failures
            .check("Erasures::attribute_recordings", async || {
                store.erasures().attribute_recordings(&publisher).await
            })
            .await;
    }

    async fn remove_project(&self) {
        let (store, failures) = (&self.store, &self.failures);
        let project = create_project(store).await;
        let room = create_room(store, new_room(&project, "ended"), None)
            .await
            .unwrap();
        store.rooms().end(project.clone(), room.id).await.unwrap();
        failures
            .check("Removals::begin", async || {
                store.removals().begin(project.clone()).await
            })
            .await;
        let mut is_deleted = false;
        while !is_deleted {
            let deleted = failures
                .check("Removals::delete_some", async || {
                    store.removals().delete_some(project.clone()).await
                })
                .await;
            is_deleted = deleted.is_none();
        }
        assert!(store.projects().get(project).await.unwrap().is_none());
    }

    async fn deliver(&self, endpoint: EndpointId) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let due = store
            .deliveries()
            .due(project(), endpoint, self.now(), 1)
            .await
            .unwrap();
        let attempt = |retry_at| Attempt {
            project_id: project(),
            endpoint_id: endpoint,
            delivery_id: due[0].id,
            url: "https://example.com/hooks".into(),
            number: 1,
            due: due[0].due,
            at: self.now(),
            outcome: AttemptOutcome {
                response_status: Some(500),
                error: Some("refused".into()),
                timed_out: false,
            },
            retry_at,
        };
        let later = self.now().after(DAY);
        failures
            .check("Deliveries::record_attempt", async || {
                store
                    .deliveries()
                    .record_attempt(attempt(Some(later)))
                    .await
            })
            .await;
        let forward = async || {
            store
                .deliveries()
                .bring_retries_forward(project(), endpoint, self.now())
                .await
        };
        failures
            .check("Deliveries::bring_retries_forward", forward)
            .await;
        failures
            .check("Deliveries::record_attempt", async || {
                store.deliveries().record_attempt(attempt(None)).await
            })
            .await;
        failures
            .check("Deliveries::retry", async || {
                store.deliveries().retry(project(), due[0].id, None).await
            })
            .await;
        failures
            .check("Responses::reserve", async || {
                store.responses().reserve(self.record_of("refused")).await
            })
            .await;
        let response = || Response {
            code: 404,
            body: b"refused".to_vec(),
        };
        failures
            .check("Responses::store", async || {
                store
                    .responses()
                    .store(self.record_of("refused"), response())
                    .await
            })
            .await;
    }

    async fn run_server(&self) {
        let (store, failures) = (&self.store, &self.failures);
        store.clock().advance(DAY);
        failures
            .check("ServerRecords::renew_heartbeat", async || {
                store.server().renew_heartbeat().await
            })
            .await;
        store.clock().advance(DAY);
        failures
            .check("ServerRecords::ping", async || store.server().ping().await)
            .await;
        failures
            .check("ServerRecords::end_run", async || {
                store.server().end_run().await
            })
            .await;
    }

    /// Cleans up old records and a deleted webhook endpoint.
    async fn clean_up(&self, endpoint: EndpointId) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        store.clock().advance(DAY * 62);
        let plan = || Plan {
            display_name: String::new(),
            price_ugx: 0,
            limits: PlanLimits::default(),
            features: PlanFeatures::default(),
            overage_ugx_per_minute: Some(5),
        };
        failures
            .check("Usage::settle_months", async || {
                store.usage().settle_months(project(), plan()).await
            })
            .await;
        failures
            .check("ServerRecords::delete_expired", async || {
                let retention = LogRetention {
                    deliveries: DAY,
                    events: DAY,
                };
                store.server().delete_expired(retention).await
            })
            .await;
        self.change_endpoint(endpoint).await;
        failures
            .check("ServerRecords::delete_quality_samples", async || {
                store.server().delete_quality_samples(DAY).await
            })
            .await;
        let delete = async || store.webhook_endpoints().delete(project(), endpoint).await;
        failures.check("WebhookEndpoints::delete", delete).await;
        // Its deliveries, and then the endpoint itself.
        for _ in 0..2 {
            let purge = async || store.webhook_endpoints().purge_deleted().await;
            failures
                .check("WebhookEndpoints::purge_deleted", purge)
                .await;
        }
    }

    /// Changes a webhook endpoint, rotates its secret, and disables it.
    async fn change_endpoint(&self, endpoint: EndpointId) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let change = WebhookEndpointChange {
            description: Some("changed".into()),
            ..WebhookEndpointChange::default()
        };
        let update = async || {
            let endpoints = store.webhook_endpoints();
            endpoints.update(project(), endpoint, change.clone()).await
        };
        failures.check("WebhookEndpoints::update", update).await;
        let rotate = async || {
            let (secret, until) = (Secret::new("t"), self.now().after(SECOND));
            let endpoints = store.webhook_endpoints();
            endpoints
                .rotate_secret(project(), endpoint, secret, until, None)
                .await
        };
        failures
            .check("WebhookEndpoints::rotate_secret", rotate)
            .await;
        store.clock().advance(SECOND);
        let forget = async || {
            let endpoints = store.webhook_endpoints();
            endpoints.forget_previous_secret(project(), endpoint).await
        };
        failures
            .check("WebhookEndpoints::forget_previous_secret", forget)
            .await;
        let disable = async || {
            let endpoints = store.webhook_endpoints();
            endpoints
                .disable_failing(project(), endpoint, self.now(), "refused".into())
                .await
        };
        let disabled = failures.check("WebhookEndpoints::disable_failing", disable);
        assert!(disabled.await, "its last attempt has failed");
    }

    /// Deletes a template that is not the default.
    async fn delete_template(&self) {
        let (store, failures, project) = (&self.store, &self.failures, || self.project.clone());
        let spare = store
            .templates()
            .create(self.new_template("spare"), None)
            .await
            .unwrap()
            .id;
        store
            .destinations()
            .create(self.new_destination(&spare, "a"), None)
            .await
            .unwrap();
        let (id, guest, files) = (
            || spare.clone(),
            "guest".parse().unwrap(),
            "files".parse().unwrap(),
        );
        failures
            .check("Templates::delete_role", async || {
                store
                    .templates()
                    .delete_role(project(), id(), RoleName::clone(&guest))
                    .await
            })
            .await;
        let delete = async || {
            store
                .destinations()
                .delete(project(), id(), DestinationName::clone(&files))
                .await
        };
        failures.check("Destinations::delete", delete).await;
        failures
            .check("Templates::delete", async || {
                store.templates().delete(project(), id()).await
            })
            .await;
    }
}
