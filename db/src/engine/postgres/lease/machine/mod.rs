//! The lease as a state machine without I/O: it says which request comes next, and is told the answers and the time.
//!
//! ```text
//!     released, ended, or silent for long enough          confirmed
//!  standby ────────────────────────────────────▶ claiming ─────────▶ active ── stop ──▶ released
//!     ▲ │                                            │                  │
//!     │ └── the row names this process: active       │                  └── another epoch ──▶ lost
//!     └──────────── another was faster ◀─────────────┘
//! ```
//!
//! One request is made at a time. An answer counts only if it belongs to that request: one that came too late, or twice, changes
//! nothing. A claim whose answer was lost may have taken the lease; the next read shows it, since the row names the process.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::keys::{KeyIds, WrongKey};
use super::timing::{LeaseTiming, Observation};
use super::{ActiveServer, Beat, Holder, LeaseRow};

/// What a server knows of itself.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The identity of this process.
    pub holder: Holder,
    /// A process that has ended for certain.
    pub predecessor: Option<Holder>,
    /// The keys that it has.
    pub keys: KeyIds,
    /// The newest schema that it knows.
    pub schema: i64,
}

/// A request to the database, about one of its tables or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Read the lease.
    Read,
    /// Take the lease if `seen` is still its last renewal. The next epoch is one more.
    Claim {
        /// The last renewal that was seen.
        seen: Beat,
    },
    /// Renew the lease if it is still of this epoch.
    Renew {
        /// The epoch of this process.
        epoch: i64,
    },
    /// Release the lease if it is still of this epoch.
    Release {
        /// The epoch of this process.
        epoch: i64,
    },
}

/// The number of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestNumber(u64);

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The lease, as a read found it.
    Row(LeaseRow),
    /// A claim, a renewal or a release found the row that it names, and changed it.
    Done,
    /// It found no such row.
    Refused,
    /// There was no answer in time. The request may take effect yet.
    Failed,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make this request, and give it up after this time.
    Make(RequestNumber, Request, Duration),
    /// Wait for the answer of the request that was made last.
    AwaitAnswer,
    /// Wait until this time.
    WaitUntil(Duration),
    /// Nothing: the lease has been released or lost.
    End,
}

/// Why a standby does not take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// It has another key than the last active server.
    WrongKey(WrongKey),
    /// The records have a schema that only a newer version knows.
    NewerSchema,
}

impl Obstacle {
    /// Returns what keeps a server with these keys, which knows the schemas up to `known`, from taking over records with the schema
    /// `found`, which need the keys with these ids: that of secrets and that of the media plane.
    pub(super) fn of(
        keys: &KeyIds,
        known: i64,
        found: i64,
        (encryption, media): (&str, &str),
    ) -> Option<Self> {
        if found > known {
            return Some(Self::NewerSchema);
        }
        keys.differs_from(encryption, media).map(Self::WrongKey)
    }
}

/// What a server may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits, also while it claims.
    Standby {
        /// Why it does not take over, as of the last read.
        obstacle: Option<Obstacle>,
    },
    /// It writes, under this epoch.
    Active {
        /// The epoch that each of its transactions is fenced with.
        epoch: i64,
        /// Until when it may act outside the database; `None` before the first renewal was confirmed.
        trusted_until: Option<Duration>,
    },
    /// It has released the lease, or was stopped before it had it.
    Released,
    /// Another server has taken the lease.
    Lost {
        /// The epoch that it had.
        epoch: i64,
    },
}

/// A request without an answer yet.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    number: RequestNumber,
    request: Request,
    made: Duration,
}

/// The lease of one process.
#[derive(Debug)]
pub struct LeaseMachine {
    timing: LeaseTiming,
    candidate: Candidate,
    standing: Standing,
    seen: Option<Observation>,
    /// The other server that has the lease, as of the last read.
    active: Option<ActiveServer>,
    /// The renewal that the next step claims to have been the last.
    claim: Option<Beat>,
    outstanding: Option<Outstanding>,
    requests: u64,
    /// When the next request is due.
    due: Duration,
    is_stopping: bool,
    /// Whether others come first: a released lease is taken only after the silence that a death takes.
    yields: bool,
}

impl LeaseMachine {
    /// Creates a standby.
    #[must_use]
    pub fn new(timing: LeaseTiming, candidate: Candidate) -> Self {
        Self {
            timing,
            candidate,
            standing: Standing::Standby { obstacle: None },
            seen: None,
            active: None,
            claim: None,
            outstanding: None,
            requests: 0,
            due: Duration::ZERO,
            is_stopping: false,
            yields: false,
        }
    }

    /// Lets others take the released lease first, as a server does that has given it up to wait for its next turn.
    pub fn yield_once(&mut self) {
        self.yields = true;
    }

    /// When the last renewal was made: by this server, from the sending of the last one that was confirmed, or by another, as far as
    /// the reads have shown. `None` before that.
    #[must_use]
    pub fn last_renewal(&self) -> Option<Duration> {
        match self.standing {
            Standing::Active {
                trusted_until: Some(until),
                ..
            } => Some(until.saturating_sub(self.timing.trust)),
            Standing::Standby { .. } => self.seen.as_ref().map(Observation::begun),
            _ => None,
        }
    }

    /// What the server may do.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// The other server that has the lease, as of the last read; `None` if none has it, or this one.
    #[must_use]
    pub const fn active(&self) -> Option<&ActiveServer> {
        self.active.as_ref()
    }

    /// Notes the keys that the server has now.
    pub fn set_keys(&mut self, keys: KeyIds) {
        self.candidate.keys = keys;
    }

    /// Notes that the database has refused a write of this server. It may have refused the renewals of the active one as well, so a
    /// standby counts the silence from now on: the active server has the time to renew the lease first.
    pub fn write_refused(&mut self) {
        self.seen = self.seen.map(Observation::restarted);
        self.claim = None;
    }

    /// Releases the lease next. A server that waits ends at once.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.due = Duration::ZERO;
    }

    /// Returns what is to be done.
    pub fn step(&mut self, now: Duration) -> Step {
        let request = match (self.standing, self.outstanding) {
            (Standing::Released | Standing::Lost { .. }, _) => return Step::End,
            (_, Some(_)) => return Step::AwaitAnswer,
            _ if now < self.due => return Step::WaitUntil(self.due),
            (Standing::Standby { .. }, None) if self.is_stopping => {
                self.standing = Standing::Released;
                return Step::End;
            }
            (Standing::Standby { .. }, None) => self
                .claim
                .take()
                .map_or(Request::Read, |seen| Request::Claim { seen }),
            (Standing::Active { epoch, .. }, None) if self.is_stopping => {
                self.standing = Standing::Active {
                    epoch,
                    trusted_until: None,
                };
                Request::Release { epoch }
            }
            (Standing::Active { epoch, .. }, None) => Request::Renew { epoch },
        };
        self.make(request, now)
    }

    fn make(&mut self, request: Request, now: Duration) -> Step {
        self.requests += 1;
        let number = RequestNumber(self.requests);
        self.outstanding = Some(Outstanding {
            number,
            request,
            made: now,
        });
        let limit = if matches!(request, Request::Claim { .. }) {
            self.timing.claim
        } else {
            self.timing.answer
        };
        Step::Make(number, request, limit)
    }

    /// Notes the answer to a request.
    pub fn answered(&mut self, number: RequestNumber, answer: Answer, now: Duration) {
        let Some(outstanding) = self
            .outstanding
            .take_if(|outstanding| outstanding.number == number)
        else {
            return;
        };
        match (outstanding.request, answer) {
            // A release that fails is not repeated: a standby takes over after the silence.
            (Request::Release { .. }, _) => self.standing = Standing::Released,
            (request, Answer::Failed) => {
                if matches!(request, Request::Claim { .. }) {
                    self.write_refused();
                }
                self.due = now + self.timing.retry;
            }
            (Request::Read, Answer::Row(row)) => self.read(&row, now),
            (Request::Claim { seen }, Answer::Done) => {
                self.activate(seen.epoch + 1, outstanding.made);
            }
            (Request::Claim { .. } | Request::Read, _) => {
                self.seen = None;
                self.due = now;
            }
            (Request::Renew { .. }, Answer::Done) => self.renewed(outstanding.made),
            (Request::Renew { epoch }, _) => self.standing = Standing::Lost { epoch },
        }
    }

    fn read(&mut self, row: &LeaseRow, now: Duration) {
        let Standing::Standby { .. } = self.standing else {
            return;
        };
        if row.holder == Some(self.candidate.holder) {
            // The answer to its claim was lost. What it may trust in is the first renewal.
            self.standing = Standing::Active {
                epoch: row.beat.epoch,
                trusted_until: None,
            };
            self.active = None;
            self.due = now;
            return;
        }
        self.active = row.active_server();
        let needed = (row.encryption_key_id.as_str(), row.media_key_id.as_str());
        let obstacle = Obstacle::of(
            &self.candidate.keys,
            self.candidate.schema,
            row.schema,
            needed,
        );
        let seen = Observation::after(self.seen, now, row.beat, &self.timing);
        let seen = if row.is_read_only {
            seen.restarted()
        } else {
            seen
        };
        self.yields &= row.holder.is_none();
        let has_ended = row.holder.is_some() && row.holder == self.candidate.predecessor;
        let is_free =
            (row.holder.is_none() && !self.yields) || has_ended || seen.is_over(&self.timing);
        self.seen = Some(seen);
        self.claim = (is_free && obstacle.is_none() && !row.is_read_only).then_some(row.beat);
        self.standing = Standing::Standby { obstacle };
        self.due = if self.claim.is_some() {
            now
        } else {
            now + self.timing.read
        };
    }

    /// Takes note of the lease. Others see the claim after it was made, so the trust counts from there, as for a renewal.
    fn activate(&mut self, epoch: i64, made: Duration) {
        self.standing = Standing::Active {
            epoch,
            trusted_until: None,
        };
        self.active = None;
        self.renewed(made);
    }

    fn renewed(&mut self, made: Duration) {
        if let Standing::Active { trusted_until, .. } = &mut self.standing {
            *trusted_until = Some(made + self.timing.trust);
            if !self.is_stopping {
                self.due = made + self.timing.renewal;
            }
        }
    }
}
