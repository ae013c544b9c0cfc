//! The thread of the lease: it makes the requests of the machine, with a session of its own.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use conclave_model::LeaseCheck;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::keys::KeyIds;
use super::machine::{Answer, Candidate, LeaseMachine, Request, Standing, Step};
use super::nodes::{ClusterState, NodeInfo, Reporter};
use super::requests::{self, Claimant};
use super::timing::{LeaseTiming, steady_now};
use super::{ActiveServer, Holder, LeaseState, replace};
use crate::engine::postgres::migrate;
use crate::error::StoreError;
use crate::sql::postgres::{PostgresServer, Session};

/// Returns the keys that a server has at the moment.
pub type ReadKeys = Box<dyn Fn() -> Result<KeyIds, StoreError> + Send>;

/// How a lease is kept.
pub struct LeaseOptions {
    /// The database whose lease it is.
    pub server: PostgresServer,
    /// The identity of this process.
    pub holder: Holder,
    /// A process that has ended for certain: if it holds the lease, this one takes over at once.
    pub predecessor: Option<Holder>,
    /// How often the lease is renewed, and when it is over.
    pub timing: LeaseTiming,
    /// What the others are told of this server.
    pub node: NodeInfo,
    /// The keys of this server.
    pub keys: ReadKeys,
    /// Whether the others come first, since this server has just given up the lease.
    pub yields: bool,
}

/// The lease of this process. Cheap to clone. The lease is released when the last clone is dropped.
#[derive(Clone)]
pub struct Lease {
    state: watch::Receiver<LeaseState>,
    active: watch::Receiver<Option<ActiveServer>>,
    cluster: watch::Receiver<Option<ClusterState>>,
    orders: Sender<Order>,
    /// Interval at which the servers of the database are read while one of them is waited for.
    read: Duration,
    /// The longest time until the next renewal is answered.
    renewal_limit: Duration,
}

/// An instruction for the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Read which servers run, before that is due.
    ReadNodes,
    /// Release the lease, and end.
    Release,
    /// Release the lease, and follow which server takes over.
    HandOver,
}

impl Lease {
    /// Starts the thread. The process is a standby at first.
    ///
    /// # Errors
    /// The thread cannot be started, or the keys cannot be read.
    pub fn start(options: LeaseOptions) -> Result<Self, StoreError> {
        let LeaseOptions {
            server,
            holder,
            predecessor,
            timing,
            node,
            keys,
            yields,
        } = options;
        let own = keys()?;
        let candidate = Candidate {
            holder,
            predecessor,
            keys: own.clone(),
            schema: migrate::newest(),
        };
        let mut machine = LeaseMachine::new(timing, candidate);
        if yields {
            machine.yield_once();
        }
        let (publish, state) = watch::channel(LeaseState {
            standing: machine.standing(),
            failure: None,
            is_set_back: false,
            renewed: None,
        });
        let (publish_active, active) = watch::channel(None);
        let (seen, cluster) = watch::channel(None);
        let (orders, ordered) = channel();
        let url = node.url.clone();
        let reporter = Reporter::new(holder, node, timing.report, seen);
        let driver = Driver {
            machine,
            holder,
            server,
            timing,
            url,
            keys,
            own,
            session: None,
            failure: None,
            publish,
            publish_active,
            reporter,
            ordered,
            follows: false,
            is_set_back: false,
            has_schema: Cell::new(false),
        };
        let spawned = thread::Builder::new()
            .name("store-lease".into())
            .spawn(move || driver.run());
        spawned.map_err(|error: io::Error| StoreError::Unavailable(error.to_string()))?;
        let renewal_limit = timing.renewal + timing.answer;
        Ok(Self {
            state,
            active,
            cluster,
            orders,
            read: timing.read,
            renewal_limit,
        })
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

    /// Returns what is known, as it changes. It keeps no lease.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Waits for the next renewal of this server, as the active one. Returns whether it is confirmed.
    pub async fn is_renewed(&self) -> bool {
        let (asked, mut state) = (steady_now(), self.state.clone());
        let is_active = |state: &LeaseState| matches!(state.standing, Standing::Active { .. });
        let is_decided = |state: &LeaseState| {
            state.failure.is_some()
                || !is_active(state)
                || state.renewed.is_some_and(|renewed| renewed >= asked)
        };
        match timeout(self.renewal_limit, state.wait_for(is_decided)).await {
            Ok(Ok(state)) => state.failure.is_none() && is_active(&state),
            _ => false,
        }
    }

    /// Waits until this server is the active one and returns its epoch; `None` if it will not be.
    pub async fn active(&self) -> Option<i64> {
        let mut state = self.state.clone();
        let decided = state
            .wait_for(|state| !matches!(state.standing, Standing::Standby { .. }))
            .await
            .ok()?;
        if let Standing::Active { epoch, .. } = decided.standing {
            Some(epoch)
        } else {
            None
        }
    }

    /// Waits until the state is another one. Returns whether there will be more.
    pub async fn changed(&mut self) -> bool {
        self.state.changed().await.is_ok()
    }

    /// Returns once another server has taken over, or the thread of the lease has ended by itself.
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        let _ = state
            .wait_for(|state| matches!(state.standing, Standing::Lost { .. }))
            .await;
    }

    /// Releases the lease, as the last write of this server, and waits until that is done or has failed.
    pub async fn release(&self) {
        self.stop(Order::Release).await;
    }

    /// Releases the lease, as [`Lease::release`] does. [`Lease::active_server`] goes on to name the server that takes over, until
    /// `release` or until the last clone is dropped.
    pub async fn hand_over(&self) {
        self.stop(Order::HandOver).await;
    }

    async fn stop(&self, how: Order) {
        let _ = self.orders.send(how);
        let mut state = self.state.clone();
        let ended = |state: &LeaseState| {
            matches!(state.standing, Standing::Released | Standing::Lost { .. })
        };
        let _ = state.wait_for(ended).await;
    }

    /// Returns how long ago the active server has last renewed the lease: from the sending of the last confirmed renewal, if that is
    /// this server, else from when the last one was seen. `None` before that.
    #[must_use]
    pub fn renewal_age(&self) -> Option<Duration> {
        self.state.borrow().renewal_age()
    }

    /// Returns the servers of the database, as of a few seconds ago; `None` before they were read.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterState> {
        self.cluster.borrow().clone()
    }

    /// Reads the servers of the database until they are as `holds` says, for `limit` at the most. Returns them as they were read last.
    pub async fn read_cluster(
        &self,
        holds: impl Fn(&ClusterState) -> bool,
        limit: Duration,
    ) -> Option<ClusterState> {
        let mut cluster = self.cluster.clone();
        let reading = async {
            loop {
                cluster.mark_unchanged();
                let is_told = self.orders.send(Order::ReadNodes).is_ok();
                if !is_told
                    || cluster.changed().await.is_err()
                    || cluster.borrow().as_ref().is_some_and(&holds)
                {
                    return;
                }
                sleep(self.read).await;
            }
        };
        // What was read last is all that is known then.
        let _ = timeout(limit, reading).await;
        self.cluster()
    }

    /// Returns the check whether this server may act outside its database.
    #[must_use]
    pub fn check(&self) -> LeaseCheck {
        let state = self.state.clone();
        LeaseCheck::new(move || {
            let Standing::Active { trusted_until, .. } = state.borrow().standing else {
                return false;
            };
            trusted_until.is_some_and(|until| steady_now() < until)
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
    /// The keys that were read last.
    own: KeyIds,
    session: Option<Session>,
    failure: Option<String>,
    publish: watch::Sender<LeaseState>,
    publish_active: watch::Sender<Option<ActiveServer>>,
    reporter: Reporter,
    ordered: Receiver<Order>,
    /// Whether the thread goes on to follow the lease once it is released.
    follows: bool,
    is_set_back: bool,
    /// Whether the records are known to have a schema.
    has_schema: Cell<bool>,
}

impl Driver {
    fn run(mut self) {
        loop {
            self.wait(Duration::ZERO);
            match self.machine.step(steady_now()) {
                Step::Make(number, request, limit) => {
                    // Before a release: its server acts no more.
                    self.publish();
                    let answer = self.make(request, limit);
                    if let (Request::Renew { epoch }, Answer::Refused) = (request, &answer) {
                        self.look_back(epoch);
                    }
                    self.machine.answered(number, answer, steady_now());
                }
                Step::WaitUntil(at) => self.wait(at.saturating_sub(steady_now())),
                // Each request is answered before the next step.
                Step::AwaitAnswer | Step::End => break,
            }
            self.publish();
            self.report();
        }
        if self.follows && self.machine.standing() == Standing::Released {
            self.publish();
            self.follow();
        }
        if self
            .session
            .as_ref()
            .is_some_and(|session| self.reporter.withdraw(session).is_ok())
        {
            // What was sent has arrived with the answer to this.
            let _ = self
                .session
                .as_ref()
                .map(|session| session.batch("SELECT 1"));
        }
        self.publish();
    }

    /// Finds out why an epoch is over: another server has the next one, or the database does not know this one any more.
    fn look_back(&mut self, epoch: i64) {
        if let Answer::Row(row) = self.make(Request::Read, self.timing.answer) {
            self.is_set_back = row.beat.epoch < epoch
                || (row.beat.epoch == epoch && row.holder != Some(self.holder));
        }
    }

    fn obey(&mut self, order: Order) {
        if order == Order::ReadNodes {
            self.reporter.report_next();
            self.report();
        } else {
            self.follows = order == Order::HandOver;
            self.machine.stop();
        }
    }

    /// Reads which server has taken over the released lease, until that is not to be known any more.
    fn follow(&mut self) {
        loop {
            // A failure is logged, and leaves what was known.
            if let Answer::Row(row) = self.make(Request::Read, self.timing.answer) {
                // The row still names this process if the release had no answer.
                let is_released = row.holder != Some(self.holder);
                replace(
                    &self.publish_active,
                    row.active_server().filter(|_| is_released),
                );
            }
            if !matches!(
                self.ordered.recv_timeout(self.timing.read),
                Err(RecvTimeoutError::Timeout) | Ok(Order::ReadNodes)
            ) {
                return;
            }
        }
    }

    /// Tells the others of this server, as long as it runs.
    fn report(&mut self) {
        let is_active = match self.machine.standing() {
            Standing::Active { .. } => true,
            Standing::Standby { .. } => false,
            Standing::Released | Standing::Lost { .. } => return,
        };
        if let Some(session) = &self.session {
            session.limit_answers(self.timing.answer);
            if self
                .reporter
                .report(session, &self.own, is_active, steady_now())
            {
                self.machine.write_refused();
            }
        }
    }

    /// Waits for so long, or until an instruction arrives.
    fn wait(&mut self, time: Duration) {
        match self.ordered.recv_timeout(time) {
            Ok(order) => self.obey(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.obey(Order::Release),
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
        self.own = (self.keys)()?;
        self.machine.set_keys(self.own.clone());
        let session = match self.session.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => self.connect()?,
        };
        session.limit_answers(limit);
        if let Request::Release { .. } = request {
            self.reporter.withdraw(&session)?;
        }
        let claimant = Claimant {
            holder: self.holder,
            url: &self.url,
            keys: &self.own,
        };
        let answer = requests::make(&session, request, &claimant, &self.has_schema)?;
        self.session = Some(session);
        Ok(answer)
    }

    fn connect(&self) -> Result<Session, StoreError> {
        let session = Session::connect(&self.server, self.timing.claim)?;
        // A claim waits for the transactions of the server before.
        session.batch(&format!(
            "SET lock_timeout = {}",
            self.timing.claim.as_millis()
        ))?;
        requests::prepare(&session)?;
        Ok(session)
    }

    fn publish(&self) {
        let (standing, renewed) = (self.machine.standing(), self.machine.last_renewal());
        let active = self.active(standing);
        let state = LeaseState {
            standing,
            failure: self.failure.clone(),
            is_set_back: self.is_set_back,
            renewed,
        };
        replace(&self.publish, state);
        replace(&self.publish_active, active);
    }

    fn active(&self, standing: Standing) -> Option<ActiveServer> {
        match standing {
            Standing::Standby { .. } => self.machine.active().cloned(),
            Standing::Active { epoch, .. } => Some(ActiveServer {
                epoch,
                url: self.url.clone(),
                is_this: true,
            }),
            Standing::Released | Standing::Lost { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
