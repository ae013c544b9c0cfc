//! Shared fixtures of the store's tests: a store in a folder, a project, a room, a participant.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;

use conclave_db::{
    CommitHook, Location, NewIngress, NewRoom, OlderSchema, PostgresOptions, PostgresServer, Store,
    StoreError, StoreMetrics, StoreOptions, Vault,
};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::participant::{Participant, ParticipantKind, ParticipantState};
use conclave_model::project::Environment;
use conclave_model::room::Room;
use conclave_model::{Clock, ErrorCode, ProjectId, Secret, Timestamp};
use tempfile::TempDir;
use test_postgres::Records;

/// Clock for a test that does not concern days.
pub fn clock() -> Clock {
    Clock::manual(Timestamp::from_millis(1_700_000_000_000))
}

/// Folder for a store's encryption keys and records. Several stores can be opened there.
pub struct Home {
    folder: TempDir,
    pub records: Records,
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            records: Records::create(folder.path().join("conclave.db"), migrate),
            folder,
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Creates the schema in an empty database.
fn migrate(url: &str) {
    open_at(at_server(url), None, &clock(), Box::new(|_| {})).close();
}

fn location(records: &Records) -> Location {
    match records {
        Records::File(path) => Location::File(path.clone()),
        Records::Server(database) => at_server(&database.url()),
    }
}

/// Store of a command in a PostgreSQL database, which needs no epoch.
pub fn at_server(url: &str) -> Location {
    let server = PostgresServer::new(&Secret::new(url), None).unwrap();
    Location::Server(PostgresOptions {
        server,
        lanes: 2,
        readers: 2,
        epoch: None,
    })
}

/// Opens a store with the encryption key in this file.
pub fn open(home: &Home, key: Option<&str>, clock: &Clock, on_commit: CommitHook) -> Store {
    let key = key.map(|name| home.path().join(name));
    open_at(location(&home.records), key.as_deref(), clock, on_commit)
}

/// Opens a store at a location.
pub fn open_at(
    location: Location,
    key: Option<&Path>,
    clock: &Clock,
    on_commit: CommitHook,
) -> Store {
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

/// Attempts to create a project. Each takes seconds if the database is unreachable.
const CREATION_TRIES: u32 = 10;

/// Creates a project without limits. This is when a store connects to PostgreSQL, which may take a busy machine longer than the store
/// waits; then a later attempt succeeds.
pub async fn create_project(store: &Store) -> ProjectId {
    for _ in 0..CREATION_TRIES {
        match store
            .projects()
            .create("p".into(), Environment::Test, "self_hosted".into())
            .await
        {
            Err(StoreError::Unavailable(_)) => {}
            created => return created.unwrap().id,
        }
    }
    panic!("the store does not connect to its database");
}

/// Room that ends after a minute without participants.
pub fn new_room(project: &ProjectId, name: &str) -> NewRoom {
    NewRoom {
        project_id: project.clone(),
        name: name.parse().unwrap(),
        max_participants: 0,
        empty_timeout_seconds: 60,
        max_duration: None,
        metadata: None,
        template_id: None,
    }
}

/// Creates a room, and waits for it.
pub async fn create_room(
    store: &Store,
    new: NewRoom,
    recorder: Option<ResponseRecorder<Room>>,
) -> Result<Room, StoreError> {
    let (done, created) = tokio::sync::oneshot::channel();
    store
        .rooms()
        .create(new, recorder, move |room| done.send(room).unwrap());
    created.await.unwrap()
}

/// RTMP endpoint of a room.
pub fn new_ingress(room: &Room) -> NewIngress {
    NewIngress {
        project_id: room.project_id.clone(),
        room: room.id,
        ingress_id: "IN_1".parse().unwrap(),
        input_type: InputType::Rtmp,
        participant_identity: "encoder".parse().unwrap(),
        participant_name: None,
        url: "rtmp://localhost/live/REDACTED".into(),
        key_hash: StreamKeyHash::from_key("key"),
    }
}

/// Participant that publishes nothing.
pub fn participant(identity: &str, sid: &str) -> Participant {
    Participant {
        sid: sid.parse().unwrap(),
        identity: identity.parse().unwrap(),
        name: String::new(),
        state: ParticipantState::Active,
        kind: ParticipantKind::Standard,
        metadata: String::new(),
        attributes: BTreeMap::new(),
        is_publisher: false,
        joined_at: None,
        tracks: vec![],
    }
}

/// Returns a refusal's code and field.
pub fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>) -> (ErrorCode, Option<String>) {
    match result {
        Err(StoreError::Refused(problem)) => (problem.code, problem.field.map(Into::into)),
        other => panic!("expected a refusal, got {other:?}"),
    }
}
