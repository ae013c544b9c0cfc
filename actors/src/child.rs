//! A supervised child: running, at rest, or waiting to be rebuilt from the database.
//!
//! A child at rest has nothing to do before a message or its deadline comes, and no process until then. One that failed
//! waits longer with each failure in a row, and starts over once it has run well for a while. Messages that come
//! meanwhile wait with it, so that nobody outside notices more than a delay.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::Timestamp;
use ractor::Message;

use crate::info::ActorInfo;
use crate::mailbox::Mailbox;
use crate::timer::Timer;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A child that ran this long had recovered; its next failure is a first one.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Messages that wait for a child at most; past that, its callers are better told to come again.
const WAITING: usize = 1_000;

/// A child of a supervisor.
pub struct Child<M> {
    info: Arc<ActorInfo>,
    failures: u32,
    standing: Standing<M>,
}

/// What a supervisor has to do about a message it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// Nothing.
    Done,
    /// Rebuild the child, which was at rest until this instant; the message waits for it.
    Wake(Timestamp),
}

enum Standing<M> {
    Running(Mailbox<M>),
    Hibernating { until: Timestamp },
    Waiting { messages: Vec<M>, retry: Option<Timer> },
}

impl<M: Message> Child<M> {
    /// A child that runs.
    pub fn running(mailbox: Mailbox<M>) -> Self {
        Self { info: Arc::clone(mailbox.info()), failures: 0, standing: Standing::Running(mailbox) }
    }

    /// A child that could not be started; [`Child::failed`] says when to try again.
    pub fn failed_to_start(info: Arc<ActorInfo>) -> Self {
        Self { info, failures: 0, standing: Standing::Waiting { messages: Vec::new(), retry: None } }
    }

    /// A child that has nothing to do yet.
    pub fn hibernating(info: Arc<ActorInfo>, until: Timestamp) -> Self {
        Self { info, failures: 0, standing: Standing::Hibernating { until } }
    }

    /// Whether it has failed since it last ran well.
    pub fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// The info it carries through restarts.
    pub fn info(&self) -> &Arc<ActorInfo> {
        &self.info
    }

    /// Whether it has nothing to do, and no process.
    pub fn is_hibernating(&self) -> bool {
        matches!(self.standing, Standing::Hibernating { .. })
    }

    /// Its mailbox, while it runs.
    pub fn mailbox(&self) -> Option<&Mailbox<M>> {
        match &self.standing {
            Standing::Running(mailbox) => Some(mailbox),
            Standing::Hibernating { .. } | Standing::Waiting { .. } => None,
        }
    }

    /// Sends, or keeps the message until the child is back. A message past what may wait is dropped; its caller sees
    /// that as no answer.
    pub fn send(&mut self, message: M) -> Sent {
        match &mut self.standing {
            Standing::Hibernating { until } => {
                let until = *until;
                self.standing = Standing::Waiting { messages: vec![message], retry: None };
                return Sent::Wake(until);
            }
            Standing::Running(mailbox) => {
                // It ended just now and its supervisor has not heard of it yet: the message waits until it has.
                if let Err(Some(message)) = mailbox.cast(message) {
                    self.standing = Standing::Waiting { messages: vec![message], retry: None };
                }
            }
            Standing::Waiting { messages, .. } if messages.len() < WAITING => messages.push(message),
            Standing::Waiting { .. } => log::warn!(actor = &*self.info.id; "too many messages wait for a failed actor"),
        }
        Sent::Done
    }

    /// The child has stopped because it has nothing to do. Says whether it may rest; if not, messages wait for it and it
    /// must be rebuilt.
    pub fn rest(&mut self, until: Timestamp) -> bool {
        let wanted = matches!(&self.standing, Standing::Waiting { messages, .. } if !messages.is_empty());
        if !wanted {
            self.standing = Standing::Hibernating { until };
        }
        !wanted
    }

    /// The child is gone for good: what waited for it.
    pub fn into_waiting(self) -> Vec<M> {
        match self.standing {
            Standing::Waiting { messages, .. } => messages,
            Standing::Running(_) | Standing::Hibernating { .. } => Vec::new(),
        }
    }

    /// Notes a failure and says how long to wait before the child is rebuilt.
    pub fn failed(&mut self, now: Timestamp, reason: String) -> Duration {
        if now.since(self.info.started_at()) >= STABLE_AFTER {
            self.failures = 0;
        }
        self.info.record_failure(now, reason);
        if !matches!(self.standing, Standing::Waiting { .. }) {
            self.standing = Standing::Waiting { messages: Vec::new(), retry: None };
        }
        let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_DELAY);
        self.failures += 1;
        delay
    }

    /// Keeps the timer that will try to rebuild it.
    pub fn retry_with(&mut self, timer: Timer) {
        if let Standing::Waiting { retry, .. } = &mut self.standing {
            *retry = Some(timer);
        }
    }

    /// The child is back: it gets what waited for it.
    pub fn restored(&mut self, mailbox: Mailbox<M>) {
        let before = std::mem::replace(&mut self.standing, Standing::Running(mailbox));
        if let Standing::Waiting { messages, .. } = before {
            for message in messages {
                // It runs, so there is nobody to wake.
                let _ = self.send(message);
            }
        }
    }
}
