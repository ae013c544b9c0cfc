//! Recordings and broadcasts on the embedded plane.
//!
//! - [`Egress`](state::Egress): one of them, and the statuses that it goes through. One of a room that only the sandbox has filled is
//!   simulated: a status that time and the sandbox change, so that an integration can test each course that an egress can take. All
//!   others are jobs, which ffmpeg carries out in threads of `conclave-egress`.
//! - [`RoomEgresses`]: those of one room, as a part of the room's machine. It follows who publishes what
//!   ([`Attendance`](attendance::Attendance)), and tells the jobs by effects.
//! - [`Jobs`](jobs::Jobs): the jobs that run on this server.
//! - [`start`](self::start): how an egress is started, what a job does with its room, and how all jobs end when the server stops.
//! - [`metrics`](self::metrics): what the jobs have written and sent.
//!
//! An egress starts with its file, which may be refused, and then its thread, which waits until the machine lets it know who
//! attends. It ends with an event of its thread, also if the control plane stopped it: its file is final by then.

pub(super) mod attendance;
pub(super) mod jobs;
pub(super) mod metrics;
mod room_egresses;
pub(super) mod start;
mod state;

pub(super) use room_egresses::RoomEgresses;
pub(super) use state::{Egress, EndedEgresses};
