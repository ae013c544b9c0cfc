//! The attacker: its options and its counts.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::{Attack, participant, stranger, turn};
use crate::BenchError;

/// The attacker's options.
#[derive(Args)]
pub struct AttackOptions {
    #[arg(long)]
    attack: Attack,
    #[arg(long)]
    pub api: String,
    #[arg(long)]
    pub admin: String,
    /// A room token.
    #[arg(long)]
    pub token: String,
    #[arg(long)]
    seconds: f64,
}

/// The attacker's action counts.
#[derive(Default, Serialize)]
pub struct Done {
    /// Opened connections.
    pub connections: u64,
    /// Connections that the server refused or closed.
    pub closed: u64,
    /// Messages, packets or requests sent.
    pub sent: u64,
    pub bytes: u64,
}

impl Done {
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.closed += other.closed;
        self.sent += other.sent;
        self.bytes += other.bytes;
    }

    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += 1;
        self.bytes += bytes as u64;
    }
}

/// Runs the attack for its duration.
pub fn attack(options: &AttackOptions) -> Result<Done, BenchError> {
    let until = Instant::now() + Duration::from_secs_f64(options.seconds);
    match options.attack {
        Attack::EmptyPackets => stranger::send_packets(options, until, &[0; 2 * 32 * 1024]),
        Attack::StrangePackets => {
            stranger::send_packets(options, until, &stranger::packets_without_meaning())
        }
        Attack::JoinRequests => stranger::ask_to_join(options, until),
        Attack::PipelinedUnread => stranger::pipeline_unread(options, until),
        Attack::Pipelined => stranger::pipeline(options, until),
        Attack::AdminTokens => stranger::guess_admin_tokens(options, until),
        Attack::TurnMessages => turn::send_messages(options, until),
        Attack::TurnAllocations => turn::take_allocations(options, until),
        Attack::CandidateOffers
        | Attack::SectionOffers
        | Attack::HugeOffers
        | Attack::SmallOffers
        | Attack::Mutes
        | Attack::Tracks
        | Attack::Permissions
        | Attack::SyncStates
        | Attack::NamedSenders
        | Attack::TrackSettings
        | Attack::DataChannels
        | Attack::Unread
        | Attack::Rejoins => participant::attack(options, options.attack, until),
    }
}
