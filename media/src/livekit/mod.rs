//! The LiveKit media plane: a LiveKit server, as a single node or a cluster.
//!
//! Conclave calls LiveKit's server API. LiveKit reports by webhooks, which are verified, converted and forwarded to the
//! control plane, and acknowledged once their contents are durable. Reconciliation makes up for lost webhooks.
//!
//! # Reading order
//!
//! 1. [`plane`]: the implementation of the port, and construction of the parts that it delegates to.
//! 2. [`rooms`], [`participants`], [`ingress`] and [`egress`]: the calls, by subject. They hide the API's
//!    peculiarities, such as a 503 for a participant that does not exist or a 200 for a track that does not exist.
//!    [`convert`]: LiveKit's messages as Conclave's types.
//! 3. [`twirp`]: the API's client, Twirp over HTTP. [`access_token`]: each call has a token that grants only this call.
//! 4. [`webhook`]: from LiveKit's event to the control plane.
//! 5. Features that LiveKit lacks: subscription rules ([`subscriptions`]), detection of ghost participants
//!    ([`ghosts`]), and a check of its settings ([`config_check`]), which joins a room through a WebSocket
//!    ([`signal_connection`]).

mod access_token;
mod config_check;
mod convert;
mod egress;
mod ghosts;
mod ingress;
mod participants;
mod plane;
mod rooms;
mod signal_connection;
mod subscriptions;
mod twirp;
mod webhook;

pub use config_check::{ConfigCheck, ConfigMismatch};
pub use plane::{LivekitPlane, LivekitSettings};
pub use webhook::{WebhookOutcome, WebhookSignature};
