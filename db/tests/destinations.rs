//! Destinations and the key they are sealed with, through the store's public face.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use conclave_db::{
    NewDestination, NewTemplate, OlderSchema, RotationError, Store, StoreError, StoreMetrics, StoreOptions, Vault,
};
use conclave_model::destination::{ConfigInput, DestinationConfig, DestinationKind, RecordingInput, RtmpConfig};
use conclave_model::plan::PlanFeatures;
use conclave_model::project::Environment;
use conclave_model::rtmp::parse_urls;
use conclave_model::template::Region;
use conclave_model::{Clock, ErrorCode, ProjectId, Secret, TemplateId, Timestamp};
use serde_json::json;

fn open(dir: &Path, key: Option<&str>) -> Store {
    let key = key.map(|name| dir.join(name));
    Store::open(StoreOptions {
        path: dir.join("conclave.db"),
        older_schema: OlderSchema::Migrate,
        clock: Clock::manual(Timestamp::from_millis(1_700_000_000_000)),
        vault: Vault::open(key.as_deref(), &Secret::new("media")).unwrap(),
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
    })
    .unwrap()
}

struct Bench {
    project: ProjectId,
    template: TemplateId,
}

fn s3() -> ConfigInput {
    let config = json!({"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "hush"});
    ConfigInput::Recording(RecordingInput::S3(serde_json::from_value(config).unwrap()))
}

fn rtmp() -> ConfigInput {
    let urls = parse_urls("config.urls", &["rtmp://live.invalid/app/hush".to_owned()]).unwrap();
    ConfigInput::Rtmp(RtmpConfig { urls })
}

impl Bench {
    async fn new(store: &Store) -> Self {
        let project = store.create_project("p".into(), Environment::Test, "self_hosted".into()).await.unwrap().id;
        let new = NewTemplate {
            project_id: project.clone(),
            name: "t".parse().unwrap(),
            region: Region::Auto,
            roles: [].into(),
        };
        Self { project, template: store.create_template(new, None).await.unwrap().id }
    }

    fn write(&self, name: &str, config: ConfigInput) -> NewDestination {
        NewDestination {
            project_id: self.project.clone(),
            template_id: self.template.clone(),
            name: name.parse().unwrap(),
            kind: None,
            config,
            features: PlanFeatures { recording: true, streaming: true },
        }
    }

    async fn usable(&self, store: &Store, name: &str, kind: DestinationKind) -> Result<DestinationConfig, StoreError> {
        let (project, template) = (self.project.clone(), self.template.clone());
        let found = store.usable_destination(project, template, name.parse().unwrap(), kind).await;
        found.map(|(_, config)| config)
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>) -> (ErrorCode, Option<String>) {
    match result {
        Err(StoreError::Refused(problem)) => (problem.code, problem.field.map(Into::into)),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[actix::test]
async fn a_destination_is_given_whole_to_whoever_sends_something_there_and_only_as_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Some("key"));
    let bench = Bench::new(&store).await;
    store.create_destination(bench.write("files", s3()), None).await.unwrap();
    store.create_destination(bench.write("live", rtmp()), None).await.unwrap();

    let found = bench.usable(&store, "files", DestinationKind::Recording).await.unwrap();
    assert_eq!(found, s3().complete(None).unwrap());
    let found = bench.usable(&store, "live", DestinationKind::Rtmp).await.unwrap();
    assert_eq!(found, rtmp().complete(None).unwrap());

    let not_found = (ErrorCode::DestinationNotFound, Some("destination".to_owned()));
    for (name, kind) in
        [("files", DestinationKind::Rtmp), ("live", DestinationKind::Recording), ("x", DestinationKind::Rtmp)]
    {
        assert_eq!(refused(bench.usable(&store, name, kind).await), not_found);
    }
    let other = Bench { project: ProjectId::new(), template: bench.template.clone() };
    assert_eq!(refused(other.usable(&store, "files", DestinationKind::Recording).await), not_found);
}

#[actix::test]
async fn one_whose_key_is_lost_is_unusable_and_says_nothing_of_it_but_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Some("key"));
    let bench = Bench::new(&store).await;
    store.create_destination(bench.write("files", s3()), None).await.unwrap();
    store.close();
    for key in [Some("another"), None] {
        let store = open(dir.path(), key);
        let lost = bench.usable(&store, "files", DestinationKind::Recording).await;
        assert!(!format!("{lost:?}").contains("hush"));
        assert_eq!(refused(lost), (ErrorCode::DestinationUnusable, None));
        store.close();
    }
}

#[actix::test]
async fn a_rotation_seals_everything_anew_and_a_deployment_without_a_key_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Some("key"));
    let bench = Bench::new(&store).await;
    store.create_destination(bench.write("files", s3()), None).await.unwrap();
    let secret = Secret::new("whsec_");
    let endpoint =
        store.create_webhook_endpoint(bench.project.clone(), "https://x".into(), secret.clone(), None).await.unwrap();
    let done = store.rotate_key().await.unwrap();
    assert_eq!((done.resealed, done.unopenable), (2, 0));
    store.close();

    let store = open(dir.path(), Some("key"));
    assert!(bench.usable(&store, "files", DestinationKind::Recording).await.is_ok());
    assert_eq!(store.active_webhook_endpoint(endpoint.id).await.unwrap().unwrap().secret, secret);
    store.close();
    assert!(matches!(open(dir.path(), None).rotate_key().await, Err(RotationError::NoKey)));
}
