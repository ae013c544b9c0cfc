//! Round trips per write, which are its duration if the database is on another machine.

use conclave_db::Store;
use conclave_model::event::Departure;
use conclave_model::{ParticipantSid, ProjectId, RoomId, Secret};

use super::support::{clock, create_project, create_room, new_room, participant};
use super::{cluster, open};

/// Project with a webhook endpoint, whose statements its writer session has prepared.
async fn project(store: &Store) -> ProjectId {
    let project = create_project(store).await;
    let endpoint = store.webhook_endpoints().create(
        project.clone(),
        "https://a.example".into(),
        Secret::new("s"),
        None,
    );
    endpoint.await.unwrap();
    let room = create_room(store, new_room(&project, "first"), None)
        .await
        .unwrap()
        .id;
    join(store, &project, room, "ada").await;
    join(store, &project, room, "bob").await;
    leave(store, &project, room, "ada").await;
    store.rooms().end(project.clone(), room).await.unwrap();
    project
}

fn sid(identity: &str) -> ParticipantSid {
    format!("PA_{identity}").parse().unwrap()
}

async fn join(store: &Store, project: &ProjectId, room: RoomId, identity: &str) {
    let joined = participant(identity, sid(identity).as_str());
    store
        .sessions()
        .record_join(project.clone(), room, joined, clock().now())
        .await
        .unwrap();
}

async fn leave(store: &Store, project: &ProjectId, room: RoomId, identity: &str) {
    let left = store.sessions().record_leave(
        project.clone(),
        room,
        sid(identity),
        clock().now(),
        Departure::Left,
    );
    left.await.unwrap();
}

#[actix::test]
async fn a_write_waits_a_few_times_only() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    // As a server: there is no wait for the fence.
    let records = open(&database, cluster.address(), Some(0));
    let store = &records.store;
    let project = project(store).await;
    let mut before = records.round_trips();
    let mut since = |what: &str, expected: u64| {
        let now = records.round_trips();
        let waits = now - before;
        before = now;
        assert_eq!(waits, expected, "round trips of {what}");
    };
    let room = create_room(store, new_room(&project, "counted"), None)
        .await
        .unwrap()
        .id;
    since("a create", 2);
    join(store, &project, room, "ada").await;
    since("the first join", 4);
    join(store, &project, room, "bob").await;
    since("a join", 4);
    leave(store, &project, room, "bob").await;
    since("a leave", 4);
}

#[actix::test]
async fn the_end_of_a_room_does_not_wait_for_each_participant() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let records = open(&database, cluster.address(), None);
    let store = &records.store;
    let project = project(store).await;
    let room = create_room(store, new_room(&project, "large"), None)
        .await
        .unwrap()
        .id;
    for number in 0..1_000 {
        join(store, &project, room, &format!("p{number}")).await;
    }
    let before = records.round_trips();
    store.rooms().end(project.clone(), room).await.unwrap();
    let waits = records.round_trips() - before;
    assert!(waits < 20, "{waits} round trips");
    assert!(
        store
            .server()
            .live_records(project)
            .await
            .unwrap()
            .rooms
            .is_empty()
    );
}
