use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_model::{ErrorCode, ProjectId};
use prometheus::IntGauge;
use rusqlite::Connection;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{AT_ONCE, THREADS};
use crate::StoreError;
use crate::engine::sqlite::commit_count::CommitCount;
use crate::engine::sqlite::reader::Readers;
use crate::sql::Sql;

const SOON: Duration = Duration::from_secs(60);
/// A query that never ends.
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

fn one(sql: Sql<'_>) -> Result<i64, StoreError> {
    sql.value("SELECT 1", &[])
}

fn list_one(sql: Sql<'_>, _: &ProjectId) -> Result<i64, StoreError> {
    one(sql)
}

fn readers(dir: &tempfile::TempDir) -> Readers {
    let path = dir.path().join("test.db");
    Connection::open(&path)
        .unwrap()
        .pragma_update(None, "journal_mode", "WAL")
        .unwrap();
    Readers::start(
        &path,
        1,
        CommitCount::default(),
        &IntGauge::new("waiting", "Waiting").unwrap(),
    )
    .unwrap()
}

/// Lists that hold their threads until `release` is dropped.
struct Holding {
    lists: Vec<JoinHandle<Result<(), StoreError>>>,
    started: Receiver<()>,
    release: Sender<()>,
}

impl Holding {
    fn start(readers: &Readers, projects: impl IntoIterator<Item = ProjectId>) -> Self {
        let (release, released) = channel::<()>();
        let (start, started) = channel();
        let released = Arc::new(Mutex::new(released));
        let lists = projects.into_iter().map(|project| {
            let (readers, released, start) =
                (readers.clone(), Arc::clone(&released), start.clone());
            tokio::spawn(async move {
                let hold = move |_: Sql<'_>, _: &ProjectId| {
                    start.send(()).unwrap();
                    let _ = released.lock().unwrap().recv();
                    Ok(())
                };
                readers.list(project, hold).await
            })
        });
        Self {
            lists: lists.collect(),
            started,
            release,
        }
    }

    /// Waits until so many run.
    async fn running(&self, count: usize) {
        for _ in 0..count {
            while self.started.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    async fn end(self) {
        drop(self.release);
        for list in self.lists {
            list.await.unwrap().unwrap();
        }
    }
}

#[actix::test]
async fn point_and_bulk_reads_do_not_wait_for_lists() {
    let dir = tempfile::tempdir().unwrap();
    let readers = readers(&dir);
    let lists = Holding::start(&readers, (0..THREADS).map(|_| ProjectId::new()));
    lists.running(THREADS).await;
    assert_eq!(timeout(SOON, readers.point(one)).await.unwrap().unwrap(), 1);
    assert_eq!(timeout(SOON, readers.bulk(one)).await.unwrap().unwrap(), 1);
    lists.end().await;
}

#[actix::test]
async fn the_lists_of_one_project_leave_threads_to_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let readers = readers(&dir);
    let (busy, other) = (ProjectId::new(), ProjectId::new());
    let lists = Holding::start(&readers, std::iter::repeat_n(busy, THREADS));
    lists.running(AT_ONCE.of_project).await;
    assert_eq!(
        timeout(SOON, readers.list(other, list_one))
            .await
            .unwrap()
            .unwrap(),
        1
    );
    assert!(
        lists.started.try_recv().is_err(),
        "the busy project runs more lists than it may"
    );
    lists.end().await;
}

#[actix::test]
async fn a_list_ends_at_its_deadline_and_leaves_its_thread_usable() {
    let dir = tempfile::tempdir().unwrap();
    let readers = readers(&dir);
    let project = ProjectId::new();
    for _ in 0..2 {
        let endless = |sql: Sql<'_>, _: &ProjectId| sql.value::<i64>(ENDLESS, &[]);
        let refused = timeout(
            Duration::from_secs(20),
            readers.list(project.clone(), endless),
        )
        .await
        .unwrap()
        .unwrap_err();
        let StoreError::Refused(problem) = refused else {
            panic!("{refused}")
        };
        assert_eq!(problem.code, ErrorCode::DatabaseUnavailable);
        assert!(
            problem.message.contains("took longer than 2 s"),
            "{}",
            problem.message
        );
        assert!(problem.retry_after.is_some());
    }
    assert_eq!(readers.list(project, list_one).await.unwrap(), 1);
}

#[actix::test]
async fn a_panic_in_a_read_fails_that_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let readers = readers(&dir);
    let project = ProjectId::new();
    let broken = |_: Sql<'_>| -> Result<i64, StoreError> { panic!("broken") };
    assert!(matches!(
        readers.point(broken).await,
        Err(StoreError::Fault(_))
    ));
    assert!(matches!(
        readers
            .list(project.clone(), move |sql, _| broken(sql))
            .await,
        Err(StoreError::Fault(_))
    ));
    assert_eq!(readers.point(one).await.unwrap(), 1);
    assert_eq!(readers.list(project, list_one).await.unwrap(), 1);
}
