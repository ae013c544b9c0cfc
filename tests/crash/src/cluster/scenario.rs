//! What happens to a cluster in a round, and what must hold meanwhile.

use std::time::Duration;

/// What happens in each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The active node gets SIGKILL.
    Kill,
    /// A standby gets SIGKILL.
    KillStandby,
    /// The active node stands still (SIGSTOP), and goes on.
    Pause,
    /// The active node is cut off from PostgreSQL.
    CutDatabase,
    /// The active node is cut off from the other nodes.
    CutNodes,
    /// The active node is cut off from LiveKit, in both directions.
    CutLivekit,
    /// PostgreSQL gets SIGKILL and starts again.
    PostgresKill,
    /// PostgreSQL answers nobody for a while.
    PostgresHang,
    /// PostgreSQL gets SIGKILL, and its synchronous standby is promoted.
    PostgresPromote,
    /// Each node is replaced after SIGTERM, the active one last.
    Rolling,
    /// The active node of a cluster with 10,000 projects and 100,000 open rooms gets SIGKILL.
    Load,
}

/// Which requests may fail while a round lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// None.
    Nothing,
    /// Changes without an `Idempotency-Key`.
    Unrepeatable,
    /// All.
    Anything,
}

/// What a round does to the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeovers {
    /// The active node stays active.
    None,
    /// Another node takes over once.
    One,
    /// Either.
    Any,
}

/// How long it may take until changes succeed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In each round.
    pub longest: Duration,
    /// In half of the rounds.
    pub median: Duration,
}

impl Scenario {
    /// All of them, in the order of a whole run.
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

    /// Returns how many rounds a whole run makes.
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

    /// Returns how long what is stopped or cut stays so. That of a link is longer than the lease, and shorter than a request is held.
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

    /// Returns what it does to the lease.
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

    /// Returns whether the process of a node ends in a round, which is, or is not, the node that the fault is for.
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

    /// Returns how long after a round requests may still fail: sessions find out one by one that PostgreSQL is back.
    #[must_use]
    pub const fn aftermath(self) -> Duration {
        match self {
            Self::PostgresKill | Self::PostgresHang | Self::PostgresPromote => {
                Duration::from_secs(5)
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns how long it may take until changes succeed again: after a fault of a node, or once PostgreSQL is back.
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
