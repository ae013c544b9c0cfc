//! The LiveKit media plane: a LiveKit server, single node or cluster, behind the port.
//!
//! Downward, everything is a Twirp call ([`twirp`]) with a token that grants just that call ([`access`]). LiveKit's quirks
//! end here: what it answers 503 for that is simply not there, what it answers 200 for that does not exist, what it does
//! not know how to do. Upward, LiveKit reports by webhooks ([`webhook`]): verified, read leniently, handed to the control
//! plane, and answered once what they cause is durable. What webhooks lose, reconciliation finds.

mod access;
mod calls;
mod convert;
mod egress;
mod failure;
mod ingress;
mod moderation;
mod participants;
mod plane;
mod recent;
mod rooms;
mod settings;
mod signalling;
mod stranded;
mod subscriptions;
mod twirp;
mod webhook;
mod worker;

pub use plane::{LivekitPlane, LivekitSettings};
pub use settings::{ConfigCheck, ConfigMismatch};
pub use webhook::WebhookOutcome;
