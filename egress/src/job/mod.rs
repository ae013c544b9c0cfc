//! Running egresses. Each has a thread, which takes packets out of a bounded queue and news of the room out of another one.

mod handle;
mod run;
mod track;

pub use handle::{Attendee, AttendeeTrack, EgressHost, JobEvent, JobHandle, Progress};
pub(crate) use handle::{Inputs, channel};
pub(crate) use run::{Job, run};
pub(crate) use track::TrackJob;
