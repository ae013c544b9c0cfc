//! The embedded media plane: rooms and people in this process.
//!
//! Two halves that are kept apart. The *machine* is rooms, participants, grants, inboxes and measured bitrates as plain
//! data: it does no I/O, knows no clock, and takes `now` with each call. The *driver*, [`EmbeddedPlane`], puts it behind a
//! lock, gives it time, and hands what it reports to the control plane in the order in which it happened. Today the
//! sandbox calls drive it; clients that speak WebRTC can drive the same machine later.
//!
//! ```text
//! control plane ── MediaPlane ──▶ ┌───────────────┐     ┌─────────┐
//!                                 │ EmbeddedPlane │ ──▶ │ machine │
//! sandbox calls ─────────────────▶└───────┬───────┘     └─────────┘
//!                                         └─ ReportSink ──▶ control plane
//! ```
//!
//! A join has two phases, because the control plane may refuse it: the newcomer is in the machine and counted, but seen
//! by nobody, until the report of its join has been taken.

mod departed;
mod endpoint;
mod inbox;
mod job;
mod machine;
mod meter;
mod person;
mod plane;
mod publish;
mod room;
mod sandbox;

pub use inbox::{InboxEntry, Notice};
pub use plane::EmbeddedPlane;
pub use publish::{MachineError, NewTrack};
pub use sandbox::{ClientView, JoinAccepted, SandboxError};
