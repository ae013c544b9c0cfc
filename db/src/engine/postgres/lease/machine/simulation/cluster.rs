//! Servers, their clocks, the network, and the order of events. Times are milliseconds of true
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use uuid::Uuid;

use super::super::{
    Candidate, Holder, KeyIds, LeaseMachine, LeaseReply, LeaseStep, LeaseTiming, Request,
    RequestNumber, Standing,
};
use super::{Database, Pending};

/// Milliseconds between the exit of a process and its next start.
const RESTART: u64 = 700;
/// Milliseconds after which the database ends an idle transaction.
const IDLE_IN_TRANSACTION: u64 = 2_000;

/// Injected fault.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// A process does nothing for a while.
    Pause { server: usize, millis: u64 },
    /// A process exits and is started again.
    Kill { server: usize },
    /// A process releases the lease, exits and is started again.
    Stop { server: usize },
    /// The database does nothing for a while.
    Hang { millis: u64 },
    /// The database accepts only reads for a while.
    ReadOnly { millis: u64 },
    /// A share of a server's requests and replies is lost for a while.
    Lose {
        server: usize,
        percent: u32,
        millis: u64,
    },
}

/// Process: the number of its server, and of its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    server: usize,
    start: u64,
}

#[derive(Debug, Clone)]
enum Event {
    Fault(Fault),
    Start(usize),
    /// A process checks for its next action.
    Wake(Process),
    /// A lease request reaches the database.
    Arrive(Process, RequestNumber, Request, Holder),
    /// A reply reaches a process.
    Reply(Process, RequestNumber, LeaseReply),
    /// A process starts a transaction.
    Write(Process),
    /// A transaction reaches the database.
    Begin(Process, u64, i64),
    /// A process learns whether its transaction has started.
    Begun(Process, u64, bool),
    /// A commit reaches the database.
    Commit(u64),
    /// The database ends an idle transaction.
    EndIdle(u64),
}

struct Server {
    /// Clock rate: milliseconds that its clock advances in three seconds.
    rate: u64,
    start: u64,
    machine: LeaseMachine,
    holder: Holder,
    /// Process that exited last.
    predecessor: Option<Holder>,
    paused_until: u64,
    loss: (u32, u64),
    is_stopping: bool,
}

impl Server {
    fn local(&self, now: u64) -> Duration {
        Duration::from_micros(now * self.rate / 3)
    }

    /// Returns the true time at which the clock shows `local`.
    fn true_time(&self, local: Duration) -> u64 {
        u64::try_from(local.as_micros())
            .unwrap()
            .saturating_mul(3)
            .div_ceil(self.rate)
    }
}

pub(super) struct SimulatedCluster {
    now: u64,
    rng: Rng,
    /// Maximum delay of a request or a reply without a fault.
    delay: u64,
    servers: Vec<Server>,
    database: Database<(Process, RequestNumber)>,
    hangs_until: u64,
    read_only_until: u64,
    /// Scheduled events, by time and scheduling order.
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    /// Process of each epoch.
    epochs: BTreeMap<i64, Process>,
    last_committed: i64,
    problems: BTreeSet<String>,
    has_faults: bool,
}

impl SimulatedCluster {
    pub fn new(seed: u64, clocks: &[u64], delay: u64) -> Self {
        let mut cluster = Self {
            now: 0,
            rng: Rng::with_seed(seed),
            delay,
            servers: Vec::new(),
            database: Database::new(),
            hangs_until: 0,
            read_only_until: 0,
            events: BTreeMap::new(),
            numbers: 0,
            epochs: BTreeMap::new(),
            last_committed: 0,
            problems: BTreeSet::new(),
            has_faults: true,
        };
        for &rate in clocks {
            let server = cluster.servers.len();
            let (machine, holder) = machine(server, 0, None);
            let (start, predecessor, paused_until, loss) = (0, None, 0, (0, 0));
            let is_stopping = false;
            cluster.servers.push(Server {
                rate,
                start,
                machine,
                holder,
                predecessor,
                paused_until,
                loss,
                is_stopping,
            });
            // Servers start at different times, so that the order of the first claims varies.
            let at = cluster.rng.u64(0..2_000);
            cluster.schedule_event(at, Event::Start(server));
        }
        cluster
    }

    pub fn schedule(&mut self, at: u64, fault: Fault) {
        self.schedule_event(at, Event::Fault(fault));
    }

    pub fn end_faults(&mut self) {
        self.has_faults = false;
        // Faults that would last longer end now, too: the recovery time starts here.
        self.hangs_until = self.hangs_until.min(self.now);
        self.read_only_until = self.read_only_until.min(self.now);
        for server in &mut self.servers {
            server.loss = (0, 0);
            server.paused_until = server.paused_until.min(self.now);
        }
    }

    pub fn problems(&self) -> &BTreeSet<String> {
        &self.problems
    }

    pub fn epoch(&self) -> i64 {
        self.database.epoch()
    }

    pub fn has_trusted_server(&self) -> bool {
        self.servers
            .iter()
            .any(|server| self.trusted_epoch(server) == Some(self.database.epoch()))
    }

    pub fn run_until(&mut self, end: u64) {
        while let Some(first) = self
            .events
            .first_entry()
            .filter(|first| first.key().0 <= end)
        {
            let ((at, _), event) = first.remove_entry();
            self.now = at;
            self.run(event);
        }
        self.now = end;
    }

    fn schedule_event(&mut self, at: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((at, self.numbers), event);
    }

    fn run(&mut self, event: Event) {
        self.database.is_read_only = self.now < self.read_only_until;
        match event {
            // The connection breaks when the database continues.
            Event::Arrive(process, number, ..)
                if self.now < self.hangs_until && self.rng.bool() =>
            {
                self.schedule_event(
                    self.hangs_until,
                    Event::Reply(process, number, LeaseReply::Failed),
                );
            }
            // The others reach the database late, but do.
            Event::Arrive(..) | Event::Begin(..) | Event::Commit(_) | Event::EndIdle(_)
                if self.now < self.hangs_until =>
            {
                self.schedule_event(self.hangs_until, event);
            }
            Event::Wake(process)
            | Event::Reply(process, ..)
            | Event::Write(process)
            | Event::Begun(process, ..)
                if self.now < self.servers[process.server].paused_until =>
            {
                self.schedule_event(self.servers[process.server].paused_until, event);
            }
            Event::Fault(fault) => self.fault(fault),
            Event::Start(server) => self.start(server),
            Event::Wake(process) => self.wake(process),
            Event::Arrive(process, number, request, holder) => {
                let answers = self.database.run(Pending {
                    holder,
                    request,
                    from: (process, number),
                });
                self.answers(answers);
            }
            Event::Reply(process, number, answer) => self.answer(process, number, answer),
            Event::Write(process) => self.write(process),
            Event::Begin(process, id, epoch) => {
                // PostgreSQL's idle_in_transaction_session_timeout, without which a paused server
                // would block a takeover.
                let is_current = self.database.begin(id, epoch);
                self.schedule_event(self.now + IDLE_IN_TRANSACTION, Event::EndIdle(id));
                self.send(process, Event::Begun(process, id, is_current));
            }
            Event::Begun(process, id, is_current) => self.begun(process, id, is_current),
            Event::Commit(id) => self.ended(id, true),
            Event::EndIdle(id) => self.ended(id, false),
        }
    }

    fn fault(&mut self, fault: Fault) {
        let count = self.servers.len();
        match fault {
            // Scheduled before the faults ended.
            _ if !self.has_faults => {}
            Fault::Hang { millis } => self.hangs_until = self.now + millis,
            Fault::ReadOnly { millis } => self.read_only_until = self.now + millis,
            Fault::Pause { server, millis } => {
                self.servers[server % count].paused_until = self.now + millis;
            }
            Fault::Lose {
                server,
                percent,
                millis,
            } => self.servers[server % count].loss = (percent, self.now + millis),
            Fault::Kill { server } => self.end(server % count),
            Fault::Stop { server } => {
                let server = server % count;
                let stopped = &mut self.servers[server];
                stopped.is_stopping = true;
                stopped.machine.stop();
                let process = Process {
                    server,
                    start: stopped.start,
                };
                self.schedule_event(self.now, Event::Wake(process));
            }
        }
    }

    /// Ends a process. Its server is started again a little later.
    fn end(&mut self, server: usize) {
        let ended = &mut self.servers[server];
        ended.start += 1;
        // A restarted server knows its predecessor, as it would from its data directory.
        ended.predecessor = Some(ended.holder);
        (ended.machine, ended.holder) = machine(server, ended.start, None);
        self.schedule_event(self.now + RESTART, Event::Start(server));
    }

    fn start(&mut self, server: usize) {
        let running = &mut self.servers[server];
        running.start += 1;
        (running.machine, running.holder) = machine(server, running.start, running.predecessor);
        (running.is_stopping, running.paused_until) = (false, 0);
        let process = Process {
            server,
            start: running.start,
        };
        self.schedule_event(self.now, Event::Wake(process));
        self.schedule_event(self.now, Event::Write(process));
    }

    /// Returns the state machine of a process, unless the process has exited.
    fn machine(&mut self, process: Process) -> Option<(&mut LeaseMachine, Duration)> {
        let now = self.now;
        let server = &mut self.servers[process.server];
        let local = server.local(now);
        // Events for a process that has exited are dropped.
        (server.start == process.start).then_some((&mut server.machine, local))
    }

    fn wake(&mut self, process: Process) {
        let Some((machine, local)) = self.machine(process) else {
            return;
        };
        match machine.step(local) {
            LeaseStep::Make(number, request, limit) => {
                let server = &self.servers[process.server];
                // The time limit runs on the server's own clock, like its timers.
                let (late, holder) = (server.true_time(local + limit), server.holder);
                self.send(process, Event::Arrive(process, number, request, holder));
                self.schedule_event(late, Event::Reply(process, number, LeaseReply::Failed));
            }
            LeaseStep::AwaitReply => {}
            LeaseStep::WaitUntil(until) => {
                // Rounding may give the current millisecond, which would repeat the step without
                // end.
                let at = self.servers[process.server]
                    .true_time(until)
                    .max(self.now + 1);
                self.schedule_event(at, Event::Wake(process));
            }
            LeaseStep::End => self.end(process.server),
        }
    }

    fn answers(&mut self, answers: Vec<((Process, RequestNumber), LeaseReply)>) {
        for ((process, number), answer) in answers {
            // Some replies arrive twice, which the request numbers have to detect.
            if self.rng.u8(..10) == 0 {
                self.send(process, Event::Reply(process, number, answer.clone()));
            }
            self.send(process, Event::Reply(process, number, answer));
        }
        self.check_trust();
    }

    /// Ends a transaction in the database, if it is still open.
    fn ended(&mut self, id: u64, is_committed: bool) {
        if let Some(epoch) = self.database.end(id).filter(|_| is_committed) {
            // The invariant of the fence.
            if epoch < self.last_committed {
                self.problems.insert(format!(
                    "epoch {epoch} was committed after epoch {}",
                    self.last_committed
                ));
            }
            self.last_committed = epoch;
        }
        let answers = self.database.run_waiting();
        self.answers(answers);
    }

    fn answer(&mut self, process: Process, number: RequestNumber, answer: LeaseReply) {
        let Some((machine, local)) = self.machine(process) else {
            return;
        };
        machine.answered(number, answer, local);
        // The invariant of the claim.
        if let Standing::Active { epoch, .. } = machine.standing()
            && *self.epochs.entry(epoch).or_insert(process) != process
        {
            self.problems
                .insert(format!("two processes have epoch {epoch}"));
        }
        self.check_trust();
        self.schedule_event(self.now, Event::Wake(process));
    }

    fn write(&mut self, process: Process) {
        let Some((machine, _)) = self.machine(process) else {
            return;
        };
        let standing = machine.standing();
        if let Standing::Active { epoch, .. } = standing
            && !self.servers[process.server].is_stopping
        {
            self.numbers += 1;
            self.send(process, Event::Begin(process, self.numbers, epoch));
        }
        // Scheduled even on a standby, so that it writes as soon as it is active.
        let next = self.now + self.rng.u64(100..1_500);
        self.schedule_event(next, Event::Write(process));
    }

    fn begun(&mut self, process: Process, id: u64, is_current: bool) {
        if self.machine(process).is_none() {
            return;
        }
        // A server whose transaction finds another epoch exits.
        if is_current {
            self.send(process, Event::Commit(id));
        } else {
            self.end(process.server);
        }
    }

    /// Sends over the network, which may lose or delay the event.
    fn send(&mut self, process: Process, event: Event) {
        let (percent, until) = self.servers[process.server].loss;
        if self.now < until && self.rng.u32(..100) < percent {
            return;
        }
        let at = self.now + self.rng.u64(..=self.delay);
        self.schedule_event(at, event);
    }

    fn trusted_epoch(&self, server: &Server) -> Option<i64> {
        match server.machine.standing() {
            Standing::Active {
                epoch,
                trusted_until: Some(until),
            } if server.local(self.now) < until => Some(epoch),
            _ => None,
        }
    }

    fn check_trust(&mut self) {
        let current = self.database.epoch();
        // The invariant of the trust: it ends before another server has the lease.
        let outdated = self
            .servers
            .iter()
            .filter_map(|server| self.trusted_epoch(server))
            .find(|epoch| *epoch != current);
        if let Some(epoch) = outdated {
            self.problems.insert(format!(
                "a server of epoch {epoch} trusts itself in epoch {current}"
            ));
        }
    }
}

fn machine(server: usize, start: u64, predecessor: Option<Holder>) -> (LeaseMachine, Holder) {
    let holder = Holder(Uuid::from_u64_pair(u64::try_from(server).unwrap(), start));
    let keys = KeyIds {
        encryption: Vec::new(),
        media: String::new(),
    };
    let candidate = Candidate {
        holder,
        predecessor,
        keys,
        schema: 0,
    };
    (LeaseMachine::new(LeaseTiming::default(), candidate), holder)
}
