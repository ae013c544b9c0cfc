//! Recordings and broadcasts on the embedded plane.
//!
//! - [`Egress`](state::Egress): an egress and its status. If the room has only sandbox participants, it is simulated:
//!   timers and the sandbox change its status, so that an integration can test each course that an egress can take. All
//!   others are jobs, which run ffmpeg in threads of `conclave-egress`.
//! - [`RoomEgresses`]: a room's egresses, as a part of the room state. It tracks the published tracks
//!   ([`EgressInputs`](inputs::EgressInputs)), and updates the jobs by effects.
//! - [`Jobs`](jobs::Jobs): the server's running jobs.
//! - [`start`](self::start): start of an egress, events from jobs to their rooms, and the end of all jobs when the
//!   server stops.
//! - [`metrics`](self::metrics): progress of the jobs.
//!
//! The start of an egress first creates its file, which may be refused, and then its thread, which waits until the room
//! state sends its inputs. It ends with an event from its thread, even if the control plane stopped it: only then is
//! its file final.

pub(super) mod inputs;
pub(super) mod jobs;
pub(super) mod metrics;
mod room_egresses;
pub(super) mod start;
mod state;

pub(super) use room_egresses::RoomEgresses;
pub(super) use state::{Egress, EndedEgresses};
