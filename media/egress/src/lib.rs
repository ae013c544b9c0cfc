//! Recordings and broadcasts of the embedded media plane.
//!
//! Packets come from the media workers through bounded queues; ffmpeg, as child processes, decodes, encodes and writes files.
//! Each egress has a thread, so that neither a slow disk nor a slow encoder holds anything else up.
//!
//! # Reading order
//!
//! 1. `engine`: what starts egresses, within the limits of the server. `progress`: what each has done, for inspection.
//! 2. `job`: what an egress does, on its thread: it records a track as it is, or composes pictures and mixed sound.
//!
//! A packet becomes a frame, without I/O:
//!
//! 3. `rtp`: the frames of a track on the time line of its egress.
//! 4. `codec`: what is known of each codec, one file each: its payloads, its pictures, and the files that can have it.
//! 5. `matroska`: frames on their way between this process and ffmpeg.
//!
//! Frames become a composition:
//!
//! 6. `decode`: the decoders, and how many run at once.
//! 7. `composite`: pictures and sounds of several participants in one, without I/O. `names`: names as pictures, with the fonts of the system.
//!
//! What is recorded or composed goes out:
//!
//! 8. `output`: files, and the receivers of a broadcast. `ffmpeg`: its processes, what waits for them, and their priority.
//! 9. `rtmp`: the sending end of RTMP.

mod codec;
mod composite;
mod decode;
mod engine;
mod ffmpeg;
mod job;
mod matroska;
mod names;
mod output;
mod progress;
mod rtmp;
mod rtp;

/// What reads packets and the output of ffmpeg, without processes: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use crate::codec::{opus_duration, track_header as header};
    pub use crate::matroska::{Block, Reader, Track, TrackKind, Writer};
    pub use crate::rtmp::{FILE_HEADER_BYTES, Splitter, Tag, TagKind};
    pub use crate::{Frame, PublisherClock, TrackReader};
}

pub use codec::{Announced, Frame, MAX_PIXELS, of_units};
pub use decode::{Transcoders, VideoStream};
pub use engine::{Engine, Prepared, Settings, StartError};
pub use ffmpeg::{
    Capacity, DiskBuffer, Ffmpeg, FfmpegError, OnOutput, Priority, Process, SendError,
};
pub use job::{Attendee, AttendeeTrack, EgressHost, JobEvent, JobHandle};
pub use progress::{LeftOutTracks, Progress, TargetState, Totals};
pub use rtmp::Dialler;
pub use rtp::{PublisherClock, TrackReader};
