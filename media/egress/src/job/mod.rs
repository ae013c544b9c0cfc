//! Running egresses. Each has a thread, which takes packets out of a bounded queue and news of the room out of another one.

mod attendance;
mod composite;
mod dropped;
mod handle;
mod input;
mod left_out;
mod run;
mod scene;
mod silence;
mod stage;
mod track;

pub(crate) use composite::{CompositeJob, Composition};
pub use handle::{
    Attendee, AttendeeTrack, EgressHost, JobEvent, JobHandle, LeftOutTracks, Progress, Totals,
};
pub(crate) use handle::{Inputs, channel};
pub(crate) use run::{Job, Limits, run};
pub(crate) use scene::Arrangement;
pub(crate) use track::TrackJob;
