//! Decoders of video: a process for each track, which keeps the timestamps.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use conclave_rtc::Codec;
use parking_lot::Mutex;

use crate::composite::{Picture, Shown};
use crate::ffmpeg::Ffmpeg;
use crate::matroska::{Block, Reader, Writer};
use crate::places::Place;
use crate::process::Process;
use crate::rtp::{Frame, MAX_PIXELS};
use crate::track_header::header;

/// Frames that wait for a decoder.
const QUEUE: usize = 128;
/// The most address space of a decoder. One of the largest pictures takes half of it.
const MEMORY: u64 = 1 << 30;
/// Decoded pictures that wait for their time.
const PICTURES: usize = 64;

/// A decoder of a video, whose pictures are fitted into a size.
pub struct VideoDecoder {
    process: Process,
    /// The size of the pictures.
    pub size: (u32, u32),
    /// The width and height of the video, if it has said them. Its shape is in the middle of the pictures.
    source: Option<(u32, u32)>,
    pictures: Arc<Mutex<VecDeque<(Duration, Picture)>>>,
    _places: Vec<Place>,
}

impl VideoDecoder {
    /// Starts with a key frame; `None` if the frame is none.
    ///
    /// # Errors
    /// ffmpeg cannot be started.
    pub fn start(
        ffmpeg: &Ffmpeg,
        (codec, first): (Codec, &Frame),
        size: (u32, u32),
        places: Vec<Place>,
    ) -> Result<Option<Self>, String> {
        let Some(track) = header(codec, first).filter(|_| first.is_key) else { return Ok(None) };
        let (width, height) = size;
        let fit = format!(
            "scale={width}:{height}:force_original_aspect_ratio=decrease:flags=bilinear,\
             pad={width}:{height}:(ow-iw)/2:(oh-ih)/2:black,setsar=1,format=yuv420p"
        );
        let mut command = decoding(ffmpeg, codec);
        command.args(ffmpeg.keep_timestamps()).args(["-enc_time_base", "-1", "-vf", &fit]);
        command.args(["-c:v", "rawvideo", "-allow_raw_vfw", "1"]);
        let pictures = Arc::new(Mutex::new(VecDeque::new()));
        let decoded = Arc::clone(&pictures);
        let process = start(command, move |block| {
            let Some(picture) = Picture::from_planes(width, height, block.data) else { return };
            let mut waiting = decoded.lock();
            if waiting.len() == PICTURES {
                waiting.pop_front();
            }
            waiting.push_back((block.at, picture));
        })?;
        process.send(Writer::header(&[track])).map_err(|_| "the decoder does not read".to_owned())?;
        Ok(Some(Self { process, size, source: first.dimensions, pictures, _places: places }))
    }

    /// Decodes a frame. Returns whether the decoder works.
    pub fn push(&mut self, frame: &Frame) -> bool {
        self.source = frame.dimensions.or(self.source);
        self.process.try_send(Writer::frame(1, frame.at, frame.is_key, &frame.data)).is_ok()
    }

    /// Returns the newest picture that was captured up to a moment, and forgets it and those before it.
    pub fn take_picture(&self, until: Duration) -> Option<Shown> {
        let mut waiting = self.pictures.lock();
        let mut newest = None;
        while waiting.front().is_some_and(|(at, _)| *at <= until) {
            newest = waiting.pop_front().map(|(_, picture)| picture);
        }
        newest.map(|picture| Shown::new(picture, self.source))
    }

    /// Shows a picture at a moment, as if it had been decoded.
    #[cfg(test)]
    pub fn show(&self, at: Duration, picture: Picture) {
        self.pictures.lock().push_back((at, picture));
    }

    /// Returns whether the decoder has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }
}

/// Returns a command that decodes the track in Matroska of its input as soon as it arrives.
fn decoding(ffmpeg: &Ffmpeg, codec: Codec) -> Command {
    let mut command = ffmpeg.command();
    if codec == Codec::Vp9 {
        // ffmpeg's own decoder returns the frames of all spatial layers, this one only those of the best.
        command.args(["-c:v", "libvpx-vp9"]);
    }
    // The first frame is enough to begin.
    command.args(["-flags", "low_delay", "-fpsprobesize", "0"]);
    command.args([
        "-max_pixels",
        &MAX_PIXELS.to_string(),
        "-threads",
        "1",
        "-copyts",
        "-f",
        "matroska",
        "-i",
        "pipe:0",
        "-map",
        "0",
    ]);
    command
}

fn start(mut command: Command, mut on_block: impl FnMut(Block) + Send + 'static) -> Result<Process, String> {
    // A cluster for each frame, so that none waits for the next one.
    command.args(["-f", "matroska", "-live", "1", "-cluster_size_limit", "1", "-cluster_time_limit", "0"]);
    command.args(["-flush_packets", "1", "pipe:1"]);
    let mut reader = Reader::default();
    let on_output = Box::new(move |bytes: &[u8]| reader.push(bytes).into_iter().for_each(&mut on_block));
    Process::start_within(command, Some(MEMORY), QUEUE, Some(on_output))
        .map_err(|error| format!("ffmpeg cannot be started: {error}"))
}
