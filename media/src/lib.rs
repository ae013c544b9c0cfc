//! The media plane: a port ([`MediaPlane`]) and its implementations.
//!
//! The control plane makes the decisions and keeps the records. A media plane holds the rooms' live state, executes the
//! control plane's calls, and sends events as [`Report`]s to a [`ReportSink`]. The port contains no types from a
//! particular media server.
//!
//! # Reading order
//!
//! 1. [`port`]: the calls that every plane supports, and its reports.
//! 2. [`token`]: room tokens in LiveKit's format, with which clients join a room on any plane.
//! 3. [`MonitoredPlane`]: adds metrics, a circuit breaker and outage detection to any plane.
//! 4. [`embedded`]: the plane in this process. Rooms come first; then client signalling (`signal`), encoders
//!    (`ingress`), recordings and broadcasts (`egress`).
//! 5. [`livekit`]: a LiveKit server, controlled through its API and observed through its webhooks.
//!
//! Both planes use `rules` (which roles receive which), `protocol` (conversion between LiveKit's enumerations and
//! Conclave's types) and `redact` (removal of stream keys from other processes' texts).

pub mod embedded;
pub mod livekit;
mod monitor;
pub mod port;
mod protocol;
mod redact;
mod rules;
pub mod token;

pub use monitor::{CircuitSettings, MediaMetrics, MonitoredPlane};
pub use port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaEvent, MediaInventory,
    MediaPlane, MuteOutcome, Report, ReportError, ReportInlet, ReportReply, ReportSink, RoleGrant,
    ServerData,
};
