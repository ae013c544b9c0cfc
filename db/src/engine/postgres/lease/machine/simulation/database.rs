//! The two rows of the lease with the locks of PostgreSQL, and the transactions that share one of them.

use super::super::{Answer, Beat, Holder, LeaseRow, Request};

/// A request of the lease in the database, with what its answer is addressed to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending<T> {
    pub holder: Holder,
    pub request: Request,
    pub from: T,
}

/// A transaction that has found its epoch in the row, and shares it until it ends.
#[derive(Debug, Clone, Copy)]
struct Open {
    id: u64,
    epoch: i64,
}

/// The database. `T` says whom an answer goes to.
pub(super) struct Database<T> {
    beat: Beat,
    /// The epoch of the row that writers share.
    epoch: i64,
    holder: Option<Holder>,
    open: Vec<Open>,
    /// A claim that has changed the first row and waits for the writers of the second, with what waits for it.
    claim: Option<Pending<T>>,
    waiting: Vec<Pending<T>>,
    /// Whether it refuses to be written, and its reads show that.
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

    /// Begins a transaction under an epoch. Returns whether that is the epoch of the row.
    pub fn begin(&mut self, id: u64, epoch: i64) -> bool {
        let is_current = epoch == self.epoch;
        self.open.extend(is_current.then_some(Open { id, epoch }));
        is_current
    }

    /// Ends a transaction. Returns its epoch if it was still open.
    pub fn end(&mut self, id: u64) -> Option<i64> {
        let index = self.open.iter().position(|open| open.id == id)?;
        Some(self.open.swap_remove(index).epoch)
    }

    /// Runs a request, unless it has to wait for a lock.
    pub fn run(&mut self, pending: Pending<T>) -> Vec<(T, Answer)> {
        match pending.request {
            Request::Read => vec![(pending.from, Answer::Row(self.row()))],
            _ if self.is_read_only => vec![(pending.from, Answer::Failed)],
            _ if self.claim.is_some() => {
                self.waiting.push(pending);
                Vec::new()
            }
            Request::Claim { seen } if seen == self.beat && !self.open.is_empty() => {
                self.claim = Some(pending);
                Vec::new()
            }
            _ => vec![(pending.from, self.change(&pending))],
        }
    }

    /// Runs what waited for transactions that have ended.
    pub fn run_waiting(&mut self) -> Vec<(T, Answer)> {
        if !self.open.is_empty() {
            return Vec::new();
        }
        let Some(claim) = self.claim.take() else {
            return Vec::new();
        };
        let mut answers = vec![(claim.from, self.change(&claim))];
        for pending in std::mem::take(&mut self.waiting) {
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

    fn change(&mut self, pending: &Pending<T>) -> Answer {
        let found = match pending.request {
            Request::Claim { seen } => seen == self.beat,
            Request::Renew { epoch } | Request::Release { epoch } => epoch == self.beat.epoch,
            Request::Read => false,
        };
        if !found {
            return Answer::Refused;
        }
        match pending.request {
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
        Answer::Done
    }
}
