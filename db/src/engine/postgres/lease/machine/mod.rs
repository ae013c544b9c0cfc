//! The lease as a state machine without I/O. It returns the next request, and receives replies and the time.
//!
//! ```text
//!     released, ended, or silent for long enough          confirmed
//!  standby ────────────────────────────────────▶ claiming ─────────▶ active ── stop ──▶ released
//!     ▲ │                                            │                  │
//!     │ └── the row names this process: active       │                  └── another epoch ──▶ lost
//!     └──────────── another was faster ◀─────────────┘
//! ```
//!
//! One request is outstanding at a time, and only its own reply counts: a late or repeated reply changes nothing. A claim whose reply was
//! lost may have taken the lease; the next read shows it, since the row names the process.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::keys::{KeyIds, WrongKey};
use super::timing::{LeaseTiming, Observation};
use super::{ActiveServer, Beat, Holder, LeaseRow};

/// A server's properties, as far as the lease depends on them.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// This process's identity.
    pub holder: Holder,
    /// Process that has certainly exited.
    pub predecessor: Option<Holder>,
    /// Ids of this process's keys.
    pub keys: KeyIds,
    /// Newest schema that this process knows.
    pub schema: i64,
}

/// Request to the database, about one of the lease's tables or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Reads the lease.
    Read,
    /// Claims the lease if `seen` is still the last renewal. The epoch grows by one.
    Claim {
        /// Last renewal that was seen.
        seen: Beat,
    },
    /// Renews the lease if it still has this epoch.
    Renew {
        /// This process's epoch.
        epoch: i64,
    },
    /// Releases the lease if it still has this epoch.
    Release {
        /// This process's epoch.
        epoch: i64,
    },
}

/// Request number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestNumber(u64);

/// Reply to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseReply {
    /// The lease, as a read found it.
    Row(LeaseRow),
    /// A claim, a renewal or a release found its row, and changed it.
    Done,
    /// A claim, a renewal or a release did not find its row.
    Refused,
    /// There was no reply in time. The request may still take effect.
    Failed,
}

/// Next action of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStep {
    /// Send this request, and give up after this time.
    Make(RequestNumber, Request, Duration),
    /// Wait for the reply to the last request.
    AwaitReply,
    /// Wait until this time.
    WaitUntil(Duration),
    /// Stop: the lease is released or lost.
    End,
}

/// Reason why a standby does not take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The server's key differs from the last active server's.
    WrongKey(WrongKey),
    /// Only a newer version knows the schema of the records.
    NewerSchema,
}

impl Obstacle {
    /// Returns the obstacle for a server with these keys, which knows schemas up to `known`, for records with the schema `found` that need
    /// the keys with these ids (encryption, media plane).
    pub(super) fn new(
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

/// Server's standing, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Waits for the lease or for the reply to a claim.
    Standby {
        /// Reason why it did not take over at the last read.
        obstacle: Option<Obstacle>,
    },
    /// Has the lease, and may write.
    Active {
        /// Epoch that fences each of its transactions.
        epoch: i64,
        /// Time until which the server may act outside the database; `None` before the first confirmed renewal.
        trusted_until: Option<Duration>,
    },
    /// Has released the lease, or was stopped before it had the lease.
    Released,
    /// Another server has taken the lease.
    Lost {
        /// Epoch that it had.
        epoch: i64,
    },
}

/// Request without a reply yet.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    number: RequestNumber,
    request: Request,
    made: Duration,
}

/// Lease of one process.
#[derive(Debug)]
pub struct LeaseMachine {
    timing: LeaseTiming,
    candidate: Candidate,
    standing: Standing,
    seen: Option<Observation>,
    /// Another server that has the lease, at the last read.
    active: Option<ActiveServer>,
    /// Renewal that the next claim names as the last.
    claim: Option<Beat>,
    outstanding: Option<Outstanding>,
    requests: u64,
    /// Time at which the next request is due.
    due: Duration,
    is_stopping: bool,
    /// Whether other servers come first: then a released lease is claimed only after the silence that a dead server's lease requires.
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

    /// Defers to other servers for the released lease, after this one has given it up.
    pub fn yield_once(&mut self) {
        self.yields = true;
    }

    /// Returns the time of the last renewal: for this server, the sending of its last confirmed one; for another, the first read that
    /// showed it. `None` before that.
    #[must_use]
    pub fn last_renewal(&self) -> Option<Duration> {
        match self.standing {
            Standing::Active {
                trusted_until: Some(until),
                ..
            } => Some(until.saturating_sub(self.timing.trust)),
            Standing::Standby { .. } => self.seen.as_ref().map(Observation::since),
            _ => None,
        }
    }

    /// Returns what the server may do.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns another server that has the lease, at the last read; `None` if none has it, or this one.
    #[must_use]
    pub const fn active(&self) -> Option<&ActiveServer> {
        self.active.as_ref()
    }

    /// Records the server's current keys.
    pub fn set_keys(&mut self, keys: KeyIds) {
        self.candidate.keys = keys;
    }

    /// Records that the database has refused a write of this server. It may have refused the active server's renewals as well, so a standby
    /// restarts its count: the active server gets the time to renew the lease first.
    pub fn write_refused(&mut self) {
        self.seen = self.seen.map(Observation::restarted);
        self.claim = None;
    }

    /// Requests a release. A standby stops at once.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.due = Duration::ZERO;
    }

    /// Returns the next action.
    pub fn step(&mut self, now: Duration) -> LeaseStep {
        let request = match (self.standing, self.outstanding) {
            (Standing::Released | Standing::Lost { .. }, _) => return LeaseStep::End,
            (_, Some(_)) => return LeaseStep::AwaitReply,
            _ if now < self.due => return LeaseStep::WaitUntil(self.due),
            (Standing::Standby { .. }, None) if self.is_stopping => {
                self.standing = Standing::Released;
                return LeaseStep::End;
            }
            (Standing::Standby { .. }, None) => self
                .claim
                .take()
                .map_or(Request::Read, |seen| Request::Claim { seen }),
            // Trust ends before the release is sent, since a standby may take over as soon as it arrives.
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

    fn make(&mut self, request: Request, now: Duration) -> LeaseStep {
        // Numbers are never reused, so a late reply never matches another request.
        self.requests += 1;
        let number = RequestNumber(self.requests);
        self.outstanding = Some(Outstanding {
            number,
            request,
            made: now,
        });
        // A claim waits for the transactions of the previous server.
        let limit = if matches!(request, Request::Claim { .. }) {
            self.timing.claim
        } else {
            self.timing.answer
        };
        LeaseStep::Make(number, request, limit)
    }

    /// Records the reply to a request.
    pub fn answered(&mut self, number: RequestNumber, answer: LeaseReply, now: Duration) {
        let Some(outstanding) = self
            .outstanding
            .take_if(|outstanding| outstanding.number == number)
        else {
            // A late or repeated reply: its request is no longer outstanding.
            return;
        };
        match (outstanding.request, answer) {
            // A release that fails is not repeated: a standby takes over after the silence.
            (Request::Release { .. }, _) => self.standing = Standing::Released,
            (request, LeaseReply::Failed) => {
                // The claim may have failed because of a read-only database, which also keeps the active server from renewing.
                if matches!(request, Request::Claim { .. }) {
                    self.write_refused();
                }
                self.due = now + self.timing.retry;
            }
            (Request::Read, LeaseReply::Row(row)) => self.read(&row, now),
            (Request::Claim { seen }, LeaseReply::Done) => {
                self.activate(seen.epoch + 1, outstanding.made);
            }
            // Another server was faster. Its renewals are counted anew.
            (Request::Claim { .. } | Request::Read, _) => {
                self.seen = None;
                self.due = now;
            }
            (Request::Renew { .. }, LeaseReply::Done) => self.renewed(outstanding.made),
            // Only a confirmed refusal ends it. A failed renewal is repeated, since the lease may still be this server's.
            (Request::Renew { epoch }, _) => self.standing = Standing::Lost { epoch },
        }
    }

    fn read(&mut self, row: &LeaseRow, now: Duration) {
        let Standing::Standby { .. } = self.standing else {
            return;
        };
        if row.holder == Some(self.candidate.holder) {
            // The reply to its claim was lost. When that claim was sent is no longer known here, so the trust starts with the first
            // renewal.
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
        let obstacle = Obstacle::new(
            &self.candidate.keys,
            self.candidate.schema,
            row.schema,
            needed,
        );
        let seen = Observation::after(self.seen, now, row.beat, &self.timing);
        // A read-only database keeps the active server from renewing, so its silence proves nothing.
        let seen = if row.is_read_only {
            seen.restarted()
        } else {
            seen
        };
        // Over as soon as any server has held the lease.
        self.yields &= row.holder.is_none();
        // A restarted server finds its own predecessor: no need to wait for a process that is certainly gone.
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

    /// Becomes active. Other servers see the claim after it was sent, so the trust counts from there, as for a renewal.
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
            // From the sending, and not from the reply: a standby's count starts after the renewal took effect, so it ends after the trust.
            *trusted_until = Some(made + self.timing.trust);
            if !self.is_stopping {
                self.due = made + self.timing.renewal;
            }
        }
    }
}
