//! The worker with clients in memory.

mod backpressure;
mod backups;
mod batches;
mod candidates;
#[path = "../../../tests/support/commands.rs"]
pub(crate) mod commands;
mod data_tracks;
mod dependencies;
mod descriptions;
mod dropped;
#[path = "../../../tests/support/fixture.rs"]
mod fixture;
mod forwarding;
mod layers;
mod messages;
mod messages_across;
mod mirrors;
mod muted;
mod negotiation;
#[path = "../../../tests/support/network.rs"]
mod network;
mod padding;
mod quality;
mod reconnect;
mod recorders;
mod reports;
mod retransmissions;
mod scalable;
mod sections;
mod source;
mod spread;
#[path = "../../../tests/support/connection.rs"]
mod support;
mod temporal;
mod unauthenticated;

use crate::command::ConnectionMode;
use fixture::alice_and_bob;

/// Workers among which a room is spread.
const WORKERS: usize = 1;

/// Both connection modes.
const MODES: [ConnectionMode; 2] = [ConnectionMode::Dual, ConnectionMode::Single];

/// Returns both connection modes, each with every one of these values.
fn modes_with<T: Clone, const N: usize>(
    values: [T; N],
) -> impl Iterator<Item = (ConnectionMode, T)> {
    MODES
        .into_iter()
        .flat_map(move |mode| values.clone().map(|value| (mode, value)))
}
