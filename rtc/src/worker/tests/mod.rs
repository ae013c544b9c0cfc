//! The worker with clients in memory.

#[path = "../../../tests/support/commands.rs"]
mod commands;
mod forwarding;
mod layers;
mod messages;
mod negotiation;
mod reconnect;
mod recorders;
mod reports;
mod sections;
mod source;
mod strangers;
#[path = "../../../tests/support/connection.rs"]
mod support;
#[path = "../../../tests/support/world.rs"]
mod world;

use crate::command::ConnectionMode;

/// Both ways in which clients connect.
const MODES: [ConnectionMode; 2] = [ConnectionMode::Dual, ConnectionMode::Single];
