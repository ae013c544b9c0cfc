//! A statement of a job that fails undoes the job, also if nobody has waited for it: PostgreSQL answers the `COMMIT` of a failed
//! transaction without an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_db::{CommittedEvent, Store, StoreError};
use conclave_model::event::Departure;
use conclave_model::{ProjectId, RoomId, Secret};
use test_postgres::Database;

use super::support::{clock, create_project, create_room, new_room, participant};
use super::{cluster, open_with};

/// The tables that the jobs write to.
const TABLES: [&str; 8] =
    ["projects", "rooms", "sessions", "tracks", "usage_days", "events", "webhook_deliveries", "webhook_endpoints"];

/// A hash of all rows of the tables.
fn content(database: &Database<'_>) -> String {
    let hash = |table| format!("(SELECT md5(coalesce(string_agg(t::text, ' ' ORDER BY t::text), '')) FROM {table} t)");
    database.run(&format!("SELECT {}", TABLES.map(hash).join(" || ")))
}

/// Makes writes to a table fail.
fn break_table(database: &Database<'_>, table: &str) {
    database.run(&format!(
        "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''broken''; END';
         CREATE TRIGGER broken BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION fail()"
    ));
}

/// A project whose jobs are made to fail.
struct Fixture<'a> {
    database: &'a Database<'a>,
    store: Store,
    project: ProjectId,
    /// How many events were told.
    told: Arc<AtomicUsize>,
}

impl Fixture<'_> {
    /// Runs a job with each of the tables broken, after which nothing has changed, and then as it is.
    async fn fails_with<T>(&self, tables: &[&str], job: impl AsyncFn() -> Result<T, StoreError>) -> T {
        for table in tables {
            let before = (content(self.database), self.told.load(Ordering::Relaxed));
            break_table(self.database, table);
            let failed = job().await;
            let error = failed.err().unwrap_or_else(|| panic!("the job has succeeded although {table} is broken"));
            assert!(!matches!(error, StoreError::Refused(_)), "{table}: {error}");
            assert_eq!((content(self.database), self.told.load(Ordering::Relaxed)), before, "{table}");
            self.database.run(&format!("DROP TRIGGER broken ON {table}"));
        }
        job().await.unwrap()
    }

    async fn join(&self, room: RoomId, identity: &str) -> Result<(), StoreError> {
        let joined = participant(identity, &format!("PA_{identity}"));
        self.store.record_join(self.project.clone(), room, joined, clock().now()).await.map(drop)
    }
}

#[actix::test]
async fn each_statement_that_fails_undoes_its_job_and_no_other() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let told = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&told);
    let count = move |events: &[CommittedEvent]| {
        counter.fetch_add(events.len(), Ordering::Relaxed);
    };
    let store = open_with(&database, cluster.address(), Some(0), Box::new(count)).store;
    let project = create_project(&store).await;
    let endpoint = store.create_webhook_endpoint(project.clone(), "https://a.example".into(), Secret::new("s"), None);
    endpoint.await.unwrap();
    let fixture = Fixture { database: &database, store, project, told };
    let create = async || create_room(&fixture.store, new_room(&fixture.project, "a"), None).await;
    let room = fixture.fails_with(&["rooms", "projects", "lanes"], create).await.id;
    let tables = ["sessions", "rooms", "usage_days", "events", "webhook_deliveries", "lanes"];
    fixture.fails_with(&tables, async || fixture.join(room, "ada").await).await;
    fixture.join(room, "bob").await.unwrap();
    let leave = async || {
        let (project, sid) = (fixture.project.clone(), "PA_bob".parse().unwrap());
        fixture.store.record_leave(project, room, sid, clock().now(), Departure::Left).await
    };
    fixture.fails_with(&["sessions", "events", "webhook_deliveries", "lanes"], leave).await;
    let end = async || fixture.store.end_room(fixture.project.clone(), room).await;
    let tables = ["rooms", "sessions", "events", "webhook_deliveries", "projects", "lanes"];
    fixture.fails_with(&tables, end).await;
    // room.started, two joins, two leaves, room.finished.
    assert_eq!(fixture.told.load(Ordering::Relaxed), 6);
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.open_rooms, totals.participants), (0, 0));
}
