//! The media plane: one port ([`MediaPlane`]), and the planes behind it.
//!
//! The control plane decides and keeps records; a media plane holds live state and does what it is told. What happens in
//! it comes back as [`Report`]s through a [`ReportSink`]. The port names no type of any particular media server.
//!
//! - [`port`]: what every plane can do, and what it reports.
//! - [`token`]: room tokens, which any LiveKit client can carry.
//! - [`MonitoredPlane`]: stands in front of any plane, and notices when it is away and when it is back.
//! - [`embedded`]: rooms and people in this process, as a state machine without I/O.
//! - [`livekit`]: a LiveKit server, over its API and its webhooks.

pub mod embedded;
mod guard;
pub mod livekit;
mod metrics;
pub mod port;
mod rules;
mod text;
pub mod token;

pub use guard::{CircuitSettings, MonitoredPlane};
pub use metrics::MediaMetrics;
pub use port::{
    EgressOutput, EgressRequest, IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaEvent, MediaPlane,
    MuteOutcome, Report, ReportAnswer, ReportError, ReportSink, RoleGrant, ServerData, Survey,
};
