//! Recordings and broadcasts of the embedded media plane.
//!
//! Packets come from the media workers through bounded queues; ffmpeg, as child processes, decodes, encodes and writes files.
//! Each egress has a thread, so that neither a slow disk nor a slow encoder holds anything else up.
//!
//! - `rtp`: from packets to frames on one time line; `composite`: pictures and sounds of several in one; `matroska`: between
//!   this process and ffmpeg. All without I/O.
//! - `video_stream`: the frames of a video as ffmpeg reads them.
//! - `names`: names as pictures, with the fonts of the system.
//! - `job`: what an egress does, on its thread.
//! - `rtmp`: the sending end of RTMP.
//! - `ffmpeg`, `process`, `backlog`, `priority`, `decoder`, `audio`, `places`, `sink`, `output`, `files`, `broadcast`, `target`: the driver.

mod audio;
mod backlog;
mod broadcast;
mod composite;
mod decoder;
mod encoding;
mod engine;
mod ffmpeg;
mod files;
mod flv;
mod job;
mod matroska;
mod names;
mod output;
mod places;
mod priority;
mod process;
mod rtmp;
mod rtp;
mod settings;
mod sink;
mod stopping;
mod target;
mod track_header;
mod transcoders;
mod video_stream;

/// What reads packets and the output of ffmpeg, without processes: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use crate::flv::{FILE_HEADER_BYTES, Splitter, Tag, TagKind};
    pub use crate::matroska::{Block, Reader, Track, TrackKind, Writer};
    pub use crate::rtp::{configuration, opus_duration};
    pub use crate::track_header::header;
    pub use crate::{Frame, PublisherClock, TrackReader};
}

pub use backlog::{Capacity, DiskBuffer};
pub use engine::{Engine, Prepared, StartError};
pub use ffmpeg::{Ffmpeg, FfmpegError};
pub use job::{
    Attendee, AttendeeTrack, EgressHost, JobEvent, JobHandle, LeftOutTracks, Progress, Totals,
};
pub use priority::Priority;
pub use process::{OnOutput, Process, SendError};
pub use rtmp::Dialler;
pub use rtp::{Announced, Frame, MAX_PIXELS, PublisherClock, TrackReader, of_units};
pub use settings::Settings;
pub use target::TargetState;
pub use transcoders::Transcoders;
pub use video_stream::VideoStream;
