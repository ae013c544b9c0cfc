//! The session of a thread, which is opened anew after its connection has ended.

use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::sql::postgres::{PostgresServer, Session};

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
