//! Recordings and broadcasts of the embedded media plane.
//!
//! Packets come from the media workers through bounded queues; ffmpeg, as child processes, decodes, encodes and writes files.
//! Each egress has a thread, so that neither a slow disk nor a slow encoder holds anything else up.
//!
//! - `rtp`: from packets to frames on one time line; `matroska`: between this process and ffmpeg. Both without I/O.
//! - `job`: what an egress does, on its thread.
//! - `ffmpeg`, `process`, `output`, `files`: the driver.

mod engine;
mod ffmpeg;
mod files;
mod job;
mod matroska;
mod output;
mod process;
mod rtp;
mod settings;

pub use engine::{Engine, Plan, Prepared, StartError};
pub use ffmpeg::{Ffmpeg, FfmpegError};
pub use job::{Attendee, AttendeeTrack, EgressHost, JobEvent, JobHandle, Progress};
pub use settings::Settings;
