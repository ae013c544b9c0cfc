//! The thread of the lease: it makes the requests of the machine, with a session of its own.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use conclave_model::LeaseCheck;
use tokio::sync::watch;
use uuid::Uuid;

use super::keys::KeyIds;
use super::machine::{Answer, Candidate, LeaseMachine, Request, Standing, Step};
use super::requests::{self, Claimant};
use super::row::{ActiveServer, Holder};
use super::steady;
use super::timing::LeaseTiming;
use crate::error::StoreError;
use crate::postgres::migrate::SCHEMA;
use crate::sql::postgres::{PostgresServer, Session};

/// Returns the keys that a server has at the moment.
pub type ReadKeys = Box<dyn Fn() -> Result<KeyIds, StoreError> + Send>;

/// How a lease is kept.
pub struct LeaseOptions {
    /// The database.
    pub server: PostgresServer,
    /// Its times.
    pub timing: LeaseTiming,
    /// Where the API of this server is reached by the others.
    pub url: String,
    /// The keys of this server.
    pub keys: ReadKeys,
}

/// What is known of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseState {
    /// What this server may do.
    pub standing: Standing,
    /// Why the last request had no answer; `None` if it had one.
    pub failure: Option<String>,
}

/// The lease of this process. Cheap to clone. The lease is released when the last clone is dropped.
#[derive(Clone)]
pub struct Lease {
    state: watch::Receiver<LeaseState>,
    active: watch::Receiver<Option<ActiveServer>>,
    stop: Sender<()>,
    timing: LeaseTiming,
}

impl Lease {
    /// Starts the thread. The process is a standby at first.
    ///
    /// # Errors
    /// The thread cannot be started, or the keys cannot be read.
    pub fn start(options: LeaseOptions) -> Result<Self, StoreError> {
        let LeaseOptions { server, timing, url, keys } = options;
        let holder = Holder(Uuid::new_v4());
        let candidate = Candidate { holder, keys: keys()?, schema: SCHEMA };
        let machine = LeaseMachine::new(timing, candidate);
        let (publish, state) = watch::channel(LeaseState { standing: machine.standing(), failure: None });
        let (publish_active, active) = watch::channel(None);
        let (stop, stopping) = channel();
        let (session, failure) = (None, None);
        let driver =
            Driver { machine, holder, server, timing, url, keys, session, failure, publish, publish_active, stopping };
        let spawned = thread::Builder::new().name("store-lease".into()).spawn(move || driver.run());
        spawned.map_err(|error: io::Error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self { state, active, stop, timing })
    }

    /// Returns what is known now.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.state.borrow().clone()
    }

    /// Returns the server that has the lease, this one included, as it changes; `None` while none is known.
    #[must_use]
    pub fn active_server(&self) -> watch::Receiver<Option<ActiveServer>> {
        self.active.clone()
    }

    /// Waits until this server is the active one and returns its epoch; `None` if it will not be.
    pub async fn active(&self) -> Option<i64> {
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| !matches!(state.standing, Standing::Standby { .. })).await.ok()?;
        if let Standing::Active { epoch, .. } = decided.standing { Some(epoch) } else { None }
    }

    /// Waits until the state is another one. Returns whether there will be more.
    pub async fn changed(&mut self) -> bool {
        self.state.changed().await.is_ok()
    }

    /// Returns once another server has taken over, or the thread of the lease has ended by itself.
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|state| matches!(state.standing, Standing::Lost { .. })).await;
    }

    /// Releases the lease, as the last write of this server, and waits until that is done or has failed.
    pub async fn release(&self) {
        let _ = self.stop.send(());
        let mut state = self.state.clone();
        let ended = |state: &LeaseState| matches!(state.standing, Standing::Released | Standing::Lost { .. });
        let _ = state.wait_for(ended).await;
    }

    /// Returns how long ago the last confirmed renewal was sent; `None` for a standby, or before the first one.
    #[must_use]
    pub fn renewal_age(&self) -> Option<Duration> {
        match self.state.borrow().standing {
            Standing::Active { trusted_until: Some(until), .. } => {
                Some(steady::now().saturating_sub(until.saturating_sub(self.timing.trust)))
            }
            _ => None,
        }
    }

    /// Returns the check whether this server may act outside its database.
    #[must_use]
    pub fn check(&self) -> LeaseCheck {
        let state = self.state.clone();
        LeaseCheck::new(move || {
            let Standing::Active { trusted_until, .. } = state.borrow().standing else { return false };
            trusted_until.is_some_and(|until| steady::now() < until)
        })
    }
}

struct Driver {
    machine: LeaseMachine,
    holder: Holder,
    server: PostgresServer,
    timing: LeaseTiming,
    url: String,
    keys: ReadKeys,
    session: Option<Session>,
    failure: Option<String>,
    publish: watch::Sender<LeaseState>,
    publish_active: watch::Sender<Option<ActiveServer>>,
    stopping: Receiver<()>,
}

impl Driver {
    fn run(mut self) {
        loop {
            if !matches!(self.stopping.try_recv(), Err(TryRecvError::Empty)) {
                self.machine.stop();
            }
            match self.machine.step(steady::now()) {
                Step::Make(number, request, limit) => {
                    // Before a release: its server acts no more.
                    self.publish();
                    let answer = self.make(request, limit);
                    self.machine.answered(number, answer, steady::now());
                }
                Step::WaitUntil(at) => self.wait(at.saturating_sub(steady::now())),
                // Each request is answered before the next step.
                Step::AwaitAnswer | Step::End => break,
            }
            self.publish();
        }
        self.publish();
    }

    fn wait(&mut self, time: Duration) {
        if !matches!(self.stopping.recv_timeout(time), Err(RecvTimeoutError::Timeout)) {
            self.machine.stop();
        }
    }

    fn make(&mut self, request: Request, limit: Duration) -> Answer {
        match self.attempt(request, limit) {
            Ok(answer) => {
                self.failure = None;
                answer
            }
            Err(error) => {
                let failure = error.to_string();
                if self.failure.as_ref() != Some(&failure) {
                    log::warn!("the lease has no answer: {failure}");
                }
                (self.session, self.failure) = (None, Some(failure));
                Answer::Failed
            }
        }
    }

    fn attempt(&mut self, request: Request, limit: Duration) -> Result<Answer, StoreError> {
        let keys = (self.keys)()?;
        self.machine.set_keys(keys.clone());
        let session = match self.session.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => self.connect()?,
        };
        session.limit_answers(limit);
        let claimant = Claimant { holder: self.holder, url: &self.url, keys: &keys };
        let answer = requests::make(&session, request, &claimant)?;
        self.session = Some(session);
        Ok(answer)
    }

    fn connect(&self) -> Result<Session, StoreError> {
        let session = Session::connect(&self.server, self.timing.claim)?;
        // A claim waits for the transactions of the server before.
        session.batch(&format!("SET lock_timeout = {}", self.timing.claim.as_millis()))?;
        requests::prepare(&session)?;
        Ok(session)
    }

    fn publish(&self) {
        let now = LeaseState { standing: self.machine.standing(), failure: self.failure.clone() };
        let active = self.active(now.standing);
        replace(&self.publish, now);
        replace(&self.publish_active, active);
    }

    fn active(&self, standing: Standing) -> Option<ActiveServer> {
        match standing {
            Standing::Standby { .. } => self.machine.active().cloned(),
            Standing::Active { epoch, .. } => Some(ActiveServer { epoch, url: self.url.clone(), is_this: true }),
            Standing::Released | Standing::Lost { .. } => None,
        }
    }
}

/// Sends a value, if it is another than the last one.
fn replace<T: PartialEq>(channel: &watch::Sender<T>, value: T) {
    channel.send_if_modified(|last| {
        let has_changed = *last != value;
        *last = value;
        has_changed
    });
}

#[cfg(test)]
mod tests;
