//! The engine PostgreSQL: lanes that write and sessions that read, each on a thread of its own. No thread of a runtime waits for a
//! socket.

#[cfg(feature = "faults")]
mod faults;
pub(crate) mod health;
mod import;
pub(crate) mod indexes;
mod lanes;
pub mod lease;
pub(crate) mod migrate;
mod readers;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::writer::{Jobs, Shared, Work, Writer, WriterThreads};
use crate::error::StoreError;
use crate::options::{OlderSchema, PostgresOptions};
use crate::sql::postgres::{PostgresServer, Session};
use crate::tx::CommitHook;
pub(crate) use import::Import;
use lanes::{Lane, LastJobs};
pub(crate) use readers::Readers;

/// The longest time that a statement of a write, of a point read or of a command takes.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// Connects, creates or migrates the schema if it may be, and starts the threads.
pub(crate) fn open(
    options: &PostgresOptions,
    older_schema: OlderSchema,
    shared: &Shared,
    on_commit: CommitHook,
) -> Result<(Writer, WriterThreads, Readers), StoreError> {
    let (hook, last_jobs) = (Arc::new(on_commit), LastJobs::default());
    let lane = |row: i64| {
        let lane = Lane::new(
            row,
            options,
            shared.clone(),
            Arc::clone(&hook),
            Arc::clone(&last_jobs),
        );
        move |jobs: Jobs<Box<dyn Work>>| lane.run(jobs)
    };
    // One more than those of projects, for the jobs of none.
    let lanes = lanes::rows(options).map(lane).collect();
    let (writer, threads) = Writer::start(lanes, shared.metrics.writes_waiting.clone())?;
    let waiting = &shared.metrics.reads_waiting;
    let readers = Readers::start(
        &options.server,
        options.readers,
        waiting,
        options.epoch.is_some(),
    )?;
    // Last: the lanes and the readers of a server connect meanwhile. A session has a runtime of its own, and the caller's thread may
    // belong to another.
    let prepared = thread::scope(|scope| {
        scope
            .spawn(|| migrate::prepare(&options.server, older_schema))
            .join()
    });
    let prepared =
        prepared.unwrap_or_else(|_| Err(StoreError::Fault("the schema was not prepared".into())));
    if let Err(error) = prepared {
        readers.close();
        return Err(error);
    }
    Ok((writer, threads, readers))
}

/// The pauses between attempts to connect: the first, which doubles, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A session, or the wait for one.
pub(super) struct Link {
    server: PostgresServer,
    statement_limit: Duration,
    session: Option<Session>,
    /// How often it has connected.
    connections: u64,
    /// When the next attempt to connect may begin, and the pause after it.
    next_attempt: Option<Instant>,
    pause: Duration,
    /// Why the last attempt failed.
    cause: String,
}

impl Link {
    pub(super) fn new(server: PostgresServer, statement_limit: Duration) -> Self {
        Self {
            server,
            statement_limit,
            session: None,
            connections: 0,
            next_attempt: None,
            pause: PAUSE,
            cause: String::new(),
        }
    }

    /// Returns the session, connecting if there is none. Between attempts it fails at once, so that nobody waits for a server that is
    /// away.
    pub(super) fn session(&mut self) -> Result<&Session, StoreError> {
        if self.session.as_ref().is_some_and(Session::is_broken) {
            self.session = None;
        }
        let session = match self.session.take() {
            Some(session) => session,
            None => self.connect()?,
        };
        Ok(self.session.insert(session))
    }

    /// Returns how often it has connected.
    pub(super) const fn connections(&self) -> u64 {
        self.connections
    }

    /// How long the next attempt has to wait.
    pub(super) fn pause(&self) -> Duration {
        self.next_attempt.map_or(Duration::ZERO, |next| {
            next.saturating_duration_since(Instant::now())
        })
    }

    fn connect(&mut self) -> Result<Session, StoreError> {
        if !self.pause().is_zero() {
            return Err(StoreError::Unavailable(self.cause.clone()));
        }
        match Session::connect(&self.server, self.statement_limit) {
            Ok(session) => {
                (self.next_attempt, self.pause) = (None, PAUSE);
                self.connections += 1;
                Ok(session)
            }
            Err(error) => {
                self.next_attempt = Some(Instant::now() + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.cause = match &error {
                    StoreError::Unavailable(cause) => cause.clone(),
                    other => other.to_string(),
                };
                Err(error)
            }
        }
    }
}
