//! The engine PostgreSQL: sessions that write and sessions that read, each on a thread of its own. No thread of a runtime waits for a
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
use lanes::{LastJobs, WriterSession};
pub(crate) use readers::Readers;

/// Maximum statement duration in a write, a point read or a command.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// Connects, creates or migrates the schema if allowed, and starts the threads.
pub(crate) fn open(
    options: &PostgresOptions,
    older_schema: OlderSchema,
    shared: &Shared,
    on_commit: CommitHook,
) -> Result<(Writer, WriterThreads, Readers), StoreError> {
    let (hook, last_jobs) = (Arc::new(on_commit), LastJobs::default());
    let session = |row: i64| {
        let session = WriterSession::new(
            row,
            options,
            shared.clone(),
            Arc::clone(&hook),
            Arc::clone(&last_jobs),
        );
        move |jobs: Jobs<Box<dyn Work>>| session.run(jobs)
    };
    // `rows` has one more than the setting, for jobs that belong to no project.
    let sessions = lanes::rows(options).map(session).collect();
    let (writer, threads) = Writer::start(sessions, shared.metrics.writes_waiting.clone())?;
    let waiting = &shared.metrics.reads_waiting;
    let readers = Readers::start(
        &options.server,
        options.readers,
        waiting,
        options.epoch.is_some(),
    )?;
    // Last: a server's sessions connect meanwhile. On a thread of its own, since a session has its own runtime, and the caller's thread may
    // belong to another one.
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

/// Pauses between connection attempts: the first one, which doubles, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Session, or the wait for the next connection attempt.
pub(super) struct Link {
    server: PostgresServer,
    statement_limit: Duration,
    session: Option<Session>,
    /// Successful connections.
    connections: u64,
    /// Earliest time of the next attempt, and the pause after it.
    next_attempt: Option<Instant>,
    pause: Duration,
    /// Last attempt's error.
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

    /// Returns the session, connecting if there is none. Between attempts it fails at once, so that callers do not wait for an unreachable
    /// server.
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

    /// Returns the time until the next attempt is allowed.
    pub(super) fn pause(&self) -> Duration {
        self.next_attempt.map_or(Duration::ZERO, |next| {
            next.saturating_duration_since(Instant::now())
        })
    }

    fn connect(&mut self) -> Result<Session, StoreError> {
        // The cause of the last attempt is reported until the next one.
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
