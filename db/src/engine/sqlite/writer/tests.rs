//! Tests of batches: what is committed together, and what is not.

use std::sync::mpsc::channel;

use conclave_model::{Clock, Secret, Timestamp};

use super::*;
use crate::engine::writer::{Job, Queue};
use crate::sql::values::args;
use crate::vault::Vault;

type TestJob = fn(&mut Tx<'_>) -> Result<(), StoreError>;

const INSERT: &str = "INSERT INTO numbers VALUES (?1)";
const INSERT_NEW: &str = "INSERT INTO numbers VALUES (?1) ON CONFLICT DO NOTHING";

fn thread() -> Thread {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")
        .unwrap();
    let shared = Shared {
        end: Arc::default(),
        clock: Clock::manual(Timestamp::from_millis(0)),
        vault: Arc::new(Vault::open(None, &Secret::new("media")).unwrap()),
        metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
        is_server: Arc::default(),
    };
    Thread::new(
        connection,
        shared,
        CommitCount::default(),
        Box::new(|_| {}),
        Damage::default(),
    )
    .unwrap()
}

/// Jobs of one statement each, the first of which has been taken.
fn queued<F>(runs: Vec<F>) -> (Box<dyn Work>, Jobs<Box<dyn Work>>)
where
    F: FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static,
{
    let (sender, receiver) = channel();
    let mut work = runs
        .into_iter()
        .map(|run| -> Box<dyn Work> { Box::new(Job::new(Isolation::Statement, run, |_| {})) });
    let first = work.next().unwrap();
    work.for_each(|work| sender.send((Queue::SERVER, work)).unwrap());
    (first, Jobs::new(receiver))
}

/// Runs jobs in one batch, and returns the numbers that remain.
fn run(runs: Vec<TestJob>) -> (Result<(), StoreError>, Vec<i64>) {
    let thread = thread();
    let (first, mut jobs) = queued(runs);
    let until = Instant::now() + Duration::from_secs(5);
    let committed = thread.commit(&mut Batch {
        work: vec![first],
        jobs: &mut jobs,
        until,
    });
    (committed.map(drop), thread.numbers())
}

impl Thread {
    fn numbers(&self) -> Vec<i64> {
        Sql::Sqlite(&self.connection)
            .many("SELECT number FROM numbers", &[], |row| row.get("number"))
            .unwrap()
    }
}

fn refuse() -> Result<(), StoreError> {
    Err(StoreError::Fault("refused".into()))
}

#[test]
fn a_statement_that_fails_leaves_the_other_jobs_of_its_batch() {
    let (committed, numbers) = run(vec![
        |tx| tx.sql.put(INSERT, args![1_i64]),
        |tx| tx.sql.put(INSERT, args![1_i64]),
        |tx| {
            if tx.sql.change(INSERT_NEW, args![1_i64])? == 0 {
                refuse()
            } else {
                Ok(())
            }
        },
        |_| panic!("before its statement"),
        |tx| tx.sql.put(INSERT, args![2_i64]),
    ]);
    assert!(committed.is_ok());
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn nothing_remains_of_a_batch_with_a_job_that_fails_behind_its_statement() {
    let (committed, numbers) = run(vec![
        |tx| tx.sql.put(INSERT, args![1_i64]),
        |tx| tx.sql.put(INSERT, args![2_i64]).and_then(|()| refuse()),
        |tx| tx.sql.put(INSERT, args![3_i64]),
    ]);
    assert!(
        committed
            .unwrap_err()
            .to_string()
            .contains("failed behind its statement")
    );
    assert!(numbers.is_empty());
}

#[test]
fn a_batch_whose_time_is_over_leaves_the_other_jobs_for_the_next() {
    let thread = thread();
    let runs: [TestJob; 2] = [
        |tx| tx.sql.put(INSERT, args![1_i64]),
        |tx| tx.sql.put(INSERT, args![2_i64]),
    ];
    let (first, mut jobs) = queued(runs.into());
    let mut batch = Batch {
        work: vec![first],
        jobs: &mut jobs,
        until: Instant::now(),
    };
    thread.commit(&mut batch).unwrap();
    assert_eq!((batch.work.len(), thread.numbers()), (1, vec![1]));
    let mut batch = Batch {
        work: vec![jobs.next().unwrap()],
        jobs: &mut jobs,
        until: Instant::now(),
    };
    thread.commit(&mut batch).unwrap();
    assert_eq!(thread.numbers(), [1, 2]);
}

#[test]
fn jobs_that_wait_fail_with_the_lock_that_the_first_has_waited_for() {
    let thread = thread();
    let runs: [TestJob; 2] = [|_| Ok(()), |_| Ok(())];
    let (first, mut jobs) = queued(runs.into());
    thread.sql("BEGIN").unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    let mut batch = Batch {
        work: vec![first],
        jobs: &mut jobs,
        until,
    };
    assert!(thread.commit(&mut batch).is_err());
    assert_eq!(batch.work.len(), 2);
}

#[test]
fn the_time_of_a_job_is_not_that_of_the_batch_it_was_added_to() {
    let thread = thread();
    let write_time = |clock: Clock| {
        move |tx: &mut Tx<'_>| {
            // The next job is handed over a second later, while the batch runs.
            clock.advance(Duration::from_secs(1));
            tx.sql.put(INSERT, args![tx.now])
        }
    };
    let (first, mut jobs) = queued(vec![
        write_time(thread.shared.clock.clone()),
        write_time(thread.shared.clock.clone()),
    ]);
    let until = Instant::now() + Duration::from_secs(5);
    thread
        .commit(&mut Batch {
            work: vec![first],
            jobs: &mut jobs,
            until,
        })
        .unwrap();
    assert_eq!(thread.numbers(), [0, 1_000]);
}
