//! The lease thread, which makes the state machine's requests over its own session.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use conclave_model::LeaseCheck;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::keys::KeyIds;
use super::machine::{Candidate, LeaseMachine, LeaseReply, LeaseStep, Request, Standing};
use super::nodes::{ClusterState, NodeInfo, Reporter};
use super::requests::{self, Claimant};
use super::timing::{LeaseTiming, steady_now};
use super::{ActiveServer, Holder, LeaseState, replace};
use crate::engine::postgres::migrate;
use crate::error::StoreError;
use crate::sql::postgres::{PostgresServer, Session};

/// Function that reads the server's current keys.
pub type ReadKeys = Box<dyn Fn() -> Result<KeyIds, StoreError> + Send>;

/// Lease options.
pub struct LeaseOptions {
    /// Database with the lease.
    pub server: PostgresServer,
    /// This process's identity.
    pub holder: Holder,
    /// Process that has certainly exited: if it holds the lease, this one takes over at once.
    pub predecessor: Option<Holder>,
    /// Lease intervals, equal on all servers.
    pub timing: LeaseTiming,
    /// Description of this server for the others.
    pub node: NodeInfo,
    /// Reads this server's keys.
    pub keys: ReadKeys,
    /// Whether this server has just given up the lease, and yields to other servers.
    pub yields: bool,
}

/// Lease of this process. Cheap to clone. It is released when the last clone is dropped.
#[derive(Clone)]
pub struct Lease {
    state: watch::Receiver<LeaseState>,
    active: watch::Receiver<Option<ActiveServer>>,
    cluster: watch::Receiver<Option<ClusterState>>,
    orders: Sender<Order>,
    /// Interval at which the server list is read while a caller waits for a server.
    read: Duration,
    /// Maximum time until the reply to the next renewal.
    renewal_limit: Duration,
}

/// Instruction for the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Read the server list now, even if it is not due.
    ReadNodes,
    /// Release the lease, and exit.
    Release,
    /// Release the lease, and report which server takes over.
    HandOver,
}

impl Lease {
    /// Starts the thread. The process is a standby at first.
    ///
    /// # Errors
    /// If the thread cannot be started, or the keys cannot be read.
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
        // Read here, before the thread starts, so that a missing key file fails the start.
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

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.state.borrow().clone()
    }

    /// Returns a receiver for the server that holds the lease, which may be this one; `None` while none is known.
    #[must_use]
    pub fn active_server(&self) -> watch::Receiver<Option<ActiveServer>> {
        self.active.clone()
    }

    /// Returns a receiver for the state. It does not keep the lease alive.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Waits for the next renewal by this server, as the active one. Returns whether it is confirmed.
    pub async fn is_renewed(&self) -> bool {
        // A renewal sent before this moment proves nothing: another server may have taken over since.
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

    /// Waits until this server is the active one, and returns its epoch; `None` if it will not become active.
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

    /// Waits for the next change of state. Returns false if there will be none.
    pub async fn changed(&mut self) -> bool {
        self.state.changed().await.is_ok()
    }

    /// Returns once another server has taken over, or the lease thread has stopped by itself.
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        let _ = state
            .wait_for(|state| matches!(state.standing, Standing::Lost { .. }))
            .await;
    }

    /// Releases the lease, as this server's last write, and waits until that is done or has failed.
    pub async fn release(&self) {
        self.stop(Order::Release).await;
    }

    /// Releases the lease like [`Lease::release`]. [`Lease::active_server`] then continues to name the server that takes over, until
    /// `release` or until the last clone is dropped.
    pub async fn hand_over(&self) {
        self.stop(Order::HandOver).await;
    }

    async fn stop(&self, how: Order) {
        // If the thread has stopped, the state is final, and the wait below returns.
        let _ = self.orders.send(how);
        let mut state = self.state.clone();
        let ended = |state: &LeaseState| {
            matches!(state.standing, Standing::Released | Standing::Lost { .. })
        };
        let _ = state.wait_for(ended).await;
    }

    /// Returns the time since the active server's last renewal. On the active server it counts from the sending of the last confirmed
    /// renewal, on others from the read that first showed it. `None` before that.
    #[must_use]
    pub fn renewal_age(&self) -> Option<Duration> {
        self.state.borrow().renewal_age()
    }

    /// Returns the server list, a few seconds old; `None` before the first read.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterState> {
        self.cluster.borrow().clone()
    }

    /// Reads the server list until `holds` returns true, for at most `limit`. Returns the last one read.
    pub async fn read_cluster(
        &self,
        holds: impl Fn(&ClusterState) -> bool,
        limit: Duration,
    ) -> Option<ClusterState> {
        let mut cluster = self.cluster.clone();
        let reading = async {
            loop {
                // Before the order is sent, so that its reply counts as a change.
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
        // After the limit, the last list read is returned.
        let _ = timeout(limit, reading).await;
        self.cluster()
    }

    /// Returns a check whether this server may act outside its database.
    #[must_use]
    pub fn check(&self) -> LeaseCheck {
        let state = self.state.clone();
        LeaseCheck::new(move || {
            // Evaluated at each check: the trust expires without a change of state.
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
    /// Keys, as last read.
    own: KeyIds,
    session: Option<Session>,
    failure: Option<String>,
    publish: watch::Sender<LeaseState>,
    publish_active: watch::Sender<Option<ActiveServer>>,
    reporter: Reporter,
    ordered: Receiver<Order>,
    /// Whether the thread continues to follow the lease after its release.
    follows: bool,
    /// Whether the database lost the commit that started this server's epoch.
    is_set_back: bool,
    /// Whether the records are known to have a schema.
    has_schema: Cell<bool>,
}

impl Driver {
    fn run(mut self) {
        loop {
            self.wait(Duration::ZERO);
            match self.machine.step(steady_now()) {
                LeaseStep::Make(number, request, limit) => {
                    // Published before a release is sent, so that this server has stopped acting when another one starts.
                    self.publish();
                    let answer = self.make(request, limit);
                    // A refused renewal has two causes: a takeover, or a database that lost commits, such as in a failover. Another read shows which.
                    if let (Request::Renew { epoch }, LeaseReply::Refused) = (request, &answer) {
                        self.look_back(epoch);
                    }
                    self.machine.answered(number, answer, steady_now());
                }
                LeaseStep::WaitUntil(at) => self.wait(at.saturating_sub(steady_now())),
                // Each request has its reply before the next step.
                LeaseStep::AwaitReply | LeaseStep::End => break,
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
            // The withdrawal was only sent. The reply to this query shows that it has arrived.
            let _ = self
                .session
                .as_ref()
                .map(|session| session.batch("SELECT 1"));
        }
        self.publish();
    }

    /// Determines why an epoch is over: another server has the next one, or the database lost the commit that started this one.
    fn look_back(&mut self, epoch: i64) {
        if let LeaseReply::Row(row) = self.make(Request::Read, self.timing.answer) {
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

    /// Polls for the server that has taken over the released lease, until [`Lease::release`] or until the last clone is dropped.
    fn follow(&mut self) {
        loop {
            // A failure is logged, and the last known server remains.
            if let LeaseReply::Row(row) = self.make(Request::Read, self.timing.answer) {
                // The row still names this process if the reply to the release was lost.
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

    /// Reports this server to the others, while it runs.
    fn report(&mut self) {
        let is_active = match self.machine.standing() {
            Standing::Active { .. } => true,
            Standing::Standby { .. } => false,
            Standing::Released | Standing::Lost { .. } => return,
        };
        if let Some(session) = &self.session {
            // Renewals use the same session, so a report must not take longer than a renewal may.
            session.limit_answers(self.timing.answer);
            if self
                .reporter
                .report(session, &self.own, is_active, steady_now())
            {
                self.machine.write_refused();
            }
        }
    }

    /// Waits for `time`, or until an instruction arrives.
    fn wait(&mut self, time: Duration) {
        match self.ordered.recv_timeout(time) {
            Ok(order) => self.obey(order),
            Err(RecvTimeoutError::Timeout) => {}
            // The last clone of the lease was dropped.
            Err(RecvTimeoutError::Disconnected) => self.obey(Order::Release),
        }
    }

    fn make(&mut self, request: Request, limit: Duration) -> LeaseReply {
        match self.attempt(request, limit) {
            Ok(answer) => {
                self.failure = None;
                answer
            }
            Err(error) => {
                let failure = error.to_string();
                // Logged once per failure, and not four times a second.
                if self.failure.as_ref() != Some(&failure) {
                    log::warn!("lease request failed: {failure}");
                }
                // The reply may still arrive on this session, so the next request uses a new one.
                (self.session, self.failure) = (None, Some(failure));
                LeaseReply::Failed
            }
        }
    }

    fn attempt(&mut self, request: Request, limit: Duration) -> Result<LeaseReply, StoreError> {
        // Read for each request: a key file may change during a rotation.
        self.own = (self.keys)()?;
        self.machine.set_keys(self.own.clone());
        let session = match self.session.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => self.connect()?,
        };
        session.limit_answers(limit);
        // Withdrawn in the same round trip as the release, so that the others do not count on this server.
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
        // A claim waits for the transactions of the previous server, longer than the session's usual lock timeout.
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
