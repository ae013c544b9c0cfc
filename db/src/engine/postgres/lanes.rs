//! The lanes of the writer: a thread, a session, and a transaction for each job.
//!
//! A project keeps its lane, so its jobs, its events and its sequence numbers are in the order of their commits. An error undoes its
//! job alone. What a job does not need an answer to is sent together with its next question, and the end of the job, with the
//! `COMMIT`, in one.
//!
//! Two statements frame the job. Both fail if they find no row, so that the transaction is undone on the server, whatever has been
//! sent behind them:
//!
//! - The *fence* reads the row of `leadership` with the epoch of this server and locks it until the end: another server takes over
//!   after this transaction, or before it, and then the transaction fails.
//! - The *mark* writes the id of the job over that of the last job into the lane's row. If the connection ends during `COMMIT`, the
//!   row tells how it went ([`Lane::resolve`]). If it has neither id, commits are gone: PostgreSQL has failed over to a server that
//!   lacked them, and what this server has in memory is no longer true. So it ends. A lane that connects anew looks at the rows of
//!   all lanes, since some of them may have nothing to write for long.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use uuid::Uuid;

use super::{Link, STATEMENT_LIMIT};
use crate::engine::writer::{JobOutcome, Jobs, Shared, Work, WriterEnd};
use crate::error::StoreError;
use crate::options::{PostgresOptions, StoreMetrics};
use crate::sql::postgres::{CommitError, Session};
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::{CommitHook, CommittedEvent, Tx};

/// Fails with a division by zero once another server has another epoch.
const FENCE: &str = "SELECT 1 / count(*) FROM (SELECT 1 FROM leadership WHERE id = 1 AND epoch = ?1 FOR SHARE) AS held";
/// Fails with a division by zero if the last job of the lane is not `?2`.
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
/// The row of a command, and those of commands that were killed.
const DELETE_ROW: &str = "DELETE FROM lanes WHERE lane = ?1 OR (lane < 0 AND job < ?2)";

/// How old the last job of another command is when its row is deleted. No command takes as long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// The shortest pause between two attempts to find out how a commit has ended.
const RESOLVE_PAUSE: Duration = Duration::from_millis(50);

/// The jobs that the lanes of a server have committed last, by their rows. Ids grow with time.
pub(super) type LastJobs = Arc<Mutex<BTreeMap<i64, Uuid>>>;

/// The rows of the lanes of a store: those of a server have small numbers, and those of others numbers that nobody else has.
pub(super) fn rows(options: &PostgresOptions) -> Range<i64> {
    let lanes = i64::try_from(options.lanes.max(1)).unwrap_or(1) + 1;
    let first = match options.epoch {
        Some(_) => 0,
        None => -i64::from(u32::MAX) - i64::from(Uuid::new_v4().as_fields().0) * (lanes + 1),
    };
    first..first + lanes
}

/// The transaction of a job.
struct Transaction<'a> {
    session: &'a Session,
    row: i64,
    epoch: Option<i64>,
    /// The job that the lane committed last, and this one.
    last: Uuid,
    job: Uuid,
}

/// How the transaction of a job has ended.
enum End {
    /// With these events.
    Committed(Vec<CommittedEvent>),
    /// The job has failed, and has its error.
    Refused,
    /// The transaction has failed.
    RolledBack(StoreError),
    /// The connection ended before the answer.
    InDoubt(Vec<CommittedEvent>, StoreError),
}

impl Transaction<'_> {
    fn run(&self, work: &mut dyn Work, shared: &Shared) -> End {
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
            // If this fails, the connection has ended, and the transaction with it.
            let _ = self.session.roll_back();
            return End::Refused;
        }
        let mark = args![self.row, self.last, self.job];
        let marked = tx
            .rooms
            .write(tx.sql)
            .and_then(|()| self.session.put_mark(MARK, mark));
        if let Err(error) = marked {
            return self.undo(error);
        }
        match self.session.commit() {
            Ok(()) => End::Committed(tx.events),
            Err(CommitError::RolledBack(error)) => End::RolledBack(error),
            Err(CommitError::InDoubt(error)) => End::InDoubt(tx.events, error),
        }
    }

    fn undo(&self, error: StoreError) -> End {
        // If this fails, the connection has ended, and the transaction with it.
        let _ = self.session.roll_back();
        End::RolledBack(error)
    }
}

/// Commits what was written, or undoes it if it was not. The next transaction must not begin inside this one.
fn commit_or_undo(session: &Session, written: Result<(), StoreError>) -> Result<(), StoreError> {
    match written {
        Ok(()) => session.commit().map_err(CommitError::cause),
        Err(error) => {
            let _ = session.roll_back();
            Err(error)
        }
    }
}

/// Begins a transaction, with the fence of a server.
fn begin(session: &Session, epoch: Option<i64>) -> Result<(), StoreError> {
    session.send_text("BEGIN")?;
    match epoch {
        Some(epoch) => session.put_fence(FENCE, args![epoch]),
        None => Ok(()),
    }
}

/// Returns an id that those of this time and later follow.
fn first_id_since(time: SystemTime) -> Uuid {
    let millis = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    uuid::Builder::from_unix_timestamp_millis(u64::try_from(millis).unwrap_or(u64::MAX), &[0; 10])
        .into_uuid()
}

/// Reads the epoch, and the last jobs of the lanes of servers.
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
            .filter_map(|(_, lane, job)| lane.zip(job))
            .collect(),
    ))
}

/// A session that writes one transaction after another, and finds out how the last one ended if the connection is lost.
pub(super) struct Lane {
    row: i64,
    /// The epoch of the server; `None` for a command, which writes beside one.
    epoch: Option<i64>,
    link: Link,
    /// The id in the lane's row; `None` until the row has been written.
    last: Option<Uuid>,
    /// The last jobs of all lanes.
    last_jobs: LastJobs,
    /// The number of the connection for which they were compared with the rows.
    compared: u64,
    /// Why this server writes no more.
    over: Option<WriterEnd>,
    shared: Shared,
    hook: Arc<CommitHook>,
}

impl Lane {
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

    /// Runs jobs until none can come any more, or another server has taken over.
    pub(super) fn run(mut self, mut jobs: Jobs<Box<dyn Work>>) {
        if self.epoch.is_some() {
            // Before there is something to write, since the lanes of a server connect all at once. A failure is one of the first job.
            let _ = self.link.session();
        }
        while let Some(mut work) = jobs.wait() {
            let begun = Instant::now();
            let committed = self.run_job(work.as_mut(), &mut jobs);
            #[cfg(feature = "faults")]
            let _ = self
                .link
                .session()
                .and_then(|session| super::faults::reach(session, "batch ended"));
            self.observe(begun.elapsed());
            match &committed {
                Ok(events) if !events.is_empty() => (self.hook)(events),
                Ok(_) => {}
                Err(error) => log::error!("a write was rolled back: {error}"),
            }
            work.finish(committed.as_ref().map(|_| ()));
            if let Some(over) = self.over {
                let _ = self.shared.end.set(over);
                log::error!("this server writes no more: {}", over.as_str());
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

    /// Runs a job in a transaction and returns the events that are now durable. An error is one of the transaction: that of a job
    /// that has failed is with the job.
    fn run_job(
        &mut self,
        work: &mut dyn Work,
        jobs: &mut Jobs<Box<dyn Work>>,
    ) -> Result<Vec<CommittedEvent>, StoreError> {
        let last = match self.last {
            Some(last) => last,
            None => self.write_row()?,
        };
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
        if self.epoch.is_some() && session.was_set_back() {
            self.over = Some(WriterEnd::CommitsLost);
        } else if session.was_fenced() {
            self.over = Some(self.end_of_epoch());
        }
        match ended {
            End::Committed(events) => {
                self.committed(job);
                Ok(events)
            }
            End::Refused => Ok(Vec::new()),
            End::RolledBack(error) => {
                if self.epoch.is_none() {
                    // It may have been the mark: the row of a command is written anew.
                    self.last = None;
                }
                Err(error)
            }
            End::InDoubt(events, error) => {
                log::warn!(
                    "the connection ended during a commit, and the lane finds out whether it is done: {error}"
                );
                self.resolve(job, jobs)
                    .and_then(|is_done| if is_done { Ok(events) } else { Err(error) })
            }
        }
    }

    /// Notes that a job is committed.
    fn committed(&mut self, job: Uuid) {
        self.last = Some(job);
        if self.epoch.is_some() {
            self.last_jobs.lock().insert(self.row, job);
        }
    }

    /// Finds out why the epoch of this server is over: another one has the next, or the database does not know this one any more.
    fn end_of_epoch(&mut self) -> WriterEnd {
        let found = self.link.session().and_then(read_rows);
        match (found, self.epoch) {
            (Ok((found, _)), Some(own)) if found < own => WriterEnd::CommitsLost,
            _ => WriterEnd::TakenOver,
        }
    }

    /// Compares the rows of all lanes with what they have committed, once for each connection.
    fn compare(&mut self) -> Result<(), StoreError> {
        let Some(own) = self.epoch else { return Ok(()) };
        if self.compared == 0 {
            // Nothing of this lane can be gone yet, and the others compare for themselves.
            self.compared = self.link.connections();
        }
        // Before the rows are read: they may be newer than this, and never older.
        let last_jobs = self.last_jobs.lock().clone();
        if self.compared == self.link.connections() {
            return Ok(());
        }
        let (epoch, rows) = read_rows(self.link.session()?)?;
        let is_behind = |(row, job): (&i64, &Uuid)| rows.get(row).is_none_or(|found| found < job);
        // The rows of a later epoch are those of another server, which the fence finds.
        if epoch < own || (epoch == own && last_jobs.iter().any(is_behind)) {
            self.over = Some(WriterEnd::CommitsLost);
            return Err(StoreError::Unavailable(
                "commits of this server are gone".into(),
            ));
        }
        self.compared = self.link.connections();
        Ok(())
    }

    /// Writes the row of the lane, in a server's epoch: later it is the row of a lane of another server.
    fn write_row(&mut self) -> Result<Uuid, StoreError> {
        let (row, job) = (self.row, Uuid::now_v7());
        let session = self.link.session()?;
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

    /// Finds out whether a job is committed. Waits for the server as long as the store is open; the jobs that come meanwhile are
    /// refused.
    fn resolve(&mut self, job: Uuid, jobs: &mut Jobs<Box<dyn Work>>) -> Result<bool, StoreError> {
        let away = StoreError::Unavailable("the connection to PostgreSQL has ended".into());
        // The ids that the row can have.
        let mut known: Vec<Uuid> = self.last.into_iter().chain([job]).collect();
        loop {
            while let Some(other) = jobs.next() {
                self.shared.metrics.writes_waiting.dec();
                other.finish(Err(&away));
            }
            match self.read_row(job, &mut known) {
                Ok(is_done) => return Ok(is_done),
                Err(error) if self.over.is_some() || jobs.is_closed() => {
                    let unknown =
                        format!("it is not known whether the change is recorded: {error}");
                    return Err(StoreError::Unavailable(unknown));
                }
                Err(_) => thread::sleep(self.link.pause().max(RESOLVE_PAUSE)),
            }
        }
    }

    /// Reads the lane's row, once the transaction of the job has ended. If that is not in the row, another id is written, over which
    /// the job cannot write its own: what of it is still on its way fails.
    fn read_row(&mut self, job: Uuid, known: &mut Vec<Uuid>) -> Result<bool, StoreError> {
        let (row, other) = (self.row, Uuid::now_v7());
        let session = self.link.session()?;
        let read =
            || Sql::Postgres(session).one(READ_ROW, args![row], |row| row.get::<Uuid>("job"));
        let found = begin(session, self.epoch).and_then(|()| read());
        if session.was_fenced() {
            let _ = session.roll_back();
            self.over = Some(self.end_of_epoch());
            return Err(StoreError::Unavailable(
                "another server has taken over".into(),
            ));
        }
        let is_known =
            !matches!(&found, Ok(found) if found.is_none_or(|found| !known.contains(&found)));
        if self.epoch.is_some() && !is_known {
            let _ = session.roll_back();
            self.over = Some(WriterEnd::CommitsLost);
            return Err(StoreError::Unavailable(
                "commits of this server are gone".into(),
            ));
        }
        let last = if matches!(found, Ok(Some(found)) if found == job) {
            job
        } else {
            other
        };
        known.push(last);
        let written = found.and_then(|_| session.put(SET_ROW, args![row, last]));
        commit_or_undo(session, written)?;
        self.committed(last);
        Ok(last == job)
    }

    /// Deletes the row of a command, whose number is unique, and the rows of commands that were killed.
    fn end(&mut self) {
        let (row, forgotten) = (
            self.row,
            first_id_since(SystemTime::now() - FORGOTTEN_AFTER),
        );
        if self.epoch.is_none()
            && self.last.is_some()
            && let Ok(session) = self.link.session()
        {
            let _ = session.change(DELETE_ROW, args![row, forgotten]);
        }
    }
}
