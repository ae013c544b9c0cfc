//! The media plane: a port ([`MediaPlane`]) and its implementations.
//!
//! The control plane decides and keeps the records. A media plane holds the live state of rooms, executes the control
//! plane's calls, and sends what happens as [`Report`]s to a [`ReportSink`]. The port contains no type of a particular media
//! server.
//!
//! # Reading order
//!
//! 1. [`port`]: the calls that every plane supports, and the reports that it sends.
//! 2. [`token`]: room tokens in LiveKit's format, with which clients join a room of any plane.
//! 3. [`MonitoredPlane`]: adds metrics, a circuit breaker and outage detection to any plane.
//! 4. [`embedded`]: the plane in this process. Rooms come first; then the signalling of clients (`signal`), encoders (`ingress`),
//!    recordings and broadcasts (`egress`).
//! 5. [`livekit`]: a LiveKit server, by its API and its webhooks.
//!
//! Both planes use `rules` (which roles receive which), `protocol` (LiveKit's enumerations as Conclave's types) and `redact`
//! (texts of other processes without stream keys).

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
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaEvent, MediaPlane,
    MuteOutcome, Report, ReportAnswer, ReportError, ReportInlet, ReportSink, RoleGrant, ServerData,
    Survey,
};
