//! Scenarios for a cluster, and the promises that hold during each.

use std::time::Duration;

/// The fault in each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The active node gets SIGKILL.
    Kill,
    /// A standby gets SIGKILL.
    KillStandby,
    /// The active node is stopped (SIGSTOP) and resumed.
    Pause,
    /// The active node is cut off from PostgreSQL.
    CutDatabase,
    /// The active node is cut off from the other nodes.
    CutNodes,
    /// The active node is cut off from LiveKit, in both directions.
    CutLivekit,
    /// PostgreSQL gets SIGKILL and starts again.
    PostgresKill,
    /// PostgreSQL does not respond for a while.
    PostgresHang,
    /// PostgreSQL gets SIGKILL, and its synchronous standby is promoted.
    PostgresPromote,
    /// Each node is replaced after SIGTERM, the active one last.
    Rolling,
    /// The active node in a cluster with 10,000 projects and 100,000 open rooms gets SIGKILL.
    Load,
}

/// Requests that may fail during a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// None.
    Nothing,
    /// Changes without an `Idempotency-Key`.
    Unrepeatable,
    /// All.
    Anything,
}

/// A round's effect on the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeovers {
    /// The active node stays active.
    None,
    /// Another node takes over once.
    One,
    /// Either.
    Any,
}

/// Limits for the time until changes succeed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In each round.
    pub longest: Duration,
    /// In half of the rounds.
    pub median: Duration,
}

impl Scenario {
    /// All scenarios in a whole run's order.
    pub const ALL: [Self; 11] = [
        Self::Kill,
        Self::KillStandby,
        Self::Pause,
        Self::CutDatabase,
        Self::CutNodes,
        Self::CutLivekit,
        Self::PostgresKill,
        Self::PostgresHang,
        Self::PostgresPromote,
        Self::Rolling,
        Self::Load,
    ];

    /// Returns its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillStandby => "kill-standby",
            Self::Pause => "pause",
            Self::CutDatabase => "cut-database",
            Self::CutNodes => "cut-nodes",
            Self::CutLivekit => "cut-livekit",
            Self::PostgresKill => "postgres-kill",
            Self::PostgresHang => "postgres-hang",
            Self::PostgresPromote => "postgres-promote",
            Self::Rolling => "rolling",
            Self::Load => "load",
        }
    }

    /// Returns the number of rounds in a whole run.
    #[must_use]
    pub const fn rounds(self) -> u32 {
        match self {
            Self::Kill => 50,
            Self::Pause => 30,
            Self::KillStandby | Self::CutDatabase | Self::CutNodes | Self::CutLivekit => 20,
            Self::PostgresKill | Self::PostgresHang | Self::PostgresPromote | Self::Rolling => 10,
            Self::Load => 3,
        }
    }

    /// Returns the duration of a stop or a cut. A link's cut is longer than the lease, and shorter than a request is buffered.
    #[must_use]
    pub const fn duration(self) -> Duration {
        match self {
            Self::Pause | Self::PostgresHang => Duration::from_secs(20),
            _ => Duration::from_secs(8),
        }
    }

    /// Returns which requests may fail.
    #[must_use]
    pub const fn tolerance(self) -> Tolerance {
        match self {
            Self::KillStandby | Self::Rolling => Tolerance::Nothing,
            Self::Kill | Self::Pause | Self::Load | Self::CutNodes | Self::CutLivekit => {
                Tolerance::Unrepeatable
            }
            Self::CutDatabase | Self::PostgresKill | Self::PostgresHang | Self::PostgresPromote => {
                Tolerance::Anything
            }
        }
    }

    /// Returns its effect on the lease.
    #[must_use]
    pub const fn takeovers(self) -> Takeovers {
        match self {
            Self::Kill | Self::Pause | Self::CutDatabase | Self::Rolling | Self::Load => {
                Takeovers::One
            }
            Self::KillStandby | Self::CutNodes | Self::CutLivekit | Self::PostgresHang => {
                Takeovers::None
            }
            Self::PostgresKill | Self::PostgresPromote => Takeovers::Any,
        }
    }

    /// Returns whether a node's process exits in a round; `is_failed` is whether the fault affects that node.
    #[must_use]
    pub const fn ends_process(self, is_failed: bool) -> bool {
        match self {
            Self::Rolling => true,
            Self::Kill | Self::KillStandby | Self::Pause | Self::CutDatabase | Self::Load => {
                is_failed
            }
            Self::CutNodes
            | Self::CutLivekit
            | Self::PostgresKill
            | Self::PostgresHang
            | Self::PostgresPromote => false,
        }
    }

    /// Returns how long after a round requests may still fail: sessions notice PostgreSQL's return one by one.
    #[must_use]
    pub const fn aftermath(self) -> Duration {
        match self {
            Self::PostgresKill | Self::PostgresHang | Self::PostgresPromote => {
                Duration::from_secs(5)
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns the limits for the time until changes succeed again: after a node's fault, or once PostgreSQL is back.
    #[must_use]
    pub const fn limit(self) -> Option<Limit> {
        let (longest, median) = match self {
            Self::Kill | Self::Pause | Self::CutDatabase => (10, 6),
            Self::Load => (10, 10),
            Self::PostgresKill | Self::PostgresHang | Self::PostgresPromote => (5, 5),
            Self::KillStandby | Self::CutNodes | Self::CutLivekit | Self::Rolling => return None,
        };
        Some(Limit {
            longest: Duration::from_secs(longest),
            median: Duration::from_secs(median),
        })
    }
}
