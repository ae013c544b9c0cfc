//! Decoders of video: a process for each track, which keeps the timestamps, and the stream that it reads.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_sfu::Codec;
use parking_lot::{Condvar, Mutex};

use super::Place;
use crate::codec::{Frame, MAX_PIXELS, decoder, track_header};
use crate::composite::{Picture, Shown};
use crate::ffmpeg::{Ffmpeg, Process};
use crate::matroska::{Block, Reader, Writer};

/// Frames that wait for a decoder.
const QUEUE: usize = 128;
/// The most address space of a decoder. One of the largest pictures takes half of it.
const MEMORY: u64 = 1 << 30;
/// Decoded pictures that wait for their time. With so many, the decoder waits, too.
const PICTURES: usize = 64;
/// How long a frame is waited for while the decoder makes no progress: it may take as long to start on a busy machine. One that the
/// decoder refuses never comes.
const STALLED: Duration = Duration::from_secs(5);
/// How far times of decoded pictures are off: ffmpeg rounds them to milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// A decoder of a video, whose pictures are fitted into a size.
pub struct VideoDecoder {
    process: Process,
    /// The size of the pictures.
    pub size: (u32, u32),
    /// The width and height of the video, if it has said them. Its shape is in the middle of the pictures.
    source: Option<(u32, u32)>,
    /// When the frames were captured whose pictures have not come, and when they were sent to the decoder.
    pending: VecDeque<(Duration, Instant)>,
    output: Arc<Output>,
    _places: Vec<Place>,
}

/// What a decoder has made.
#[derive(Default)]
struct Output {
    decoded: Mutex<Decoded>,
    /// Notified when a picture was taken or none is wanted any more.
    changed: Condvar,
}

#[derive(Default)]
struct Decoded {
    pictures: VecDeque<(Duration, Picture)>,
    /// The capture time of the last picture, and when it came.
    last: Option<(Duration, Instant)>,
    is_closed: bool,
}

impl Output {
    /// Adds a picture, once there is room for it.
    fn push(&self, at: Duration, picture: Option<Picture>) {
        let mut decoded = self.decoded.lock();
        decoded.last = Some((at, Instant::now()));
        self.changed.wait_while(&mut decoded, |decoded| {
            decoded.pictures.len() >= PICTURES && !decoded.is_closed
        });
        decoded
            .pictures
            .extend(picture.map(|picture| (at, picture)));
    }
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
        let Some(track) = track_header(codec, first).filter(|_| first.is_key) else {
            return Ok(None);
        };
        let (width, height) = size;
        let fit = format!(
            "scale={width}:{height}:force_original_aspect_ratio=decrease:flags=bilinear,\
             pad={width}:{height}:(ow-iw)/2:(oh-ih)/2:black,setsar=1,format=yuv420p"
        );
        let mut command = VideoStream::reader(ffmpeg, codec, &["-flags", "low_delay"]);
        command
            .args(["-map", "0"])
            .args(ffmpeg.keep_timestamps())
            .args(["-enc_time_base", "-1", "-vf", &fit]);
        command.args(["-c:v", "rawvideo", "-allow_raw_vfw", "1"]);
        let output = Arc::<Output>::default();
        let decoded = Arc::clone(&output);
        let process = start(command, move |block| {
            decoded.push(block.at, Picture::from_planes(width, height, block.data));
        })?;
        process
            .try_send(Writer::header(&[track]))
            .map_err(|_| "the decoder does not read".to_owned())?;
        let (source, pending) = (first.dimensions, VecDeque::new());
        Ok(Some(Self {
            process,
            size,
            source,
            pending,
            output,
            _places: places,
        }))
    }

    /// Decodes a frame that arrived at this moment. Returns whether the decoder works.
    pub fn push(&mut self, frame: &Frame, arrived: Instant) -> bool {
        self.source = frame.dimensions.or(self.source);
        self.pending.push_back((frame.at, arrived));
        self.process
            .try_send(Writer::frame(1, frame.at, frame.is_key, &frame.data))
            .is_ok()
    }

    /// Returns when the next frame was captured whose picture is still to come; `None` if there is none, or the decoder has stalled.
    pub fn awaited(&mut self, now: Instant) -> Option<Duration> {
        let last = self.output.decoded.lock().last;
        if let Some((decoded, _)) = last {
            // Those before it have no picture of their own.
            let is_done = |(at, _): &(Duration, Instant)| *at <= decoded + ROUNDING;
            while self.pending.front().is_some_and(is_done) {
                self.pending.pop_front();
            }
        }
        let (at, sent) = *self.pending.front()?;
        let progress = last.map_or(sent, |(_, came)| came.max(sent));
        (now.saturating_duration_since(progress) < STALLED).then_some(at)
    }

    /// Returns the number of frames whose pictures have not come.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the newest picture that was captured up to a moment, and forgets it and those before it.
    pub fn take_picture(&self, until: Duration) -> Option<Shown> {
        let mut decoded = self.output.decoded.lock();
        let mut newest = None;
        while decoded.pictures.front().is_some_and(|(at, _)| *at <= until) {
            newest = decoded.pictures.pop_front().map(|(_, picture)| picture);
        }
        drop(decoded);
        self.output.changed.notify_all();
        newest.map(|picture| Shown::new(picture, self.source))
    }

    /// Shows a picture at a moment, as if it had been decoded.
    #[cfg(test)]
    pub fn show(&self, at: Duration, picture: Picture) {
        self.output.push(at, Some(picture));
    }

    /// Returns whether the decoder has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }
}

impl Drop for VideoDecoder {
    fn drop(&mut self) {
        self.output.decoded.lock().is_closed = true;
        self.output.changed.notify_all();
    }
}

fn start(
    mut command: Command,
    mut on_block: impl FnMut(Block) + Send + 'static,
) -> Result<Process, String> {
    // A cluster for each frame, so that none waits for the next one.
    command.args([
        "-f",
        "matroska",
        "-live",
        "1",
        "-cluster_size_limit",
        "1",
        "-cluster_time_limit",
        "0",
    ]);
    command.args(["-flush_packets", "1", "pipe:1"]);
    let mut reader = Reader::default();
    let on_output =
        Box::new(move |bytes: &[u8]| reader.push(bytes).into_iter().for_each(&mut on_block));
    Process::start_within(command, Some(MEMORY), QUEUE, Some(on_output))
        .map_err(|error| format!("ffmpeg cannot be started: {error}"))
}

/// Writer of a live Matroska stream with one video.
#[derive(Debug, Clone, Copy)]
pub struct VideoStream;

impl VideoStream {
    /// Returns the header of a stream with this first frame; `None` if a decoder cannot start with the frame.
    pub fn header(codec: Codec, first: &Frame) -> Option<Vec<u8>> {
        track_header(codec, first).map(|track| Writer::header(&[track]))
    }

    /// Returns a frame, at a time since the start of the stream.
    pub fn frame(at: Duration, frame: &Frame) -> Vec<u8> {
        Writer::frame(1, at, frame.is_key, &frame.data)
    }

    /// Returns an ffmpeg command that reads a stream from its standard input, with further input options, and decodes each frame as soon
    /// as it arrives. The caller adds the output.
    pub fn reader(ffmpeg: &Ffmpeg, codec: Codec, options: &[&str]) -> Command {
        let mut command = ffmpeg.command();
        if let Some(decoder) = decoder(codec) {
            command.args(["-c:v", decoder]);
        }
        // The first frame is enough to start.
        command
            .args(options)
            .args(["-fpsprobesize", "0", "-max_pixels", &MAX_PIXELS.to_string()]);
        command.args(["-threads", "1", "-copyts", "-f", "matroska", "-i", "pipe:0"]);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_with_a_frame_that_describes_it_and_keeps_the_times() {
        let frame = |data: &[u8], is_key| Frame {
            at: Duration::ZERO,
            timestamp: 0,
            is_key,
            data: data.to_vec(),
            dimensions: None,
        };
        let parameters = [&[0, 0, 0, 4, 0x67, 66, 0, 31][..], &[0, 0, 0, 2, 0x68, 9]].concat();
        let (key, other) = (frame(&parameters, true), frame(&[0, 0, 0, 1, 0x41], false));
        assert_eq!(VideoStream::header(Codec::H264, &other), None);
        let mut stream = VideoStream::header(Codec::H264, &key).unwrap();
        stream.extend(VideoStream::frame(Duration::from_millis(40), &key));
        // It is shown before the one before.
        stream.extend(VideoStream::frame(Duration::from_millis(20), &other));
        let blocks = Reader::default().push(&stream);
        let read: Vec<_> = blocks
            .iter()
            .map(|block| (block.at.as_millis(), block.data.as_slice()))
            .collect();
        assert_eq!(read, [(40, &key.data[..]), (20, &other.data[..])]);
    }
}
