//! Destinations and the key that seals them, through the store's public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use conclave_db::{NewDestination, NewTemplate, RotationError, Store, StoreError};
use conclave_model::bounded::MaxDuration;
use conclave_model::destination::{
    ConfigInput, DestinationConfig, DestinationKind, RecordingInput, RtmpConfig,
};
use conclave_model::plan::PlanFeatures;
use conclave_model::rtmp::parse_urls;
use conclave_model::template::Region;
use conclave_model::{ErrorCode, ProjectId, Secret, TemplateId, Timestamp};
use serde_json::json;
use support::{Home, clock, create_project, refused};

fn open(home: &Home, key: Option<&str>) -> Store {
    support::open(home, key, &clock(), Box::new(|_| {}))
}

/// Project with a template.
struct Fixture {
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

impl Fixture {
    async fn new(store: &Store) -> Self {
        let project = create_project(store).await;
        let new = NewTemplate {
            project_id: project.clone(),
            name: "t".parse().unwrap(),
            region: Region::Auto,
            auto_record: None,
            max_duration: MaxDuration::known(0),
            roles: [].into(),
        };
        Self {
            project,
            template: store.templates().create(new, None).await.unwrap().id,
        }
    }

    fn write(&self, name: &str, config: ConfigInput) -> NewDestination {
        NewDestination {
            project_id: self.project.clone(),
            template_id: self.template.clone(),
            name: name.parse().unwrap(),
            kind: None,
            config,
            features: PlanFeatures {
                recording: true,
                streaming: true,
            },
        }
    }

    async fn usable(
        &self,
        store: &Store,
        name: &str,
        kind: DestinationKind,
    ) -> Result<DestinationConfig, StoreError> {
        let (project, template, name) = (
            self.project.clone(),
            self.template.clone(),
            name.parse().unwrap(),
        );
        match kind {
            DestinationKind::Recording => {
                let used = store
                    .destinations()
                    .recording(project.clone(), template, name)
                    .await?;
                let storage = store.uploads().storage(project, used.id).await?;
                Ok(DestinationConfig::Recording(
                    storage.expect("it was not deleted"),
                ))
            }
            DestinationKind::Rtmp => {
                let urls = store
                    .destinations()
                    .broadcast(project, template, name)
                    .await?
                    .urls;
                Ok(DestinationConfig::Rtmp(RtmpConfig { urls }))
            }
        }
    }
}

#[actix::test]
async fn a_destination_is_given_whole_to_whoever_sends_something_there_and_only_as_what_it_is() {
    let home = Home::new();
    let store = open(&home, Some("key"));
    let fixture = Fixture::new(&store).await;
    store
        .destinations()
        .create(fixture.write("files", s3()), None)
        .await
        .unwrap();
    store
        .destinations()
        .create(fixture.write("live", rtmp()), None)
        .await
        .unwrap();

    let found = fixture
        .usable(&store, "files", DestinationKind::Recording)
        .await
        .unwrap();
    assert_eq!(found, s3().complete(None).unwrap());
    let found = fixture
        .usable(&store, "live", DestinationKind::Rtmp)
        .await
        .unwrap();
    assert_eq!(found, rtmp().complete(None).unwrap());

    let not_found = (
        ErrorCode::DestinationNotFound,
        Some("destination".to_owned()),
    );
    for (name, kind) in [
        ("files", DestinationKind::Rtmp),
        ("live", DestinationKind::Recording),
        ("x", DestinationKind::Rtmp),
    ] {
        assert_eq!(refused(fixture.usable(&store, name, kind).await), not_found);
    }
    let other = Fixture {
        project: ProjectId::new(),
        template: fixture.template.clone(),
    };
    assert_eq!(
        refused(
            other
                .usable(&store, "files", DestinationKind::Recording)
                .await
        ),
        not_found
    );
}

#[actix::test]
async fn one_whose_key_is_lost_is_unusable_and_says_nothing_of_it_but_its_key() {
    let home = Home::new();
    let store = open(&home, Some("key"));
    let fixture = Fixture::new(&store).await;
    store
        .destinations()
        .create(fixture.write("files", s3()), None)
        .await
        .unwrap();
    store.close();
    for key in [Some("another"), None] {
        let store = open(&home, key);
        let lost = fixture
            .usable(&store, "files", DestinationKind::Recording)
            .await;
        assert!(!format!("{lost:?}").contains("hush"));
        assert_eq!(refused(lost), (ErrorCode::DestinationUnusable, None));
        store.close();
    }
}

#[actix::test]
async fn a_rotation_seals_everything_anew_and_a_deployment_without_a_key_has_none() {
    let home = Home::new();
    let store = open(&home, Some("key"));
    let fixture = Fixture::new(&store).await;
    store
        .destinations()
        .create(fixture.write("files", s3()), None)
        .await
        .unwrap();
    let secret = Secret::new("whsec_");
    let endpoint = store
        .webhook_endpoints()
        .create(
            fixture.project.clone(),
            "https://x".into(),
            secret.clone(),
            None,
        )
        .await
        .unwrap();
    let (newer, until) = (Secret::new("whsec_newer"), Timestamp::from_millis(i64::MAX));
    store
        .webhook_endpoints()
        .rotate_secret(
            fixture.project.clone(),
            endpoint.id,
            newer.clone(),
            until,
            None,
        )
        .await
        .unwrap();
    let done = store.encryption_key().rotate().await.unwrap();
    // The destination, and both secrets.
    assert_eq!((done.resealed, done.unopenable), (3, 0));
    store.close();

    let store = open(&home, Some("key"));
    assert!(
        fixture
            .usable(&store, "files", DestinationKind::Recording)
            .await
            .is_ok()
    );
    let endpoint = store
        .webhook_endpoints()
        .with_secrets(endpoint.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (endpoint.secret, endpoint.previous_secret.unwrap().secret),
        (newer, secret)
    );
    store.close();
    assert!(matches!(
        open(&home, None).encryption_key().rotate().await,
        Err(RotationError::NoKey)
    ));
}

#[actix::test]
async fn an_endpoint_whose_previous_secret_cannot_be_decrypted_has_its_current_one() {
    let home = Home::new();
    let store = open(&home, Some("lost"));
    let project = create_project(&store).await;
    let endpoint = store
        .webhook_endpoints()
        .create(
            project.clone(),
            "https://x".into(),
            Secret::new("whsec_old"),
            None,
        )
        .await
        .unwrap();
    store.close();

    let store = open(&home, Some("key"));
    let endpoints = store.webhook_endpoints();
    // A current secret that cannot be decrypted is an error.
    let unusable = endpoints.with_secrets(endpoint.id).await;
    assert!(matches!(unusable, Err(StoreError::Fault(_))));
    let (newer, until) = (Secret::new("whsec_newer"), Timestamp::from_millis(i64::MAX));
    endpoints
        .rotate_secret(project, endpoint.id, newer.clone(), until, None)
        .await
        .unwrap();
    let found = endpoints.with_secrets(endpoint.id).await.unwrap().unwrap();
    assert_eq!((found.secret, found.previous_secret), (newer, None));
    store.close();

    // Its key makes it usable again.
    let file = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    std::fs::write(home.path().join("key"), file("key") + &file("lost")).unwrap();
    let store = open(&home, Some("key"));
    let found = store.webhook_endpoints().with_secrets(endpoint.id).await;
    let previous = found.unwrap().unwrap().previous_secret.unwrap();
    assert_eq!(previous.secret.reveal(), "whsec_old");
}
