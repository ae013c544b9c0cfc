//! A supervisor's children. Each one runs, hibernates, or waits to be rebuilt from the database.
//!
//! A hibernating child has nothing to do until a message or its deadline arrives, and has no process until then. A child that failed is
//! rebuilt after a delay that doubles with each failure in a row; while the database cannot be read, it is tried every second. Messages are
//! buffered meanwhile, so callers notice a delay and no error.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use conclave_db::StoreError;
use conclave_model::Timestamp;
use ractor::Message;

use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};
use crate::registry::{ActorStatus, InspectMessage};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// Delay while the store is unavailable. The child itself is fine, and its work is due as soon as the store is back.
const UNAVAILABLE_DELAY: Duration = Duration::from_secs(1);
/// A child that ran this long has recovered: its next failure counts as the first.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Maximum messages buffered for one child.
const WAITING: usize = 1_000;

/// A supervisor's child.
pub struct Child<M> {
    info: Arc<ActorInfo>,
    failures: u32,
    process: Process<M>,
}

/// Result of sending to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendOutcome {
    /// The message was sent, or is buffered for a child that is being rebuilt.
    Done,
    /// The child hibernated until this time. The message is buffered, and the supervisor must rebuild the child.
    Wake(Timestamp),
}

enum Process<M> {
    Running(Mailbox<M>),
    Hibernating {
        until: Timestamp,
    },
    Waiting {
        messages: Vec<M>,
        retry: Option<Timer>,
    },
}

/// Reason for rebuilding a child.
#[derive(Debug, Clone, Copy)]
pub enum RestartCause<'a> {
    /// The child failed or could not be started.
    Actor(&'a str),
    /// The child's records could not be read.
    Store(&'a StoreError),
}

impl fmt::Display for RestartCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Actor(reason) => f.write_str(reason),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<M: Message> Child<M> {
    /// Returns a running child.
    pub fn running(mailbox: Mailbox<M>) -> Self {
        Self {
            info: Arc::clone(mailbox.info()),
            failures: 0,
            process: Process::Running(mailbox),
        }
    }

    /// Returns a child that could not be started.
    pub fn failed_to_start(info: Arc<ActorInfo>) -> Self {
        Self {
            info,
            failures: 0,
            process: Process::Waiting {
                messages: Vec::new(),
                retry: None,
            },
        }
    }

    /// Returns a child that hibernates until its deadline.
    pub fn hibernating(info: Arc<ActorInfo>, until: Timestamp) -> Self {
        Self {
            info,
            failures: 0,
            process: Process::Hibernating { until },
        }
    }

    /// Returns whether the child has failed since it last ran for a minute.
    pub fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Returns whether the child hibernates.
    pub fn is_hibernating(&self) -> bool {
        matches!(self.process, Process::Hibernating { .. })
    }

    /// Returns whether the child need not be rebuilt: it runs or hibernates.
    pub fn is_ready(&self) -> bool {
        !matches!(self.process, Process::Waiting { .. })
    }

    /// Returns the child's mailbox while it runs.
    pub fn mailbox(&self) -> Option<&Mailbox<M>> {
        match &self.process {
            Process::Running(mailbox) => Some(mailbox),
            Process::Hibernating { .. } | Process::Waiting { .. } => None,
        }
    }

    /// Sends a message, or buffers it until the child is rebuilt. Above the maximum, a message is dropped, and its call fails.
    pub fn send(&mut self, message: M) -> SendOutcome {
        match &mut self.process {
            Process::Hibernating { until } => {
                let until = *until;
                self.process = Process::Waiting {
                    messages: vec![message],
                    retry: None,
                };
                return SendOutcome::Wake(until);
            }
            Process::Running(mailbox) => {
                // The child has just stopped, and its supervisor has not been notified yet.
                if let Err(Some(message)) = mailbox.cast(message) {
                    self.process = Process::Waiting {
                        messages: vec![message],
                        retry: None,
                    };
                }
            }
            // Bounded, since a child may fail for as long as its records are damaged.
            Process::Waiting { messages, .. } if messages.len() < WAITING => messages.push(message),
            Process::Waiting { .. } => {
                // The caller's reply port is dropped, so its call fails at once.
                log::warn!(actor = &*self.info.id; "too many messages wait for a failed actor");
            }
        }
        SendOutcome::Done
    }

    /// Hibernates a child that has stopped because it is idle. Returns false if messages are buffered, so that it must be rebuilt.
    pub fn hibernate(&mut self, until: Timestamp) -> bool {
        let has_messages =
            matches!(&self.process, Process::Waiting { messages, .. } if !messages.is_empty());
        if !has_messages {
            self.process = Process::Hibernating { until };
        }
        !has_messages
    }

    /// Returns the messages buffered for a child that is gone for good.
    pub fn into_waiting(self) -> Vec<M> {
        match self.process {
            Process::Waiting { messages, .. } => messages,
            Process::Running(_) | Process::Hibernating { .. } => Vec::new(),
        }
    }

    /// Sends the buffered messages to a rebuilt child.
    pub fn restored(&mut self, mailbox: Mailbox<M>) {
        let before = std::mem::replace(&mut self.process, Process::Running(mailbox));
        if let Process::Waiting { messages, .. } = before {
            for message in messages {
                // The child runs, so it cannot have to be woken.
                let _ = self.send(message);
            }
        }
    }

    /// Returns the identity and counters, which outlive restarts.
    pub fn info(&self) -> &Arc<ActorInfo> {
        &self.info
    }

    /// Records a failure. Returns the delay until the child is rebuilt.
    fn record_failure(&mut self, now: Timestamp, cause: RestartCause<'_>) -> Duration {
        // The delay counts failures in a row. After a minute without one, the next failure is the first again.
        if now.since(self.info.started_at()) >= STABLE_AFTER {
            self.failures = 0;
        }
        self.info.record_failure(now, cause.to_string());
        // A child that failed while it waited keeps its buffered messages.
        if !matches!(self.process, Process::Waiting { .. }) {
            self.process = Process::Waiting {
                messages: Vec::new(),
                retry: None,
            };
        }
        // Not a failure of the child, so the delay does not grow.
        if let RestartCause::Store(StoreError::Unavailable(_)) = cause {
            return UNAVAILABLE_DELAY;
        }
        let delay = FIRST_DELAY
            // The shift is bounded, so that it cannot overflow after many failures.
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST_DELAY);
        self.failures += 1;
        delay
    }

    /// Stores the timer that rebuilds the child.
    fn retry_with(&mut self, timer: Timer) {
        if let Process::Waiting { retry, .. } = &mut self.process {
            *retry = Some(timer);
        }
    }
}

/// Children of one kind, by name.
pub struct ChildSet<K, M> {
    children: HashMap<K, Child<M>>,
    new_info: NewInfo<K>,
}

/// Creates the info of a child that has none yet.
type NewInfo<K> = Box<dyn Fn(&K) -> Arc<ActorInfo> + Send + Sync>;

impl<K: Clone + Eq + Hash + Display, M: InspectMessage> ChildSet<K, M> {
    /// Creates an empty set, whose children get their infos from `new_info`.
    pub fn new(new_info: impl Fn(&K) -> Arc<ActorInfo> + Send + Sync + 'static) -> Self {
        Self {
            children: HashMap::new(),
            new_info: Box::new(new_info),
        }
    }

    /// Counts the children, whether or not they have a process.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns whether there is a child with this name.
    pub fn contains(&self, name: &K) -> bool {
        self.children.contains_key(name)
    }

    /// Returns a child.
    pub fn get(&self, name: &K) -> Option<&Child<M>> {
        self.children.get(name)
    }

    /// Returns a child.
    pub fn get_mut(&mut self, name: &K) -> Option<&mut Child<M>> {
        self.children.get_mut(name)
    }

    /// Records that a child failed or could not start, and arms the timer that sends `restore` to its supervisor `me`. The delay grows with
    /// each failure in a row that is the child's own.
    pub fn restore_later<S: Message>(
        &mut self,
        context: &ActorContext,
        name: &K,
        cause: RestartCause<'_>,
        me: &Mailbox<S>,
        restore: S,
    ) {
        let (clock, child) = (&context.clock, self.supervised(name));
        let now = clock.now();
        let delay = child.record_failure(now, cause);
        context
            .registry
            // Dropping the previous timer cancels it, so a child is restored once.
            .register(child.info(), ActorStatus::Restarting);
        context.metrics.restarted(child.info().kind);
        child.retry_with(Timer::arm(clock, "restore", now.after(delay), me, restore));
    }

    /// Returns a child. An unknown child is added as failed to start.
    pub fn supervised(&mut self, name: &K) -> &mut Child<M> {
        let Self { children, new_info } = self;
        children
            .entry(name.clone())
            .or_insert_with_key(|name| Child::failed_to_start(new_info(name)))
    }

    /// Adds a child without a process.
    pub fn insert(&mut self, name: K, child: Child<M>) {
        self.children.insert(name, child);
    }

    /// Sends to a child that never hibernates. A message to a child that does not exist is dropped.
    pub fn send(&mut self, name: &K, message: M) {
        if let Some(child) = self.children.get_mut(name) {
            // Children of this kind do not hibernate, so none has to be woken.
            let _ = child.send(message);
        }
    }

    /// Sends to all children. None hibernates.
    pub fn send_all(&mut self, message: impl Fn() -> M) {
        for child in self.children.values_mut() {
            let _ = child.send(message());
        }
    }

    /// Returns the mailboxes of the running children.
    pub fn running(&self) -> impl Iterator<Item = &Mailbox<M>> {
        self.children.values().filter_map(Child::mailbox)
    }

    /// Returns the info of a child, or a new one if there is no such child.
    pub fn info(&self, name: &K) -> Arc<ActorInfo> {
        self.get(name)
            .map_or_else(|| (self.new_info)(name), |child| Arc::clone(child.info()))
    }

    /// Adds a child that was spawned, for the first time or again.
    pub fn spawned(&mut self, context: &ActorContext, name: K, mailbox: Mailbox<M>) {
        context.registry.register(
            mailbox.info(),
            ActorStatus::Running(Arc::new(mailbox.clone())),
        );
        match self.children.get_mut(&name) {
            // A child that exists may have buffered messages.
            Some(child) => child.restored(mailbox),
            None => self.insert(name, Child::running(mailbox)),
        }
    }

    /// Removes a child that has stopped for good.
    pub fn remove(&mut self, context: &ActorContext, name: &K) -> Option<Child<M>> {
        let child = self.children.remove(name)?;
        context.registry.deregister(child.info());
        Some(child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::ActorKind;

    fn delays(child: &mut Child<()>, cause: RestartCause<'_>) -> [u64; 10] {
        let now = child.info.started_at();
        [(); 10].map(|()| {
            child
                .record_failure(now, cause)
                .as_millis()
                .try_into()
                .unwrap()
        })
    }

    #[test]
    fn the_delay_grows_with_failures_of_the_child_and_not_while_the_store_is_unavailable() {
        let mut child =
            Child::failed_to_start(ActorInfo::new("room".into(), ActorKind::Room, None, None));
        let unavailable = StoreError::Unavailable("away".into());
        assert_eq!(
            delays(&mut child, RestartCause::Store(&unavailable)),
            [1_000; 10]
        );
        assert!(!child.has_failed());
        let growing = [
            100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000,
        ];
        assert_eq!(delays(&mut child, RestartCause::Actor("broken")), growing);
        let fault = StoreError::Fault("no such table".into());
        assert_eq!(
            delays(&mut child, RestartCause::Store(&fault)),
            [30_000; 10]
        );
        assert!(child.has_failed());
    }
}
