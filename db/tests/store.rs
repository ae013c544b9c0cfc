//! The store through its public interface, on a real file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_db::{
    CommittedEvent, CreatedApiKey, LogRetention, NewIngress, NewRoleChange, NewRoom, NewTemplate,
    RoomFilter, SNAPSHOT_AGE, Store, StoreError,
};
use conclave_model::bounded::MaxDuration;
use conclave_model::event::{ChangedBy, Departure};
use conclave_model::idempotency::{IdempotencyRecord, IdempotencySlot, Response, ResponseRecorder};
use conclave_model::ingress::{IngressState, IngressStatus};
use conclave_model::key::ApiKeyLookup;
use conclave_model::page::PageRequest;
use conclave_model::role::RoleInput;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::template::Region;
use conclave_model::usage::Day;
use conclave_model::webhook::{Attempt, AttemptOutcome, DeliveryStatus};
use conclave_model::{Clock, ErrorCode, ProjectId, Secret};
use support::{
    Home, clock, create_project, create_room, new_ingress, new_room, participant, refused,
};
use test_postgres::Engine;

type Reported = Arc<Mutex<Vec<CommittedEvent>>>;

/// Opens a store, and collects the events that it passes to the commit hook.
fn open(home: &Home, clock: &Clock) -> (Store, Reported) {
    let reported = Reported::default();
    let on_commit = {
        let reported = Arc::clone(&reported);
        Box::new(move |events: &[CommittedEvent]| {
            reported.lock().unwrap().extend_from_slice(events);
        })
    };
    (
        support::open(home, Some("encryption.key"), clock, on_commit),
        reported,
    )
}

fn types(reported: &Reported) -> Vec<&'static str> {
    reported
        .lock()
        .unwrap()
        .iter()
        .map(|event| event.event_type)
        .collect()
}

fn code<T: std::fmt::Debug>(result: Result<T, StoreError>) -> ErrorCode {
    refused(result).0
}

#[actix::test]
async fn a_name_is_used_once_and_a_refusal_leaves_its_neighbours_in_the_batch_alone() {
    let home = Home::new();
    let (store, _) = open(&home, &clock());
    let project = create_project(&store).await;
    let (a, b, c) = tokio::join!(
        create_room(&store, new_room(&project, "a"), None),
        create_room(&store, new_room(&project, "a"), None),
        create_room(&store, new_room(&project, "b"), None),
    );
    assert!(a.is_ok() && c.is_ok());
    assert_eq!(code(b), ErrorCode::RoomExists);
    let page = store
        .rooms()
        .list(project, RoomFilter::default(), PageRequest::default())
        .await
        .unwrap();
    assert_eq!(page.items.len(), 2);
}

/// Proves R-21.
#[actix::test]
async fn a_command_that_ends_beside_a_long_read_does_not_hold_up_writers() {
    if Engine::Sqlite.is_not_chosen("a command empties the log of the file at its end") {
        return;
    }
    let home = Home::new();
    let command = support::open(&home, Some("encryption.key"), &clock(), Box::new(|_| {}));
    let connection = || rusqlite::Connection::open(home.path().join("conclave.db")).unwrap();
    let (reader, writer) = (connection(), connection());
    // Less than the time for which a command waits for others (5 s), and more than it needs otherwise, also on a busy machine.
    writer.busy_timeout(Duration::from_secs(3)).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM projects")
        .unwrap();
    create_project(&command).await;
    let closed = std::thread::spawn(move || command.close());
    loop {
        // If the end waited for the reader, it would keep the write lock meanwhile.
        writer.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
        if closed.is_finished() {
            break;
        }
    }
    closed.join().unwrap();
}

/// Proves R-2.
#[actix::test]
async fn a_join_and_a_leave_move_the_deadline_and_are_told_after_the_commit() {
    let (home, clock) = (Home::new(), clock());
    let (store, reported) = open(&home, &clock);
    let project = create_project(&store).await;
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    assert_eq!(
        room.empty_deadline,
        Some(clock.now().after(Duration::from_secs(60)))
    );

    let joined = store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();
    assert_eq!(
        (joined.room.empty_deadline, joined.participants.len()),
        (None, 1)
    );
    let again = store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();
    assert_eq!(again.participants.len(), 1);

    clock.advance(Duration::from_secs(5));
    let left = store
        .sessions()
        .record_leave(
            project.clone(),
            room.id,
            "PA_1".parse().unwrap(),
            clock.now(),
            Departure::Left,
        )
        .await
        .unwrap();
    assert_eq!(
        left.room.empty_deadline,
        Some(clock.now().after(Duration::from_secs(60)))
    );
    assert_eq!(
        types(&reported),
        ["room.started", "participant.joined", "participant.left"]
    );
}

#[actix::test]
async fn an_identity_that_comes_again_closes_the_session_whose_leave_was_lost() {
    let (home, clock) = (Home::new(), clock());
    let (store, reported) = open(&home, &clock);
    let project = create_project(&store).await;
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();
    let joined = store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_2"),
            clock.now(),
        )
        .await
        .unwrap();
    assert_eq!(joined.participants.len(), 1);
    let late = store
        .sessions()
        .record_leave(
            project.clone(),
            room.id,
            "PA_1".parse().unwrap(),
            clock.now(),
            Departure::Left,
        )
        .await
        .unwrap();
    assert_eq!(
        (late.participants.len(), late.room.empty_deadline),
        (1, None)
    );
    let expected = [
        "room.started",
        "participant.joined",
        "participant.connection_aborted",
        "participant.joined",
    ];
    assert_eq!(types(&reported), expected);
}

#[actix::test]
async fn a_session_that_was_closed_by_mistake_is_reopened_and_its_time_counts_once() {
    let (home, clock) = (Home::new(), clock());
    let (store, reported) = open(&home, &clock);
    let project = create_project(&store).await;
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    let alice = || participant("alice", "PA_1");
    store
        .sessions()
        .record_join(project.clone(), room.id, alice(), clock.now())
        .await
        .unwrap();
    clock.advance(Duration::from_secs(30));
    let closed_at = clock.now();
    store
        .sessions()
        .record_lost(project.clone(), room.id, vec![alice().sid], closed_at)
        .await
        .unwrap();
    clock.advance(Duration::from_secs(30));
    let earlier = closed_at.before(Duration::from_secs(1));
    let closed = store
        .sessions()
        .record_return(project.clone(), room.id, alice(), earlier)
        .await
        .unwrap();
    assert!(
        closed.participants.is_empty() && closed.room.empty_deadline.is_some(),
        "the session was closed after that time"
    );
    for _ in 0..2 {
        let open = store
            .sessions()
            .record_return(project.clone(), room.id, alice(), closed_at)
            .await
            .unwrap();
        assert_eq!(
            (open.participants.len(), open.room.empty_deadline),
            (1, None)
        );
    }
    clock.advance(Duration::from_secs(60));
    store
        .sessions()
        .record_leave(
            project.clone(),
            room.id,
            alice().sid,
            clock.now(),
            Departure::Left,
        )
        .await
        .unwrap();
    let (joined, aborted) = ("participant.joined", "participant.connection_aborted");
    assert_eq!(
        types(&reported),
        ["room.started", joined, aborted, joined, "participant.left"]
    );
    let today = Day::from(clock.now());
    let days = store.usage().days(project, today, today).await.unwrap();
    assert_eq!(
        (days[0].participant_time, days[0].sessions),
        (Duration::from_secs(120), 1)
    );
}

#[actix::test]
async fn ending_a_room_closes_what_is_open_in_it_and_is_told_once() {
    let (home, clock) = (Home::new(), clock());
    let (store, reported) = open(&home, &clock);
    let project = create_project(&store).await;
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();
    let ended = store.rooms().end(project.clone(), room.id).await.unwrap();
    assert_eq!(
        (ended.status, ended.empty_deadline),
        (RoomStatus::Ended, None)
    );
    store.rooms().end(project.clone(), room.id).await.unwrap();
    assert_eq!(
        types(&reported),
        [
            "room.started",
            "participant.joined",
            "participant.left",
            "room.finished"
        ]
    );
    assert_eq!(
        code(
            store
                .sessions()
                .record_join(
                    project.clone(),
                    room.id,
                    participant("bob", "PA_2"),
                    clock.now()
                )
                .await
        ),
        ErrorCode::RoomEnded
    );
}

#[actix::test]
async fn the_number_of_open_rooms_follows_creations_and_ends() {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let (project, other) = (create_project(&store).await, create_project(&store).await);
    let open_rooms = async |project: &ProjectId| {
        store
            .usage()
            .month_use(project.clone())
            .await
            .unwrap()
            .active_rooms
    };
    let first = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    create_room(&store, new_room(&project, "b"), None)
        .await
        .unwrap();
    assert_eq!(
        code(create_room(&store, new_room(&project, "a"), None).await),
        ErrorCode::RoomExists
    );
    assert_eq!(
        (open_rooms(&project).await, open_rooms(&other).await),
        (2, 0)
    );
    for _ in 0..2 {
        store.rooms().end(project.clone(), first.id).await.unwrap();
        assert_eq!(open_rooms(&project).await, 1);
    }
}

#[actix::test]
async fn an_answer_is_kept_with_its_change_and_outlives_the_store() {
    let (home, clock) = (Home::new(), clock());
    let slot;
    {
        let (store, _) = open(&home, &clock);
        let project = create_project(&store).await;
        slot = IdempotencySlot {
            project_id: project.clone(),
            operation: "create_room",
            key: "k".parse().unwrap(),
            refused: None,
        };
        let record = IdempotencyRecord::new(slot.clone(), [7; 32], true);
        let render = |room: &Room| Response {
            code: 201,
            body: room.name.as_str().as_bytes().to_vec(),
        };
        let recorder = ResponseRecorder {
            record: record.clone(),
            render,
        };
        create_room(&store, new_room(&project, "a"), Some(recorder))
            .await
            .unwrap();
        assert!(record.is_stored());
        store.close();
    }
    let (store, _) = open(&home, &clock);
    let kept = store.responses().find(slot.clone()).await.unwrap().unwrap();
    assert_eq!(
        (kept.fingerprint, kept.response.body.as_slice()),
        ([7; 32], b"a".as_slice())
    );
    clock.advance(Duration::from_secs(24 * 3_600));
    assert!(store.responses().find(slot).await.unwrap().is_none());
    assert_eq!(
        store
            .server()
            .delete_expired(LogRetention {
                deliveries: Duration::from_secs(1),
                events: Duration::from_secs(1),
            })
            .await
            .unwrap(),
        1
    );
}

#[actix::test]
async fn a_delivery_fails_is_retried_by_hand_and_is_dropped_with_its_endpoint() {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let project = create_project(&store).await;
    let endpoint = store
        .webhook_endpoints()
        .create(
            project.clone(),
            "http://example.com/".into(),
            Secret::new("whsec_x"),
            None,
        )
        .await
        .unwrap();
    assert_eq!(
        store
            .webhook_endpoints()
            .with_secrets(endpoint.id)
            .await
            .unwrap()
            .unwrap()
            .secret
            .reveal(),
        "whsec_x"
    );
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();

    let due = store
        .deliveries()
        .due(project.clone(), endpoint.id, clock.now(), 50)
        .await
        .unwrap();
    let names: Vec<_> = due.iter().map(|d| d.event_type.as_str()).collect();
    assert_eq!(names, ["room.started", "participant.joined"]);
    let failed = Attempt {
        project_id: project.clone(),
        endpoint_id: endpoint.id,
        delivery_id: due[0].id,
        url: endpoint.url.clone(),
        number: 5,
        due: due[0].due,
        at: clock.now(),
        outcome: AttemptOutcome {
            response_status: Some(500),
            error: Some("the receiver answered 500".into()),
            timed_out: false,
        },
        retry_at: None,
    };
    assert_eq!(
        code(
            store
                .deliveries()
                .retry(project.clone(), due[0].id, None)
                .await
        ),
        ErrorCode::DeliveryNotRetryable
    );
    store.deliveries().record_attempt(failed).await.unwrap();
    let retried = store
        .deliveries()
        .retry(project.clone(), due[0].id, None)
        .await
        .unwrap();
    assert_eq!(
        (retried.status, retried.attempts),
        (DeliveryStatus::Pending, 0)
    );

    store
        .webhook_endpoints()
        .delete(project.clone(), endpoint.id)
        .await
        .unwrap();
    let left = store
        .deliveries()
        .list(
            project,
            conclave_db::DeliveryFilter::default(),
            PageRequest::default(),
        )
        .await;
    assert!(left.unwrap().items.is_empty());
}

#[actix::test]
async fn the_deliveries_of_a_deleted_endpoint_are_purged_in_small_steps_so_that_no_write_waits_for_all()
 {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let project = create_project(&store).await;
    let url = "http://example.com/".to_owned();
    let endpoint = store
        .webhook_endpoints()
        .create(project.clone(), url, Secret::new("whsec_x"), None)
        .await
        .unwrap();
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    store
        .sessions()
        .record_join(
            project.clone(),
            room.id,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();
    let id = home.records.random_id();
    let many = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1198)
         INSERT INTO webhook_deliveries
             (id, project_id, endpoint_id, endpoint_url, event_id, event_type, status, next_attempt_at, created_at)
         SELECT {id}, project_id, endpoint_id, endpoint_url, event_id, event_type, 'pending', created_at,
                created_at
         FROM (SELECT * FROM webhook_deliveries LIMIT 1) AS one, n",
    );
    home.records.run(&many);
    store
        .webhook_endpoints()
        .delete(project, endpoint.id)
        .await
        .unwrap();
    for deleted in [500, 500, 200, 1, 0] {
        assert_eq!(
            store.webhook_endpoints().purge_deleted().await.unwrap(),
            deleted
        );
    }
}

#[actix::test]
async fn an_ingress_is_registered_once_and_what_is_final_of_it_stays() {
    use IngressStatus as S;
    let (home, clock) = (Home::new(), clock());
    let (store, reported) = open(&home, &clock);
    let project = create_project(&store).await;
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    let new = new_ingress(&room);
    store.ingresses().create(new.clone()).await.unwrap();
    assert_eq!(
        code(store.ingresses().create(new.clone()).await),
        ErrorCode::IngressExists
    );
    let say = |status, error: Option<&str>| {
        let said = IngressState {
            ingress_id: new.ingress_id.clone(),
            status,
            error: error.map(str::to_owned),
        };
        store.ingresses().record(project.clone(), said, clock.now())
    };
    for status in [
        S::Buffering,
        S::Error,
        S::Publishing,
        S::Publishing,
        S::Error,
        S::Error,
        S::Inactive,
    ] {
        say(status, None).await.unwrap();
    }
    say(S::Publishing, None).await.unwrap();
    let failed = say(S::Error, Some("no picture")).await.unwrap();
    assert_eq!(
        (failed.status, failed.error.as_deref()),
        (S::Error, Some("no picture"))
    );
    assert_eq!(
        types(&reported),
        ["ingress.started", "ingress.ended"].repeat(2)
    );
    say(S::Publishing, None).await.unwrap();
    store.rooms().end(project.clone(), room.id).await.unwrap();
    assert_eq!(
        types(&reported)[4..],
        ["ingress.started", "ingress.ended", "room.finished"]
    );
    assert_eq!(say(S::Publishing, None).await.unwrap().status, S::Complete);
    assert!(
        store
            .server()
            .live_records(project.clone())
            .await
            .unwrap()
            .ingresses
            .is_empty()
    );
    let deleted = store
        .ingresses()
        .delete(project.clone(), new.ingress_id.clone())
        .await
        .unwrap();
    assert_eq!(
        (deleted.status, deleted.deleted_at),
        (S::Deleted, Some(clock.now()))
    );
    let late = NewIngress {
        ingress_id: "IN_2".parse().unwrap(),
        ..new.clone()
    };
    assert_eq!(
        code(store.ingresses().create(late).await),
        ErrorCode::RoomEnded
    );
    assert_eq!(types(&reported).len(), 7);
}

#[actix::test]
async fn a_backup_opens_and_holds_what_was_there() {
    if Engine::Sqlite.is_not_chosen("pg_dump makes the backups of the other") {
        return;
    }
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let project = create_project(&store).await;
    let copy = Home::new();
    std::fs::copy(
        home.path().join("encryption.key"),
        copy.path().join("encryption.key"),
    )
    .unwrap();
    store
        .backups()
        .create(copy.path().join("conclave.db"))
        .await
        .unwrap();
    assert!(
        store
            .backups()
            .create(copy.path().join("conclave.db"))
            .await
            .is_err(),
        "an existing file is never overwritten"
    );
    let (restored, _) = open(&copy, &clock);
    assert_eq!(
        restored.server().check().await.unwrap(),
        restored.server().schema()
    );
    assert!(restored.projects().get(project).await.unwrap().is_some());
}

#[actix::test]
async fn a_remembered_key_is_forgotten_with_any_commit_also_of_another_process() {
    let home = Home::new();
    let ((store, _), (other, _)) = (open(&home, &clock()), open(&home, &clock()));
    let project = create_project(&store).await;
    let CreatedApiKey { record, key } = store
        .api_keys()
        .create(project.clone(), "label".into())
        .await
        .unwrap();
    for _ in 0..3 {
        assert!(
            !store
                .api_keys()
                .authenticate(key.lookup())
                .await
                .unwrap()
                .unwrap()
                .revoked
        );
    }
    // Another key with the same prefix is another key, even while the prefix is remembered.
    let text = key.reveal();
    let last = if text.ends_with('a') { "b" } else { "a" };
    let similar = format!("{}{last}", &text[..text.len() - 1])
        .parse::<ApiKeyLookup>()
        .unwrap();
    assert!(
        store
            .api_keys()
            .authenticate(similar)
            .await
            .unwrap()
            .is_none()
    );
    other.api_keys().revoke(record.prefix).await.unwrap();
    // As a command does before it exits: a running server may read older state for this long.
    tokio::time::sleep(2 * SNAPSHOT_AGE).await;
    assert!(
        store
            .api_keys()
            .authenticate(key.lookup())
            .await
            .unwrap()
            .unwrap()
            .revoked
    );
}

/// Inputs of a token, and the parts that other commits change.
#[derive(Debug, PartialEq)]
struct SeenByToken {
    status: RoomStatus,
    is_hidden: bool,
    count: u32,
}

#[actix::test]
async fn a_remembered_room_and_its_role_are_forgotten_with_any_commit_also_of_another_process() {
    let home = Home::new();
    let ((store, _), (other, _)) = (open(&home, &clock()), open(&home, &clock()));
    let project = create_project(&store).await;
    let role = |is_hidden| {
        let input = RoleInput {
            hidden: Some(is_hidden),
            ..RoleInput::default()
        };
        input.with_defaults("host".parse().unwrap()).unwrap()
    };
    let template = NewTemplate {
        project_id: project.clone(),
        name: "t".parse().unwrap(),
        region: Region::Auto,
        auto_record: None,
        max_duration: MaxDuration::known(0),
        roles: [("host".parse().unwrap(), role(false))].into(),
    };
    let template = store.templates().create(template, None).await.unwrap().id;
    let new = NewRoom {
        template_id: Some(template.clone()),
        ..new_room(&project, "r")
    };
    let room = create_room(&store, new, None).await.unwrap();
    let seen = async || {
        let [role, identity] = ["host", "alice"];
        let (name, role) = (room.name.clone(), Some(role.parse().unwrap()));
        let context =
            store
                .rooms()
                .token_context(project.clone(), name, role, identity.parse().unwrap());
        let context = context.await.unwrap();
        SeenByToken {
            status: context.room.status,
            is_hidden: context.role.unwrap().hidden,
            count: context.participant_count,
        }
    };
    let expected = |status, is_hidden, count| SeenByToken {
        status,
        is_hidden,
        count,
    };
    let put = async |store: &Store, is_hidden| {
        let (project, template) = (project.clone(), template.clone());
        let put = store
            .templates()
            .put_role(project, template, role(is_hidden));
        assert!(!put.await.unwrap().is_new);
    };
    for _ in 0..3 {
        assert_eq!(seen().await, expected(RoomStatus::Open, false, 0));
    }
    put(&store, true).await;
    assert_eq!(seen().await, expected(RoomStatus::Open, true, 0));
    let (joined, now) = (participant("bob", "PA_1"), clock().now());
    let join = store
        .sessions()
        .record_join(project.clone(), room.id, joined, now);
    join.await.unwrap();
    assert_eq!(seen().await, expected(RoomStatus::Open, true, 1));
    put(&other, false).await;
    // As a command does before it exits.
    tokio::time::sleep(2 * SNAPSHOT_AGE).await;
    assert_eq!(seen().await, expected(RoomStatus::Open, false, 1));
    store.rooms().end(project.clone(), room.id).await.unwrap();
    assert_eq!(seen().await, expected(RoomStatus::Ended, false, 0));
    let get = store.rooms().get(project.clone(), room.name.clone());
    assert_eq!(get.await.unwrap().status, RoomStatus::Ended);
}

#[actix::test]
async fn a_wrong_number_of_open_rooms_keeps_no_room_from_ending_and_is_counted_anew_at_the_start() {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let (project, other) = (create_project(&store).await, create_project(&store).await);
    let open_rooms = async |project: &ProjectId| {
        store
            .usage()
            .month_use(project.clone())
            .await
            .unwrap()
            .active_rooms
    };
    let first = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap();
    for name in ["b", "c"] {
        create_room(&store, new_room(&project, name), None)
            .await
            .unwrap();
    }
    home.records.run(&format!(
        "UPDATE projects SET open_rooms = CASE WHEN id = '{project}' THEN 0 ELSE 7 END"
    ));
    store.rooms().end(project.clone(), first.id).await.unwrap();
    assert_eq!(
        (open_rooms(&project).await, open_rooms(&other).await),
        (0, 7)
    );
    store.server().begin_run().await.unwrap();
    assert_eq!(
        (open_rooms(&project).await, open_rooms(&other).await),
        (2, 0)
    );
}

#[actix::test]
async fn two_erasures_at_once_both_change_the_events_that_name_both_identities() {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let project = create_project(&store).await;
    let room = create_room(&store, new_room(&project, "standup"), None)
        .await
        .unwrap();
    let alice = participant("alice", "PA_1");
    store
        .sessions()
        .record_join(project.clone(), room.id, alice.clone(), clock.now())
        .await
        .unwrap();
    for _ in 0..20 {
        let change = NewRoleChange {
            project_id: project.clone(),
            room: room.id,
            role: "host".parse().unwrap(),
            participant: alice.clone(),
            by: ChangedBy::Identity("bob".parse().unwrap()),
        };
        store.role_changes().record(change, None).await.unwrap();
    }
    let begin = async |identity: &str| {
        let identity = identity.parse().unwrap();
        store.erasures().begin(project.clone(), identity).await
    };
    let (first, second) = (begin("alice").await.unwrap(), begin("bob").await.unwrap());
    let erased = tokio::join!(
        store.erasures().erase_rows(&first),
        store.erasures().erase_rows(&second)
    );
    // The join, and the role changes.
    assert_eq!(
        (erased.0.unwrap().events, erased.1.unwrap().events),
        (21, 20)
    );
    let events = store.events().after(project, 0, 100).await.unwrap().events;
    for event in events {
        assert!(
            !event.payload.contains("alice") && !event.payload.contains("bob"),
            "{}",
            event.payload
        );
    }
}

#[actix::test]
async fn a_late_repetition_of_an_erasure_does_not_complete_the_next_one_of_the_identity() {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let project = create_project(&store).await;
    let begin = async || {
        let identity = "alice".parse().unwrap();
        let begun = store.erasures().begin(project.clone(), identity).await;
        begun.unwrap()
    };
    // A request and its repetition.
    let (first, repeated) = (begin().await, begin().await);
    assert_eq!(first, repeated);
    store.erasures().complete(first).await.unwrap();
    let next = begin().await;
    store.erasures().complete(repeated).await.unwrap();
    let pending = || store.erasures().pending(clock.now(), 10);
    assert_eq!(pending().await.unwrap(), slice::from_ref(&next));
    store.erasures().complete(next).await.unwrap();
    assert!(pending().await.unwrap().is_empty());
}

#[actix::test]
async fn a_room_that_opens_after_a_removal_has_begun_is_not_deleted_while_it_is_open() {
    let (home, clock) = (Home::new(), clock());
    let (store, _) = open(&home, &clock);
    let project = create_project(&store).await;
    store.removals().begin(project.clone()).await.unwrap();
    // By a request that was authenticated before.
    let room = create_room(&store, new_room(&project, "late"), None)
        .await
        .unwrap();
    let delete = || store.removals().delete_some(project.clone());
    assert_eq!(refused(delete().await).0, ErrorCode::InvalidRequest);
    store.rooms().end(project.clone(), room.id).await.unwrap();
    while delete().await.unwrap().is_some() {}
    assert!(
        store
            .projects()
            .get(project.clone())
            .await
            .unwrap()
            .is_none()
    );
}
