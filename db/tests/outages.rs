//! Lost connections to PostgreSQL: known and unknown commits, and the recovery of reads and writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::{Duration, Instant};

use conclave_db::{RoomFilter, Store, StoreError};
use conclave_model::page::PageRequest;
use conclave_model::{ErrorCode, ProjectId};
use support::{Home, at_server, clock, create_project, create_room, new_room, open_at, refused};
use test_postgres::{Cluster, Cut, Engine, Proxy, Records};

/// Far longer than a store needs to reconnect on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Store behind a proxy, with a project.
struct Fixture {
    store: Store,
    project: ProjectId,
    proxy: Proxy,
    home: Home,
}

impl Fixture {
    /// None if the records are in a file.
    async fn new() -> Option<Self> {
        if Engine::Postgres.is_not_chosen("there is no connection to a file") {
            return None;
        }
        let (home, proxy) = (Home::new(), Proxy::start(Cluster::shared().address()));
        let Records::Server(database) = &home.records else {
            panic!("a database of PostgreSQL")
        };
        let url = database.url_at(proxy.address());
        let store = open_at(
            at_server(&url),
            Some(&home.path().join("key")),
            &clock(),
            Box::new(|_| {}),
        );
        let project = create_project(&store).await;
        Some(Self {
            store,
            project,
            proxy,
            home,
        })
    }

    async fn create(&self, name: &str) -> Result<(), StoreError> {
        create_room(&self.store, new_room(&self.project, name), None)
            .await
            .map(|_| ())
    }

    /// Creates a room as soon as the store can.
    async fn create_eventually(&self, name: &str) {
        let begun = Instant::now();
        while let Err(error) = self.create(name).await {
            assert!(
                matches!(error, StoreError::Unavailable(_)) && begun.elapsed() < WAIT_LIMIT,
                "{error}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Room names in creation order.
    fn rooms(&self) -> String {
        self.home
            .records
            .value("SELECT string_agg(name, ' ' ORDER BY created_at, id) FROM rooms")
    }
}

/// Proves R-1.
#[actix::test]
async fn a_commit_that_was_done_although_its_answer_was_lost_succeeds_and_happens_once() {
    let Some(fixture) = Fixture::new().await else {
        return;
    };
    for name in ["a", "b", "c"] {
        fixture.proxy.cut_at("COMMIT", Cut::AfterTheServer);
        fixture.create(name).await.unwrap();
        assert!(!fixture.proxy.waits_to_cut());
        assert_eq!(refused(fixture.create(name).await).0, ErrorCode::RoomExists);
    }
    assert_eq!(fixture.rooms(), "a b c");
}

/// Proves R-1.
#[actix::test]
async fn a_commit_that_never_reached_the_server_fails_and_can_be_repeated() {
    let Some(fixture) = Fixture::new().await else {
        return;
    };
    for name in ["a", "b", "c"] {
        fixture.proxy.cut_at("COMMIT", Cut::BeforeTheServer);
        let lost = fixture.create(name).await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        assert!(!fixture.proxy.waits_to_cut());
        fixture.create_eventually(name).await;
    }
    assert_eq!(fixture.rooms(), "a b c");
}

#[actix::test]
async fn a_commit_in_doubt_is_resolved_once_the_server_is_back() {
    let Some(fixture) = Fixture::new().await else {
        return;
    };
    for (before, name, cut) in [
        ("a", "b", Cut::AfterTheServer),
        ("c", "d", Cut::BeforeTheServer),
    ] {
        // The writer session is connected.
        fixture.create_eventually(before).await;
        fixture.proxy.refuse_new();
        fixture.proxy.cut_at("COMMIT", cut);
        let back = async {
            while fixture.proxy.waits_to_cut() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Other writes are refused meanwhile, and none is made later.
            let other = fixture.create("other").await;
            assert!(
                matches!(other, Err(StoreError::Unavailable(_))),
                "{other:?}"
            );
            fixture.proxy.accept();
        };
        let (created, ()) = tokio::join!(fixture.create(name), back);
        assert_eq!(created.is_ok(), cut == Cut::AfterTheServer, "{created:?}");
    }
    fixture.create_eventually("e").await;
    assert_eq!(fixture.rooms(), "a b c e");
}

#[actix::test]
async fn reads_and_writes_fail_while_all_sessions_are_ended_and_succeed_again() {
    let Some(fixture) = Fixture::new().await else {
        return;
    };
    fixture.create("a").await.unwrap();
    let Records::Server(database) = &fixture.home.records else {
        panic!("a database of PostgreSQL")
    };
    for name in ["b", "c"] {
        database.end_sessions();
        fixture.create_eventually(name).await;
        let begun = Instant::now();
        while let Err(error) = fixture
            .store
            .rooms()
            .list(
                fixture.project.clone(),
                RoomFilter::default(),
                PageRequest::default(),
            )
            .await
        {
            assert!(
                matches!(error, StoreError::Unavailable(_)) && begun.elapsed() < WAIT_LIMIT,
                "{error}"
            );
        }
    }
    assert_eq!(fixture.rooms(), "a b c");
}
