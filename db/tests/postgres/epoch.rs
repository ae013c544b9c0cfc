//! A server's epoch: after a takeover, nothing is written in the old one.

use std::time::Duration;

use conclave_db::{StoreError, WriterStop};
use tokio::time::timeout;

use super::support::{create_project, create_room, new_room};
use super::{cluster, open};

/// Far longer than needed on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

#[actix::test]
async fn a_server_whose_epoch_is_over_writes_nothing_more_and_its_writer_ends() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let old = open(&database, cluster.address(), Some(0)).store;
    let project = create_project(&old).await;
    create_room(&old, new_room(&project, "before"), None)
        .await
        .unwrap();
    database.run("UPDATE leadership SET epoch = epoch + 1");
    let refused = create_room(&old, new_room(&project, "after"), None).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert_eq!(
        timeout(WAIT_LIMIT, old.writer_ended())
            .await
            .expect("the writer ends"),
        WriterStop::TakenOver
    );
    // A job whose statements are all sent together. It belongs to no project, so it has another
    // writer session.
    assert!(old.server().renew_heartbeat().await.is_err());
    assert_eq!(
        database
            .run("SELECT string_agg(name, ' ') FROM rooms")
            .trim(),
        "before"
    );
    assert_eq!(database.run("SELECT count(*) FROM heartbeat").trim(), "0");
    let new = open(&database, cluster.address(), Some(1)).store;
    create_room(&new, new_room(&project, "after"), None)
        .await
        .unwrap();
}

#[actix::test]
async fn a_server_that_wakes_up_after_a_takeover_disturbs_no_lane_of_the_new_one() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    // None of its writer sessions has written yet.
    let old = open(&database, cluster.address(), Some(0)).store;
    database.run("UPDATE leadership SET epoch = epoch + 1");
    let new = open(&database, cluster.address(), Some(1)).store;
    let mut projects = Vec::new();
    for _ in 0..8 {
        projects.push(create_project(&new).await);
    }
    for project in &projects {
        create_room(&new, new_room(project, "first"), None)
            .await
            .unwrap();
    }
    for project in &projects {
        let refused = create_room(&old, new_room(project, "late"), None).await;
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
    }
    for project in &projects {
        create_room(&new, new_room(project, "second"), None)
            .await
            .unwrap();
    }
}

#[actix::test]
async fn a_takeover_waits_for_the_transactions_of_the_old_epoch() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let old = open(&database, cluster.address(), Some(0)).store;
    let project = create_project(&old).await;
    // The job has checked its epoch before it waits for the table.
    let lock = database.lock("rooms");
    let writing = tokio::spawn({
        let (old, room) = (old.clone(), new_room(&project, "during"));
        async move { create_room(&old, room, None).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    timeout(WAIT_LIMIT, async {
        while database.run(waits).trim() == "0" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the job waits for the table");
    let free = "SELECT count(*) FROM (SELECT 1 FROM leadership WHERE id = 1 FOR UPDATE SKIP LOCKED) AS free";
    assert_eq!(
        database.run(free).trim(),
        "0",
        "another server could take over"
    );
    drop(lock);
    let room = writing.await.unwrap();
    assert!(room.is_ok(), "{room:?}");
    assert_eq!(database.run(free).trim(), "1");
}

/// Makes the database forget the last commits of some writer sessions, like a failover to a standby
/// that lacked them.
fn set_back(database: &test_postgres::Database<'_>, lanes: &str) {
    let changed = format!(
        "WITH back AS (UPDATE lanes SET job = '00000000-0000-7000-8000-000000000000' WHERE lane {lanes} RETURNING 1)
         SELECT count(*) > 0 FROM back"
    );
    assert_eq!(database.run(&changed).trim(), "t");
}

/// Proves F-7.
#[actix::test]
async fn a_server_whose_commits_are_gone_writes_nothing_more_and_says_why() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let store = open(&database, cluster.address(), Some(0)).store;
    let project = create_project(&store).await;
    create_room(&store, new_room(&project, "before"), None)
        .await
        .unwrap();
    set_back(&database, ">= 0");
    let refused = create_room(&store, new_room(&project, "after"), None).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    let end = timeout(WAIT_LIMIT, store.writer_ended())
        .await
        .expect("the writer ends");
    assert_eq!(end, WriterStop::CommitsLost);
    assert_eq!(
        database
            .run("SELECT string_agg(name, ' ') FROM rooms")
            .trim(),
        "before"
    );
}

/// Proves F-7.
#[actix::test]
async fn lost_commits_are_found_by_a_lane_that_has_none_of_them() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let store = open(&database, cluster.address(), Some(0)).store;
    let project = create_project(&store).await;
    create_room(&store, new_room(&project, "before"), None)
        .await
        .unwrap();
    store.server().begin_run().await.unwrap();
    // Except for the heartbeat's session, which is the last.
    set_back(&database, "< 2");
    assert!(
        store.server().renew_heartbeat().await.is_ok(),
        "its own commits are there, and so is its connection"
    );
    database.end_sessions();
    timeout(WAIT_LIMIT, async {
        loop {
            // The first writes may find that their connection is lost.
            let _ = store.server().renew_heartbeat().await;
            tokio::select! {
                end = store.writer_ended() => return assert_eq!(end, WriterStop::CommitsLost),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    })
    .await
    .expect("the writer ends");
}

/// Proves F-7.
#[actix::test]
async fn an_epoch_that_the_database_has_forgotten_is_no_takeover() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    drop(open(&database, cluster.address(), Some(0)));
    database.run("UPDATE leadership SET epoch = 5");
    let store = open(&database, cluster.address(), Some(5)).store;
    let project = create_project(&store).await;
    database.run("UPDATE leadership SET epoch = 4");
    assert!(
        create_room(&store, new_room(&project, "after"), None)
            .await
            .is_err()
    );
    let end = timeout(WAIT_LIMIT, store.writer_ended())
        .await
        .expect("the writer ends");
    assert_eq!(end, WriterStop::CommitsLost);
}
