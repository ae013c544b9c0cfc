//! The media plane: a port ([`MediaPlane`]) and its implementations.
//!
//! The control plane decides and keeps the records. A media plane holds the live state of rooms, executes the control
//! plane's calls, and sends what happens as [`Report`]s to a [`ReportSink`]. The port contains no type of a particular media
//! server.
//!
//! - [`port`]: the calls that every plane supports, and the reports that it sends.
//! - [`token`]: room tokens in LiveKit's format.
//! - [`MonitoredPlane`]: adds metrics, a circuit breaker and outage detection to any plane.
//! - [`embedded`]: a plane in this process, for development and tests.
//! - [`livekit`]: a LiveKit server, by its API and its webhooks.

pub mod embedded;
pub mod livekit;
mod metrics;
mod monitor;
pub mod port;
mod protocol;
mod redact;
mod rules;
pub mod token;

pub use metrics::MediaMetrics;
pub use monitor::{CircuitSettings, MonitoredPlane};
pub use port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaEvent, MediaPlane,
    MuteOutcome, Report, ReportAnswer, ReportError, ReportInlet, ReportSink, RoleGrant, ServerData,
    Survey,
};
