//! Recordings and broadcasts for the embedded media plane.
//!
//! As in LiveKit, both are called *egress*, from the request to the final status: a recording is an
//! egress to a file, a broadcast an egress to RTMP URLs. This crate uses the narrower words only
//! where the two differ.
//!
//! # Dramatis personae
//!
//! - [`EgressService`], one per server, knows ffmpeg and the limits. It turns a plan into a
//!   [`PreparedEgress`]: the file is reserved, the encoders exist, and the permit is taken, so that
//!   an impossible request fails at once and not after its response. Starting that yields a thread
//!   and an [`EgressHandle`].
//! - `pipeline` is the thread: a loop around one of two pipelines. The *track* pipeline copies a
//!   track into a file without decoding it. The *composite* pipeline decodes tracks, draws the
//!   frames into tiles, mixes the audio, and encodes both.
//! - `rtp` turns packets into [`EncodedFrame`]s on the egress's time line; `codec` knows how each
//!   codec packs a frame, and its properties for containers.
//! - `decode` owns the decoders: Opus in this process, one ffmpeg per video. `composite` draws and
//!   mixes without I/O, and `names` draws participants' names.
//! - `matroska` carries frames to and from ffmpeg, because it keeps timestamps and needs no
//!   seeking.
//! - `output` has the composite's two sinks: a file, or a broadcast's receivers. `ffmpeg` has the
//!   child processes, each with a queue; `rtmp` sends to receivers.
//! - `progress` counts, for inspection and for warnings in the log.
//!
//! # A composition
//!
//! ```text
//! media worker ──packets──▶ rtp ──frames──▶ decode ──raw frames, samples──▶ composite
//!      ▲                                                                       │
//!      └── layers, key frames ── pipeline ◀── inputs, stop ── room             ▼
//!                                   RTMP or file ◀── ffmpeg ◀── matroska ◀── sink
//! ```
//!
//! 1. The room plans an egress and hands over the inputs: participants and their tracks. From then
//!    on a media worker sends the packets, as it would to one more subscriber.
//! 2. The composite runs 800 ms behind the call, which is enough for retransmissions and decoders.
//!    Input changes wait until it reaches their moment.
//! 3. Every 10 ms, the pipeline composes whatever is due: a frame per frame interval, and an audio
//!    chunk every 20 ms.
//! 4. The sink writes them to the encoder. The encoder's queue continues on disk, so a busy machine
//!    delays the file rather than damaging it.
//! 5. When the egress stops, packets received before that moment are still composed. Then the
//!    encoder finishes, an MP4 file is rewritten with its index in front, and the last event
//!    reports the final status.
//!
//! # Failures
//!
//! - *Packets are lost or late.* Audio becomes silence. Video continues at the next key frame,
//!   which is requested until it arrives.
//! - *The egress is too slow.* Its queue is full, so the media worker drops packets rather than
//!   wait. A file waits up to 10 s for decoders; a broadcast drops frames.
//! - *A decoder dies.* It read untrusted media; the next key frame starts another one.
//! - *The encoder dies, or the disk is full.* The egress fails. The part written so far plays.
//! - *A receiver disconnects.* It is dialled again with a growing delay. The broadcast fails once
//!   no receiver has had the stream for a minute.
//! - *The server stops.* All egresses share one deadline; after it, encoders are killed and the
//!   files stay as they are.
//!
//! # Why not simpler
//!
//! One ffmpeg with all tracks as inputs cannot add or remove an input while it runs, so the
//! composition happens here. libav in this process would avoid copying frames through pipes, but
//! its parsers would read untrusted media with the server's memory and keys in reach; a child
//! process can crash, be limited and be killed. Each egress has its own thread so that a slow disk
//! or encoder delays nothing else.

mod codec;
mod composite;
mod decode;
mod ffmpeg;
mod matroska;
mod names;
mod output;
mod pipeline;
mod progress;
mod rtmp;
mod rtp;
mod service;

/// Parsers for packets and ffmpeg's output, for the fuzz targets.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::codec::{opus_duration, track_header as header};
    pub use crate::matroska::{
        MatroskaBlock, MatroskaReader, MatroskaTrack, MatroskaTrackKind, MatroskaWriter,
    };
    pub use crate::rtmp::{FILE_HEADER_BYTES, FlvSplitter, FlvTag, FlvTagKind};
    pub use crate::{EncodedFrame, PublisherClock, TrackReader};
}

pub use codec::{AnnouncedSize, EncodedFrame, MAX_PIXELS, announced_by_nal_units};
pub use decode::{TranscoderPermits, VideoStream};
pub use ffmpeg::{
    BacklogCapacity, DiskBuffer, Ffmpeg, FfmpegError, OnOutput, Priority, Process, SendError,
};
pub use pipeline::{EgressEvent, EgressHandle, EgressHost, InputParticipant, InputTrack};
pub use progress::{EgressProgress, EgressTotals, LeftOutTracks, TargetState};
pub use rtmp::RtmpDialler;
pub use rtp::{PublisherClock, TrackReader};
pub use service::{EgressService, EgressSettings, PreparedEgress, StartEgressError};
