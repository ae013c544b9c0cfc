//! The same tests, with a room's participants alternating between two workers: clients notice no difference.

#![allow(
    clippy::duplicate_mod,
    dead_code,
    reason = "the tests are those of one worker, in another fixture, and others use more of it"
)]

#[path = "backpressure.rs"]
mod backpressure;
#[path = "backups.rs"]
mod backups;
#[path = "data_tracks.rs"]
mod data_tracks;
#[path = "dependencies.rs"]
mod dependencies;
#[path = "../../../tests/support/fixture.rs"]
mod fixture;
#[path = "forwarding.rs"]
mod forwarding;
#[path = "layers.rs"]
mod layers;
#[path = "messages.rs"]
mod messages;
#[path = "muted.rs"]
mod muted;
#[path = "negotiation.rs"]
mod negotiation;
#[path = "../../../tests/support/network.rs"]
mod network;
#[path = "padding.rs"]
mod padding;
#[path = "reconnect.rs"]
mod reconnect;
#[path = "recorders.rs"]
mod recorders;
#[path = "retransmissions.rs"]
mod retransmissions;
#[path = "scalable.rs"]
mod scalable;
#[path = "sections.rs"]
mod sections;
#[path = "source.rs"]
mod source;
#[path = "temporal.rs"]
mod temporal;

use super::{MODES, commands, modes_with, support};
use fixture::alice_and_bob;

/// Workers among which a room is spread.
const WORKERS: usize = 2;
