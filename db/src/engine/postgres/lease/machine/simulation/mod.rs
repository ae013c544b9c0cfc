//! Random schedules of several servers on a simulated database: lost, late and repeated requests; paused, killed and stopped servers; a
//! database that hangs. Server clocks differ by up to a third.

mod cluster;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use self::cluster::{Fault, SimulatedCluster};
use super::{Beat, Holder, LeaseReply, LeaseRow, Request};

/// Milliseconds during which faults happen.
const FAULTS: u64 = 12_000;
/// Milliseconds after the last fault within which some server has to become active.
const RECOVERY: u64 = 25_000;

fn fault() -> impl Strategy<Value = Fault> {
    let server = 0..4_usize;
    prop_oneof![
        4 => (server.clone(), 100..20_000_u64).prop_map(|(server, millis)| Fault::Pause { server, millis }),
        2 => server.clone().prop_map(|server| Fault::Kill { server }),
        2 => server.clone().prop_map(|server| Fault::Stop { server }),
        2 => (100..8_000_u64).prop_map(|millis| Fault::Hang { millis }),
        1 => (100..8_000_u64).prop_map(|millis| Fault::ReadOnly { millis }),
        3 => (server, 0..=100_u32, 100..8_000_u64)
            .prop_map(|(server, percent, millis)| Fault::Lose { server, percent, millis }),
    ]
}

/// Generates clock rates: milliseconds that each clock advances in three seconds.
fn clocks() -> impl Strategy<Value = Vec<u64>> {
    vec(
        prop_oneof![Just(3_000), Just(4_000), 3_000..=4_000_u64],
        1..=3,
    )
}

/// Generates the maximum delay of a request or a reply.
fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![1..=20_u64, 1..=400_u64]
}

/// Sets the number of schedules: `PROPTEST_CASES`, or `usual`. `scripts/nightly` runs 100,000.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(usual);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(5_000))]

    /// Proves R-22.
    #[test]
    fn no_two_servers_have_an_epoch_none_trusts_itself_beside_another_and_one_becomes_active(
        seed: u64,
        clocks in clocks(),
        delay in delay(),
        faults in vec((0..FAULTS, fault()), 0..8),
    ) {
        let mut cluster = SimulatedCluster::new(seed, &clocks, delay);
        faults.into_iter().for_each(|(at, fault)| cluster.schedule(at, fault));
        cluster.run_until(FAULTS);
        cluster.end_faults();
        cluster.run_until(FAULTS + RECOVERY);
        prop_assert_eq!(cluster.problems(), &BTreeSet::new());
        prop_assert!(cluster.has_trusted_server(), "nobody is active");
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// Proves R-22.
    #[test]
    fn a_database_that_hangs_or_refuses_writes_deposes_nobody(
        seed: u64,
        clocks in clocks(),
        from in 6_000..9_000_u64,
        millis in 100..60_000_u64,
        hangs: bool,
    ) {
        let mut cluster = SimulatedCluster::new(seed, &clocks, 100);
        cluster.run_until(6_000);
        let epoch = cluster.epoch();
        prop_assert!(epoch >= 1 && cluster.has_trusted_server());
        cluster.schedule(from, if hangs { Fault::Hang { millis } } else { Fault::ReadOnly { millis } });
        cluster.run_until(from + millis + RECOVERY);
        prop_assert_eq!(cluster.problems(), &BTreeSet::new());
        prop_assert!(cluster.has_trusted_server());
        prop_assert_eq!(cluster.epoch(), epoch, "another server took over");
    }
}

/// Lease request in the database, with the address of its reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending<T> {
    pub holder: Holder,
    pub request: Request,
    pub from: T,
}

/// Transaction that has found its epoch in the row, and shares the row until it ends.
#[derive(Debug, Clone, Copy)]
struct Open {
    id: u64,
    epoch: i64,
}

/// Simulated database. `T` is the address of a reply.
pub(super) struct Database<T> {
    beat: Beat,
    /// Epoch of the row that writers share.
    epoch: i64,
    holder: Option<Holder>,
    open: Vec<Open>,
    /// Claim that has changed the first row and waits for writers that share the second, and the requests queued behind it.
    claim: Option<Pending<T>>,
    waiting: Vec<Pending<T>>,
    /// Whether it refuses writes, which reads then show.
    pub is_read_only: bool,
}

impl<T: Copy> Database<T> {
    pub fn new() -> Self {
        let beat = Beat {
            epoch: 0,
            number: 0,
        };
        Self {
            beat,
            epoch: 0,
            holder: None,
            open: Vec::new(),
            claim: None,
            waiting: Vec::new(),
            is_read_only: false,
        }
    }

    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Starts a transaction under an epoch. Returns whether the row has that epoch.
    pub fn begin(&mut self, id: u64, epoch: i64) -> bool {
        let is_current = epoch == self.epoch;
        // A transaction with another epoch fails at once, and holds no lock.
        self.open.extend(is_current.then_some(Open { id, epoch }));
        is_current
    }

    /// Ends a transaction. Returns its epoch if it was still open.
    pub fn end(&mut self, id: u64) -> Option<i64> {
        let index = self.open.iter().position(|open| open.id == id)?;
        Some(self.open.swap_remove(index).epoch)
    }

    /// Runs a request, unless it has to wait for a lock.
    pub fn run(&mut self, pending: Pending<T>) -> Vec<(T, LeaseReply)> {
        match pending.request {
            // Reads take no locks, so they never wait.
            Request::Read => vec![(pending.from, LeaseReply::Row(self.row()))],
            _ if self.is_read_only => vec![(pending.from, LeaseReply::Failed)],
            // The claim has locked the row of the renewals.
            _ if self.claim.is_some() => {
                self.waiting.push(pending);
                Vec::new()
            }
            // The second statement of a claim waits for the transactions that share the row.
            Request::Claim { seen } if seen == self.beat && !self.open.is_empty() => {
                self.claim = Some(pending);
                Vec::new()
            }
            _ => vec![(pending.from, self.change(&pending))],
        }
    }

    /// Runs the requests that waited for transactions which have ended.
    pub fn run_waiting(&mut self) -> Vec<(T, LeaseReply)> {
        if !self.open.is_empty() {
            return Vec::new();
        }
        let Some(claim) = self.claim.take() else {
            return Vec::new();
        };
        let mut answers = vec![(claim.from, self.change(&claim))];
        for pending in std::mem::take(&mut self.waiting) {
            // After the claim, so a renewal by the previous server is refused.
            answers.extend(self.run(pending));
        }
        answers
    }

    fn row(&self) -> LeaseRow {
        LeaseRow {
            beat: self.beat,
            holder: self.holder,
            url: String::new(),
            encryption_key_id: String::new(),
            media_key_id: String::new(),
            schema: 0,
            is_read_only: self.is_read_only,
        }
    }

    fn change(&mut self, pending: &Pending<T>) -> LeaseReply {
        let found = match pending.request {
            Request::Claim { seen } => seen == self.beat,
            Request::Renew { epoch } | Request::Release { epoch } => epoch == self.beat.epoch,
            Request::Read => false,
        };
        if !found {
            return LeaseReply::Refused;
        }
        match pending.request {
            // Both rows get the new epoch in one transaction.
            Request::Claim { seen } => {
                self.epoch = seen.epoch + 1;
                self.beat = Beat {
                    epoch: self.epoch,
                    number: 0,
                };
                self.holder = Some(pending.holder);
            }
            Request::Release { .. } => self.holder = None,
            _ => self.beat.number += 1,
        }
        LeaseReply::Done
    }
}
