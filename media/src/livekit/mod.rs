//! The LiveKit media plane: a LiveKit server, as a single node or a cluster.
//!
//! Conclave calls LiveKit's server API, which is Twirp over HTTP ([`twirp`]), with an access token that grants only that
//! call ([`access_token`]). This module hides the peculiarities of the API, such as a 503 for a participant that does not
//! exist or a 200 for a track that does not exist. LiveKit reports by webhooks ([`webhook`]), which are verified, converted
//! and passed to the control plane. They are answered once what they report is durable. Reconciliation finds what lost
//! webhooks would have reported.

mod access_token;
mod call_error;
mod calls;
mod config_check;
mod convert;
mod egress;
mod egress_match;
mod egress_worker;
mod ghost_search;
mod ghosts;
mod ingress;
mod moderation;
mod participants;
mod plane;
mod rooms;
mod signal_connection;
mod subscriptions;
mod transport;
mod twirp;
mod webhook;

pub use config_check::{ConfigCheck, ConfigMismatch};
pub use plane::{LivekitPlane, LivekitSettings};
pub use webhook::{WebhookOutcome, WebhookSignature};
