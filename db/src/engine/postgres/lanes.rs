//! PostgreSQL's writer: sessions with a thread each, and a transaction per job.
//!
//! A project keeps its session, so its jobs, events and sequence numbers are in commit order. An error undoes only its own job. Statements
//! whose result is not needed at once are sent with the next query, and the last of them with the `COMMIT`, so that a job takes few round
//! trips.
//!
//! Two statements frame the job. Both fail if they find no row, so that the transaction is undone on the server, whatever has been sent
//! after them:
//!
//! - The *fence* reads the row of `leadership` with this server's epoch, and locks it until the end. Another server takes over either after
//!   this transaction, or before it, and then the transaction fails.
//! - The *mark* overwrites the previous job's id with this job's id in the session's row of the table `lanes`. If the connection is lost
//!   during `COMMIT`, the row shows the outcome ([`WriterSession::resolve`]). If the row has neither id, commits are gone: PostgreSQL has failed
//!   over to a server that lacked them, and this server's memory is ahead of the records. So the server exits. A session that reconnects
//!   checks the rows of all sessions, since some of them may not write for a long time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use uuid::Uuid;

use super::{Link, STATEMENT_LIMIT};
use crate::engine::writer::{JobOutcome, Jobs, Shared, Work, WriterStop};
use crate::error::StoreError;
use crate::options::{PostgresOptions, StoreMetrics};
use crate::sql::postgres::{CommitError, Session};
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::{CommitHook, CommittedEvent, Tx};

/// Fails with a division by zero once another server has taken over, and the epoch is another one.
const FENCE: &str = "SELECT 1 / count(*) FROM (SELECT 1 FROM leadership WHERE id = 1 AND epoch = ?1 FOR SHARE) AS held";
/// Fails with a division by zero if the session's last job is not `?2`.
const MARK: &str =
    "WITH marked AS (UPDATE lanes SET job = ?3 WHERE lane = ?1 AND job = ?2 RETURNING 1)
     SELECT 1 / count(*) FROM marked";
const SET_ROW: &str = "INSERT INTO lanes (lane, job) VALUES (?1, ?2) ON CONFLICT (lane) DO UPDATE SET job = excluded.job";
const SET_ROW_IN_EPOCH: &str = "INSERT INTO lanes (lane, job)
     SELECT ?1, ?2 FROM leadership WHERE id = 1 AND epoch = ?3 FOR SHARE
     ON CONFLICT (lane) DO UPDATE SET job = excluded.job";
const READ_ROWS: &str =
    "SELECT epoch, lane, job FROM leadership LEFT JOIN lanes ON lane >= 0 WHERE id = 1";
const READ_ROW: &str = "SELECT job FROM lanes WHERE lane = ?1 FOR UPDATE";
/// The row of a command, and the rows of commands that were killed.
const DELETE_ROW: &str = "DELETE FROM lanes WHERE lane = ?1 OR (lane < 0 AND job < ?2)";

/// Age of another command's last job at which its row is deleted. No command takes that long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Shortest pause between two attempts to determine a commit's outcome.
const RESOLVE_PAUSE: Duration = Duration::from_millis(50);

/// Last committed job of each of a server's sessions, by row number. Ids grow with time.
pub(super) type LastJobs = Arc<Mutex<BTreeMap<i64, Uuid>>>;

/// Returns the row numbers of a store's sessions: small ones for a server, and random negative ones for a command, so that commands do not
/// collide.
pub(super) fn rows(options: &PostgresOptions) -> Range<i64> {
    // One more than the setting, for jobs that belong to no project.
    let count = i64::try_from(options.lanes.max(1)).unwrap_or(1) + 1;
    let first = match options.epoch {
        Some(_) => 0,
        // Below all numbers of servers, with a block of numbers for each random value.
        None => -i64::from(u32::MAX) - i64::from(Uuid::new_v4().as_fields().0) * (count + 1),
    };
    first..first + count
}

/// A job's transaction.
struct Transaction<'a> {
    session: &'a Session,
    row: i64,
    epoch: Option<i64>,
    /// Job that the session committed last, and the current one.
    last: Uuid,
    job: Uuid,
}

/// Outcome of a transaction.
enum TransactionOutcome {
    /// Committed, with these events.
    Committed(Vec<CommittedEvent>),
    /// The job failed, and has its own error.
    Refused,
    /// The transaction failed.
    RolledBack(StoreError),
    /// The connection was lost before the reply.
    InDoubt(Vec<CommittedEvent>, StoreError),
}

impl Transaction<'_> {
    fn run(&self, work: &mut dyn Work, shared: &Shared) -> TransactionOutcome {
        if let Err(error) = begin(self.session, self.epoch) {
            return self.undo(error);
        }
        #[cfg(feature = "faults")]
        if let Err(error) = super::faults::reach(self.session, "batch begun") {
            return self.undo(error);
        }
        let mut tx = Tx::new(
            Sql::Postgres(self.session),
            shared.clock.now(),
            &shared.vault,
        );
        if work.run(&mut tx) == JobOutcome::Rollback {
            // If this fails, the connection is lost, and the transaction with it.
            let _ = self.session.roll_back();
            return TransactionOutcome::Refused;
        }
        // After the job's own statements: a job that fails leaves the session's row as it was.
        let mark = args![self.row, self.last, self.job];
        let marked = tx
            .rooms
            .write(tx.sql)
            .and_then(|()| self.session.put_mark(MARK, mark));
        if let Err(error) = marked {
            return self.undo(error);
        }
        match self.session.commit() {
            Ok(()) => TransactionOutcome::Committed(tx.events),
            Err(CommitError::RolledBack(error)) => TransactionOutcome::RolledBack(error),
            Err(CommitError::InDoubt(error)) => TransactionOutcome::InDoubt(tx.events, error),
        }
    }

    fn undo(&self, error: StoreError) -> TransactionOutcome {
        // If this fails, the connection is lost, and the transaction with it.
        let _ = self.session.roll_back();
        TransactionOutcome::RolledBack(error)
    }
}

/// Commits a transaction, or rolls it back if `written` is an error, so that the next one never starts inside it.
fn commit_or_undo(session: &Session, written: Result<(), StoreError>) -> Result<(), StoreError> {
    match written {
        Ok(()) => session.commit().map_err(CommitError::cause),
        Err(error) => {
            // If this fails, the connection is lost, and the transaction with it.
            let _ = session.roll_back();
            Err(error)
        }
    }
}

/// Starts a transaction, with the fence if this is a server.
fn begin(session: &Session, epoch: Option<i64>) -> Result<(), StoreError> {
    session.send_text("BEGIN")?;
    match epoch {
        Some(epoch) => session.put_fence(FENCE, args![epoch]),
        None => Ok(()),
    }
}

/// Returns the smallest UUIDv7 of this time.
fn first_id_since(time: SystemTime) -> Uuid {
    let millis = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    uuid::Builder::from_unix_timestamp_millis(u64::try_from(millis).unwrap_or(u64::MAX), &[0; 10])
        .into_uuid()
}

/// Reads the epoch and the last jobs of all servers' sessions.
fn read_rows(session: &Session) -> Result<(i64, BTreeMap<i64, Uuid>), StoreError> {
    let read = |row: &Row<'_>| {
        Ok((
            row.get("epoch")?,
            row.get::<Option<i64>>("lane")?,
            row.get::<Option<Uuid>>("job")?,
        ))
    };
    let rows: Vec<(i64, Option<i64>, Option<Uuid>)> =
        Sql::Postgres(session).many(READ_ROWS, &[], read)?;
    let epoch = rows.first().map_or(0, |(epoch, ..)| *epoch);
    Ok((
        epoch,
        rows.into_iter()
            .filter_map(|(_, row, job)| row.zip(job))
            .collect(),
    ))
}

/// Writer session: writes one transaction after another, and determines the outcome of the last one if the connection is lost.
pub(super) struct WriterSession {
    row: i64,
    /// Epoch of the server; `None` for a command, which may write while a server runs.
    epoch: Option<i64>,
    link: Link,
    /// Id in the session's row; `None` until the row has been written.
    last: Option<Uuid>,
    /// All sessions' last jobs.
    last_jobs: LastJobs,
    /// Number of the connection for which they were compared with the rows.
    compared: u64,
    /// Reason why this server stops writing.
    over: Option<WriterStop>,
    shared: Shared,
    hook: Arc<CommitHook>,
}

impl WriterSession {
    pub(super) fn new(
        row: i64,
        options: &PostgresOptions,
        shared: Shared,
        hook: Arc<CommitHook>,
        last_jobs: LastJobs,
    ) -> Self {
        let link = Link::new(options.server.clone(), STATEMENT_LIMIT);
        Self {
            row,
            epoch: options.epoch,
            link,
            last: None,
            last_jobs,
            compared: 0,
            over: None,
            shared,
            hook,
        }
    }

    /// Runs jobs until all senders are gone, or another server has taken over.
    pub(super) fn run(mut self, mut jobs: Jobs<Box<dyn Work>>) {
        if self.epoch.is_some() {
            // A server connects before it has something to write, with all sessions at the same time. The first job reports a failure.
            let _ = self.link.session();
        }
        while let Some(mut work) = jobs.wait() {
            let started = Instant::now();
            let committed = self.run_job(work.as_mut(), &mut jobs);
            #[cfg(feature = "faults")]
            let _ = self
                .link
                .session()
                .and_then(|session| super::faults::reach(session, "batch ended"));
            // The hook runs before the reply, as on SQLite.
            self.observe(started.elapsed());
            match &committed {
                Ok(events) if !events.is_empty() => (self.hook)(events),
                Ok(_) => {}
                Err(error) => log::error!("a write was rolled back: {error}"),
            }
            work.finish(committed.as_ref().map(|_| ()));
            // The other jobs of the queue are dropped with it, which replies to them.
            if let Some(over) = self.over {
                let _ = self.shared.stop.set(over);
                log::error!("this server stops writing: {}", over.as_str());
                return;
            }
        }
        self.end();
    }

    fn observe(&self, took: Duration) {
        let StoreMetrics {
            writes_waiting,
            batch,
            commit,
            ..
        } = &self.shared.metrics;
        log::trace!("a transaction has ended");
        writes_waiting.dec();
        batch.observe(1.0);
        commit.observe(took.as_secs_f64());
    }

    /// Runs a job in a transaction, and returns the events that are now durable. An error is the transaction's; a failed job has its own.
    fn run_job(
        &mut self,
        work: &mut dyn Work,
        jobs: &mut Jobs<Box<dyn Work>>,
    ) -> Result<Vec<CommittedEvent>, StoreError> {
        let last = match self.last {
            Some(last) => last,
            None => self.write_row()?,
        };
        // After each reconnection, and before anything is written: lost commits must be noticed first.
        self.compare()?;
        let session = self.link.session()?;
        let (before, job) = (session.waits(), Uuid::now_v7());
        let ended = Transaction {
            session,
            row: self.row,
            epoch: self.epoch,
            last,
            job,
        }
        .run(work, &self.shared);
        self.shared
            .metrics
            .round_trips
            .inc_by(session.waits() - before);
        // A mark without a row means lost commits, a fence without a row means another epoch.
        if self.epoch.is_some() && session.was_set_back() {
            self.over = Some(WriterStop::CommitsLost);
        } else if session.was_fenced() {
            self.over = Some(self.end_of_epoch());
        }
        match ended {
            TransactionOutcome::Committed(events) => {
                self.committed(job);
                Ok(events)
            }
            TransactionOutcome::Refused => Ok(Vec::new()),
            TransactionOutcome::RolledBack(error) => {
                if self.epoch.is_none() {
                    // It may have been the mark: a command writes its row again.
                    self.last = None;
                }
                Err(error)
            }
            TransactionOutcome::InDoubt(events, error) => {
                log::warn!(
                    "the connection was lost during a commit, whose outcome will be read from the database: {error}"
                );
                self.resolve(job, jobs)
                    .and_then(|is_done| if is_done { Ok(events) } else { Err(error) })
            }
        }
    }

    /// Records a committed job.
    fn committed(&mut self, job: Uuid) {
        self.last = Some(job);
        if self.epoch.is_some() {
            self.last_jobs.lock().insert(self.row, job);
        }
    }

    /// Determines why this server's epoch is over: another server has the next one, or the database no longer knows this one.
    fn end_of_epoch(&mut self) -> WriterStop {
        let found = self.link.session().and_then(read_rows);
        match (found, self.epoch) {
            (Ok((found, _)), Some(own)) if found < own => WriterStop::CommitsLost,
            _ => WriterStop::TakenOver,
        }
    }

    /// Compares all sessions' rows with their last jobs, once per connection.
    fn compare(&mut self) -> Result<(), StoreError> {
        let Some(own) = self.epoch else { return Ok(()) };
        if self.compared == 0 {
            // At the first connection, this session has no commits that could be gone, and the others compare their own.
            self.compared = self.link.connections();
        }
        // Copied before the rows are read: the rows may be newer than the copy, never older.
        let last_jobs = self.last_jobs.lock().clone();
        if self.compared == self.link.connections() {
            return Ok(());
        }
        let (epoch, rows) = read_rows(self.link.session()?)?;
        let is_behind = |(row, job): (&i64, &Uuid)| rows.get(row).is_none_or(|found| found < job);
        // Rows of a later epoch belong to another server, which the fence detects.
        if epoch < own || (epoch == own && last_jobs.iter().any(is_behind)) {
            self.over = Some(WriterStop::CommitsLost);
            return Err(StoreError::Unavailable(
                "commits of this server are gone".into(),
            ));
        }
        self.compared = self.link.connections();
        Ok(())
    }

    /// Writes the session's row, but only within this server's epoch: later the row belongs to another server.
    fn write_row(&mut self) -> Result<Uuid, StoreError> {
        let (row, job) = (self.row, Uuid::now_v7());
        let session = self.link.session()?;
        // In one round trip, rather than one each during the first job.
        if self.epoch.is_some() {
            session.prepare_all(&[SET_ROW_IN_EPOCH, FENCE, MARK])?;
        }
        let written = match self.epoch {
            Some(epoch) => session.change(SET_ROW_IN_EPOCH, args![row, job, epoch])?,
            None => session.change(SET_ROW, args![row, job])?,
        };
        if written == 0 {
            self.over = Some(self.end_of_epoch());
            return Err(StoreError::Unavailable(
                "another server has taken over".into(),
            ));
        }
        self.last = Some(job);
        Ok(job)
    }

    /// Determines whether a job is committed. Waits for the database as long as the store is open, and rejects queued jobs meanwhile.
    fn resolve(&mut self, job: Uuid, jobs: &mut Jobs<Box<dyn Work>>) -> Result<bool, StoreError> {
        let away = StoreError::Unavailable("the connection to PostgreSQL has ended".into());
        // Ids that the row may have: the last commit's, the job's, and those written by earlier attempts here.
        let mut known: Vec<Uuid> = self.last.into_iter().chain([job]).collect();
        loop {
            // A failover may take long. Their callers get an error now, and can retry.
            while let Some(other) = jobs.next() {
                self.shared.metrics.writes_waiting.dec();
                other.finish(Err(&away));
            }
            match self.read_row(job, &mut known) {
                Ok(is_done) => return Ok(is_done),
                // Nobody will wait for more attempts, so the caller gets an honest error: the change may be recorded.
                Err(error) if self.over.is_some() || jobs.is_closed() => {
                    let unknown = format!("it is unknown whether the change is recorded: {error}");
                    return Err(StoreError::Unavailable(unknown));
                }
                Err(_) => thread::sleep(self.link.pause().max(RESOLVE_PAUSE)),
            }
        }
    }

    /// Reads the session's row, once the job's transaction is over. If the row does not have the job's id, another id is written, which
    /// makes the job's mark fail if it is still on its way.
    fn read_row(&mut self, job: Uuid, known: &mut Vec<Uuid>) -> Result<bool, StoreError> {
        let (row, other) = (self.row, Uuid::now_v7());
        let session = self.link.session()?;
        let read =
            || Sql::Postgres(session).one(READ_ROW, args![row], |row| row.get::<Uuid>("job"));
        // READ_ROW locks the row, so it waits for the job's transaction if the server still runs it.
        let found = begin(session, self.epoch).and_then(|()| read());
        // Fenced: the row may already belong to another server.
        if session.was_fenced() {
            let _ = session.roll_back();
            self.over = Some(self.end_of_epoch());
            return Err(StoreError::Unavailable(
                "another server has taken over".into(),
            ));
        }
        let is_known =
            !matches!(&found, Ok(found) if found.is_none_or(|found| !known.contains(&found)));
        // A command has a row of its own, which another command may have deleted after a day. For a server, an unknown id means lost
        // commits.
        if self.epoch.is_some() && !is_known {
            let _ = session.roll_back();
            self.over = Some(WriterStop::CommitsLost);
            return Err(StoreError::Unavailable(
                "commits of this server are gone".into(),
            ));
        }
        let last = if matches!(found, Ok(Some(found)) if found == job) {
            job
        } else {
            other
        };
        // In case of an error the loop tries again, and `known` has the id that may have been written.
        known.push(last);
        let written = found.and_then(|_| session.put(SET_ROW, args![row, last]));
        commit_or_undo(session, written)?;
        self.committed(last);
        Ok(last == job)
    }

    /// Deletes a command's row, whose number is unique, and the rows of killed commands.
    fn end(&mut self) {
        let (row, forgotten) = (
            self.row,
            first_id_since(SystemTime::now() - FORGOTTEN_AFTER),
        );
        if self.epoch.is_none()
            && self.last.is_some()
            && let Ok(session) = self.link.session()
        {
            // An error is ignored: the next command deletes the row a day later.
            let _ = session.change(DELETE_ROW, args![row, forgotten]);
        }
    }
}
