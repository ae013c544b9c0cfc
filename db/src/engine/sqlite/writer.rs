//! SQLite's writer: a thread that commits waiting jobs in batches, one transaction each.
//!
//! The jobs of a batch share one fsync, but no error: each runs in a savepoint, or is one statement, which is atomic ([`Isolation`]). The
//! first job needs none: nothing precedes it, so if it fails, the whole transaction is rolled back and started again.
//! Replies are sent once the batch is on disk. Projects alternate ([`Queue`](crate::engine::writer::Queue)), so a project with many jobs
//! delays only its own.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::CommitCount;
use super::damage::Damage;
use super::write_turn::WriteLock;
use crate::engine::sqlite::file::FileLocation;
use crate::engine::writer::{Isolation, JobOutcome, Jobs, Shared, Work, WriterStop};
use crate::error::StoreError;
use crate::options::StoreMetrics;
use crate::sql::Sql;
use crate::tx::{CommitHook, CommittedEvent, RoomCounts, Tx};

/// Time for which jobs are added to a batch. If the last commit took longer, its duration counts instead. In a longer batch, the first job
/// would wait too long for the last; a shorter one would spend more time on commits than on jobs.
const BATCH_TIME: Duration = Duration::from_millis(2);
/// Upper limit of that time: after a disk has hung for seconds, the next batch is not as long.
const LONGEST_BATCH_TIME: Duration = Duration::from_millis(50);

/// Attempts to empty the write-ahead log at exit while another connection reads from it, and the pause between them.
const END_TRIES: u32 = 25;
const END_PAUSE: Duration = Duration::from_millis(2);

/// State of the writer thread. Nothing else in this process may write, through this connection or another one.
pub(super) struct WriterThread {
    connection: Connection,
    write_lock: WriteLock,
    shared: Shared,
    /// Commit count, for the readers.
    commits: CommitCount,
    hook: CommitHook,
    damage: Damage,
    /// Number of damaged tables that the connection refuses to use.
    guarded: Cell<usize>,
    /// Location at which the file was opened; `None` for an in-memory database.
    location: Option<FileLocation>,
}

/// Jobs in one transaction, and the queue from which more may be added.
struct Batch<'a> {
    work: Vec<Box<dyn Work>>,
    jobs: &'a mut Jobs<Box<dyn Work>>,
    until: Instant,
}

impl Batch<'_> {
    /// Adds the next job, if there is one and the batch's time is not over.
    fn add(&mut self) -> Option<&mut Box<dyn Work>> {
        let next = if Instant::now() < self.until {
            self.jobs.next()
        } else {
            None
        };
        self.work.push(next?);
        self.work.last_mut()
    }
}

/// Successful transaction.
struct Committed {
    events: Vec<CommittedEvent>,
    /// Duration of the commit itself.
    took: Duration,
}

impl WriterThread {
    pub(super) fn new(
        connection: Connection,
        shared: Shared,
        commits: CommitCount,
        hook: CommitHook,
        damage: Damage,
    ) -> Result<Self, StoreError> {
        // An in-memory database has an empty path, and nothing that could be unmounted.
        let path = PathBuf::from(connection.path().unwrap_or_default());
        let write_lock = WriteLock::new(&path, Arc::clone(&shared.is_server));
        let is_file = !path.as_os_str().is_empty();
        let metadata = is_file.then(|| path.metadata()).transpose();
        let metadata = metadata
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        let (guarded, location) = (
            Cell::new(0),
            metadata.map(|metadata| FileLocation::new(path, &metadata)),
        );
        Ok(Self {
            connection,
            write_lock,
            shared,
            commits,
            hook,
            damage,
            guarded,
            location,
        })
    }

    /// Runs jobs until all senders are gone.
    pub(super) fn run_batches(&self, mut jobs: Jobs<Box<dyn Work>>) {
        let mut time = BATCH_TIME;
        let mut has_written = false;
        while let Some(first) = jobs.wait() {
            let started = Instant::now();
            // Taken before the batch's time starts: jobs that arrive during this wait belong to the same batch.
            let lock = self.write_lock.take();
            let mut batch = Batch {
                work: vec![first],
                jobs: &mut jobs,
                until: Instant::now() + time,
            };
            let committed = self.commit(&mut batch);
            // Dropped before the replies, so that another process can write meanwhile.
            drop(lock);
            has_written |= committed.is_ok();
            #[cfg(feature = "faults")]
            let _ = super::faults::reach(&self.connection, "batch ended");
            let work = batch.work;
            self.observe(work.len(), started.elapsed());
            // Before the replies: a caller that has its reply knows that the actors have been notified.
            match &committed {
                Ok(Committed { events, .. }) if !events.is_empty() => (self.hook)(events),
                Ok(_) => {}
                Err(error) => {
                    log::error!(jobs = work.len(); "a batch of writes was rolled back: {error}");
                }
            }
            // As long as the last commit, so that at least half of the time goes to jobs, on fast disks and slow ones.
            time = committed.as_ref().map_or(BATCH_TIME, |committed| {
                committed.took.clamp(BATCH_TIME, LONGEST_BATCH_TIME)
            });
            for work in work {
                work.finish(committed.as_ref().map(|_| ()));
            }
            // The reason was set during this batch, whose jobs have their errors by now. Returning drops the rest of the queue, and its
            // jobs fail, too.
            if self.shared.stop.get().is_some() {
                return;
            }
        }
        // A command that only read has nothing to empty, and must not wait for the write lock.
        if has_written {
            self.empty_log();
        }
    }

    /// Empties the write-ahead log, so that a clean exit leaves a single file. Never waits for a reader while it has the write lock: a
    /// command that waited stalled the server that runs at the same time.
    fn empty_log(&self) {
        // Does most of the work, without the write lock.
        let _ = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
        let _ = self.connection.busy_timeout(Duration::ZERO);
        for _ in 0..END_TRIES {
            let lock = self.write_lock.take();
            let emptied = self
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                    row.get::<_, bool>(0)
                });
            drop(lock);
            // The first column is 1 if another connection prevented it.
            // After an error, another attempt is pointless. The log stays, and the next start recovers it.
            if !matches!(emptied, Ok(true)) {
                return;
            }
            thread::sleep(END_PAUSE);
        }
    }

    fn observe(&self, jobs: usize, took: Duration) {
        let StoreMetrics {
            writes_waiting,
            batch,
            commit,
            ..
        } = &self.shared.metrics;
        writes_waiting.sub(i64::try_from(jobs).unwrap_or(0));
        #[allow(clippy::cast_precision_loss)] // Far below 2^52.
        batch.observe(jobs as f64);
        commit.observe(took.as_secs_f64());
        log::trace!(jobs = jobs; "a batch has ended");
    }

    /// Runs a batch in one transaction, and returns the events that are now durable.
    fn commit(&self, batch: &mut Batch<'_>) -> Result<Committed, StoreError> {
        let asked = Instant::now();
        // IMMEDIATE takes the write lock now. A deferred transaction that has read would fail at its first write, without a wait, if another
        // process had written meanwhile (SQLITE_BUSY_SNAPSHOT).
        let started = self.sql("BEGIN IMMEDIATE");
        self.write_lock.record_wait_for_sqlite(asked.elapsed());
        if let Err(error) = started {
            // This job has waited for the lock as long as it may. Queued jobs fail with it, instead of waiting as long one after another.
            batch.work.extend(std::iter::from_fn(|| batch.jobs.next()));
            return Err(error);
        }
        let committed = self.run_all(batch).and_then(|events| {
            let ran = Instant::now();
            self.sql("COMMIT").map(|()| Committed {
                events,
                took: ran.elapsed(),
            })
        });
        let committed = committed.and_then(|committed| {
            // The commit succeeded, but possibly into an unlinked file, such as after its disk was unmounted. Nothing that only this
            // process can see may be acknowledged.
            if self.location.as_ref().is_none_or(FileLocation::is_there) {
                return Ok(committed);
            }
            let _ = self.shared.stop.set(WriterStop::FileGone);
            log::error!("{}", WriterStop::FileGone.as_str());
            Err(StoreError::Unavailable("the database file is gone".into()))
        });
        if committed.is_err() {
            // After some errors SQLite has already rolled back. Then this fails, which is harmless.
            let _ = self.sql("ROLLBACK");
        }
        // Even after a failure: renewing a reader's snapshot for nothing is better than missing a commit.
        self.commits.add();
        committed
    }

    fn run_all(&self, batch: &mut Batch<'_>) -> Result<Vec<CommittedEvent>, StoreError> {
        #[cfg(feature = "faults")]
        super::faults::reach(&self.connection, "batch begun")?;
        let damaged = self.damage.count();
        if damaged > self.guarded.get() {
            // Installed again for each new table: that makes SQLite prepare all statements again, and check them.
            self.damage.guard(&self.connection)?;
            self.guarded.set(damaged);
        }
        let sql = Sql::Sqlite(&self.connection);
        let (mut events, mut rooms) = (Vec::new(), RoomCounts::default());
        let mut has_changes = false;
        let mut next = batch.work.last_mut();
        // Read for each job, since a batch may run for 50 ms.
        while let Some(work) = next {
            let (now, vault) = (self.shared.clock.now(), &*self.shared.vault);
            let mut tx = Tx::new(sql, now, vault);
            // Events and counts of a job that was rolled back are dropped with its `tx`.
            if self.run_isolated(work.as_mut(), &mut tx, has_changes)? == JobOutcome::Commit {
                has_changes = true;
                events.extend(tx.events);
                rooms.extend(&tx.rooms);
            }
            next = batch.add();
        }
        // Once per batch, since several jobs often change the same room's participant count.
        rooms.write(sql)?;
        Ok(events)
    }

    /// Runs a job so that nothing remains if it fails. `has_changes` is whether an earlier job of the transaction succeeded. An error is
    /// fatal to the whole batch.
    fn run_isolated(
        &self,
        work: &mut dyn Work,
        tx: &mut Tx<'_>,
        has_changes: bool,
    ) -> Result<JobOutcome, StoreError> {
        match work.isolation() {
            // The transaction itself serves as the savepoint. So a job that is alone in its batch has two statements less, and SQLite
            // copies none of the pages that it changes.
            Isolation::Savepoint if !has_changes => {
                let outcome = work.run(tx);
                if outcome == JobOutcome::Rollback {
                    // Fails if SQLite has ended the transaction after an error such as a full disk, as a savepoint's rollback does.
                    self.sql("ROLLBACK")?;
                    self.sql("BEGIN IMMEDIATE")?;
                }
                Ok(outcome)
            }
            Isolation::Savepoint => {
                self.sql("SAVEPOINT job")?;
                let outcome = work.run(tx);
                if outcome == JobOutcome::Rollback {
                    self.sql("ROLLBACK TO job")?;
                }
                // ROLLBACK TO leaves the savepoint open, so it is released in both cases.
                self.sql("RELEASE job")?;
                Ok(outcome)
            }
            Isolation::Statement => {
                let before = self.connection.total_changes();
                let outcome = work.run(tx);
                // The job violated its isolation, or SQLite has ended the transaction after an error such as a full disk.
                let remains =
                    self.connection.total_changes() != before || self.connection.is_autocommit();
                if outcome == JobOutcome::Rollback && remains {
                    return Err(StoreError::Fault(
                        "a write job failed after its statement".into(),
                    ));
                }
                Ok(outcome)
            }
        }
    }

    fn sql(&self, statement: &str) -> Result<(), StoreError> {
        Sql::Sqlite(&self.connection).put(statement, &[])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use conclave_model::{Clock, Secret, Timestamp};

    use super::*;
    use crate::engine::writer::{Job, Queue};
    use crate::sql::values::args;
    use crate::vault::Vault;

    type TestJob = fn(&mut Tx<'_>) -> Result<(), StoreError>;

    const INSERT: &str = "INSERT INTO numbers VALUES (?1)";
    const INSERT_NEW: &str = "INSERT INTO numbers VALUES (?1) ON CONFLICT DO NOTHING";

    fn thread() -> WriterThread {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")
            .unwrap();
        let shared = Shared {
            stop: Arc::default(),
            clock: Clock::manual(Timestamp::from_millis(0)),
            vault: Arc::new(Vault::open(None, &Secret::new("media")).unwrap()),
            metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
            is_server: Arc::default(),
        };
        WriterThread::new(
            connection,
            shared,
            CommitCount::default(),
            Box::new(|_| {}),
            Damage::default(),
        )
        .unwrap()
    }

    /// Queues jobs. Returns the first one, and the others in their queue.
    fn queued<F>(isolation: Isolation, runs: Vec<F>) -> (Box<dyn Work>, Jobs<Box<dyn Work>>)
    where
        F: FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static,
    {
        let (sender, receiver) = channel();
        let mut work = runs
            .into_iter()
            .map(|run| -> Box<dyn Work> { Box::new(Job::new(isolation, run, |_| {})) });
        let first = work.next().unwrap();
        work.for_each(|work| sender.send((Queue::SERVER, work)).unwrap());
        (first, Jobs::new(receiver))
    }

    /// Runs single-statement jobs in one batch, and returns the numbers that remain.
    fn run(runs: Vec<TestJob>) -> (Result<(), StoreError>, Vec<i64>) {
        run_as(Isolation::Statement, runs)
    }

    /// Runs jobs in one batch, and returns the numbers that remain.
    fn run_as(isolation: Isolation, runs: Vec<TestJob>) -> (Result<(), StoreError>, Vec<i64>) {
        let thread = thread();
        let (first, mut jobs) = queued(isolation, runs);
        let until = Instant::now() + Duration::from_secs(5);
        let committed = thread.commit(&mut Batch {
            work: vec![first],
            jobs: &mut jobs,
            until,
        });
        (committed.map(drop), thread.numbers())
    }

    impl WriterThread {
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
                .contains("failed after its statement")
        );
        assert!(numbers.is_empty());
    }

    #[test]
    fn of_several_statements_that_fail_nothing_remains_wherever_their_job_is_in_its_batch() {
        let fails: TestJob = |tx| {
            tx.sql.put(INSERT, args![3_i64])?;
            tx.sql.put(INSERT, args![4_i64])?;
            refuse()
        };
        let panics: TestJob = |tx| {
            tx.sql.put(INSERT, args![5_i64])?;
            panic!("behind a statement")
        };
        let (committed, numbers) = run_as(
            Isolation::Savepoint,
            vec![
                fails,
                panics,
                |tx| tx.sql.put(INSERT, args![1_i64]),
                fails,
                |tx| tx.sql.put(INSERT, args![2_i64]),
                panics,
            ],
        );
        assert!(committed.is_ok());
        assert_eq!(numbers, [1, 2]);
        let (committed, numbers) = run_as(Isolation::Savepoint, vec![fails]);
        assert!(committed.is_ok());
        assert!(numbers.is_empty());
    }

    #[test]
    fn a_batch_whose_time_is_over_leaves_the_other_jobs_for_the_next() {
        let thread = thread();
        let runs: [TestJob; 2] = [
            |tx| tx.sql.put(INSERT, args![1_i64]),
            |tx| tx.sql.put(INSERT, args![2_i64]),
        ];
        let (first, mut jobs) = queued(Isolation::Statement, runs.into());
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
        let (first, mut jobs) = queued(Isolation::Statement, runs.into());
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
                // The next job is queued a second later, while the batch runs.
                clock.advance(Duration::from_secs(1));
                tx.sql.put(INSERT, args![tx.now])
            }
        };
        let times = vec![
            write_time(thread.shared.clock.clone()),
            write_time(thread.shared.clock.clone()),
        ];
        let (first, mut jobs) = queued(Isolation::Statement, times);
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
}
