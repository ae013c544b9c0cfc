use std::time::{Duration, Instant};

use prometheus::IntGauge;
use rusqlite::Connection;

use crate::engine::sqlite::commit_count::CommitCount;
use crate::engine::sqlite::reader::Readers;

/// A database with a table of numbers, the connection of another process, and readers.
fn setup(dir: &tempfile::TempDir) -> (Connection, CommitCount, Readers) {
    let path = dir.path().join("test.db");
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "journal_mode", "WAL").unwrap();
    other
        .execute_batch("CREATE TABLE numbers (number INTEGER)")
        .unwrap();
    let (commits, waiting) = (
        CommitCount::default(),
        IntGauge::new("waiting", "Waiting").unwrap(),
    );
    let readers = Readers::start(&path, 1, commits.clone(), &waiting).unwrap();
    (other, commits, readers)
}

async fn count(readers: &Readers) -> i64 {
    readers
        .point(|sql| sql.value("SELECT count(*) FROM numbers", &[]))
        .await
        .unwrap()
}

fn add(other: &Connection) {
    other.execute("INSERT INTO numbers VALUES (1)", []).unwrap();
}

#[actix::test]
async fn a_commit_of_this_process_is_read_at_once_and_one_of_another_process_soon() {
    let dir = tempfile::tempdir().unwrap();
    let (other, commits, readers) = setup(&dir);
    for number in 0..100 {
        assert_eq!(count(&readers).await, number);
        add(&other);
        commits.add();
    }
    assert_eq!(count(&readers).await, 100);
    add(&other);
    let (since, mut reads) = (Instant::now(), 0);
    // Reads that never pause renew the snapshot, too.
    while count(&readers).await == 100 {
        reads += 1;
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "{reads} reads did not see it"
        );
    }
}

#[actix::test]
async fn no_snapshot_is_held_while_nothing_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (other, _, readers) = setup(&dir);
    count(&readers).await;
    add(&other);
    wait_until_unread(&other).await;
}

#[actix::test]
async fn reads_go_on_when_the_runtime_that_ends_snapshots_has_shut_down() {
    let dir = tempfile::tempdir().unwrap();
    let timers = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let entered = timers.enter();
    let (other, _, readers) = setup(&dir);
    drop(entered);
    std::thread::spawn(move || drop(timers)).join().unwrap();
    for _ in 0..2 {
        assert_eq!(count(&readers).await, 0);
    }
    wait_until_unread(&other).await;
}

/// Waits until the log can be emptied: no connection reads from it any more.
async fn wait_until_unread(other: &Connection) {
    // Waiting in SQLite would block the thread that ends the snapshot.
    other.busy_timeout(Duration::ZERO).unwrap();
    let since = Instant::now();
    let is_busy = || {
        other
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                row.get::<_, bool>(0)
            })
            .unwrap()
    };
    while is_busy() {
        assert!(since.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[actix::test]
async fn no_snapshot_is_held_by_a_thread_whose_runtime_blocks_or_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (other, _, readers) = setup(&dir);
    add(&other);
    let (has_read, reading) = tokio::sync::oneshot::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let on_thread = readers.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            count(&on_thread).await;
            has_read.send(()).unwrap();
            // As an upload does.
            let _ = ended.recv();
            count(&on_thread).await;
        });
    });
    reading.await.unwrap();
    add(&other);
    wait_until_unread(&other).await;
    drop(end);
    thread.join().unwrap();
    add(&other);
    wait_until_unread(&other).await;
}

#[actix::test]
async fn the_snapshots_can_be_ended_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (other, _, readers) = setup(&dir);
    count(&readers).await;
    readers.end_snapshots();
    add(&other);
    assert_eq!(count(&readers).await, 1);
}
