//! The worker with clients in memory.

mod backpressure;
mod backups;
mod batches;
mod candidates;
#[path = "../../../tests/support/commands.rs"]
pub(super) mod commands;
mod data_tracks;
mod dependencies;
mod descriptions;
mod dropped;
mod forwarding;
mod layers;
mod messages;
mod muted;
mod negotiation;
#[path = "../../../tests/support/network.rs"]
mod network;
mod padding;
mod reconnect;
mod recorders;
mod reports;
mod retransmissions;
mod scalable;
mod sections;
mod source;
mod strangers;
#[path = "../../../tests/support/connection.rs"]
mod support;
mod temporal;
#[path = "../../../tests/support/world.rs"]
mod world;

use crate::command::ConnectionMode;
use world::World;

/// Both ways in which clients connect.
const MODES: [ConnectionMode; 2] = [ConnectionMode::Dual, ConnectionMode::Single];

/// Returns a room in which Alice and Bob are connected, and their indices.
fn alice_and_bob(mode: ConnectionMode) -> (World, usize, usize) {
    let mut world = World::new();
    let (alice, bob) = (
        world.join_connected("PA_alice", mode),
        world.join_connected("PA_bob", mode),
    );
    (world, alice, bob)
}
