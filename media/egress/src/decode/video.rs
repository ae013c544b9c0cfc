//! Video decoders, one ffmpeg process per track, and the Matroska stream between them and this
//! process.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_sfu::Codec;
use parking_lot::{Condvar, Mutex};

use super::Slot;
use crate::codec::{EncodedFrame, MAX_PIXELS, decoder, track_header};
use crate::composite::{TileFrame, VideoFrame};
use crate::ffmpeg::{Ffmpeg, Process};
use crate::matroska::{MatroskaBlock, MatroskaReader, MatroskaWriter};

// About as long as a file's composition waits: 8.5 s at 15 frames per second.
const MAX_QUEUED_FRAMES: usize = 128;
// A maximum-size video takes half. Malformed streams must not exhaust the server's memory.
const MAX_ADDRESS_SPACE: u64 = 1 << 30;
/// Maximum decoded frames that wait for their time. The decoder is not read beyond it, so it waits
/// as well.
const MAX_DECODED_FRAMES: usize = 64;
/// Maximum time without progress. Starting ffmpeg on a busy machine takes as long; a frame that the
/// decoder rejects never comes out.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum rounding error in timestamps: ffmpeg's Matroska muxer writes milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// Video decoder that scales to a fixed size.
pub struct VideoDecoder {
    process: Process,
    /// Decoded frame size, including bars.
    pub size: (u32, u32),
    /// Size announced by the video, if any, which determines the bars.
    source: Option<(u32, u32)>,
    /// Capture and arrival times for frames still in the decoder.
    pending: VecDeque<(Duration, Instant)>,
    output: Arc<DecoderOutput>,
    _slots: Vec<Slot>,
}

/// Decoder output, shared with the thread that reads it.
#[derive(Default)]
struct DecoderOutput {
    decoded: Mutex<DecodedFrames>,
    /// Notified when a frame was taken or the decoder is closed.
    changed: Condvar,
}

#[derive(Default)]
struct DecodedFrames {
    frames: VecDeque<(Duration, VideoFrame)>,
    /// Last decoded frame's capture time, and when it was decoded.
    last: Option<(Duration, Instant)>,
    is_closed: bool,
}

impl DecoderOutput {
    /// Adds a frame, waiting for room. A block that is not a frame counts as progress only.
    fn push(&self, at: Duration, frame: Option<VideoFrame>) {
        let mut decoded = self.decoded.lock();
        decoded.last = Some((at, Instant::now()));
        self.changed.wait_while(&mut decoded, |decoded| {
            decoded.frames.len() >= MAX_DECODED_FRAMES && !decoded.is_closed
        });
        decoded.frames.extend(frame.map(|frame| (at, frame)));
    }
}

impl VideoDecoder {
    /// Starts a decoder; `None` if `first` is not a key frame that it can start with.
    ///
    /// # Errors
    /// Fails if ffmpeg cannot be started.
    pub fn start(
        ffmpeg: &Ffmpeg,
        (codec, first): (Codec, &EncodedFrame),
        size: (u32, u32),
        slots: Vec<Slot>,
    ) -> Result<Option<Self>, String> {
        let Some(track) = track_header(codec, first).filter(|_| first.is_key) else {
            return Ok(None);
        };
        let (width, height) = size;
        let fit = format!(
            "scale={width}:{height}:force_original_aspect_ratio=decrease:flags=bilinear,\
             pad={width}:{height}:(ow-iw)/2:(oh-ih)/2:black,setsar=1,format=yuv420p"
        );
        // Without `low_delay`, H.264 decoders hold back frames for reordering.
        let mut command = VideoStream::reader(ffmpeg, codec, &["-flags", "low_delay"]);
        command
            .args(["-map", "0"])
            .args(ffmpeg.keep_timestamps())
            // The encoder's time base is the input's, or timestamps would be rounded to the frame
            // rate.
            .args(["-enc_time_base", "-1", "-vf", &fit]);
        command.args(["-c:v", "rawvideo", "-allow_raw_vfw", "1"]);
        let output = Arc::<DecoderOutput>::default();
        let decoded = Arc::clone(&output);
        let process = start(command, move |block| {
            decoded.push(block.at, VideoFrame::from_planes(width, height, block.data));
        })?;
        process
            .try_send(MatroskaWriter::header(&[track]))
            .map_err(|_| "the decoder does not read".to_owned())?;
        let (source, pending) = (first.dimensions, VecDeque::new());
        Ok(Some(Self {
            process,
            size,
            source,
            pending,
            output,
            _slots: slots,
        }))
    }

    /// Sends a frame to the decoder. Returns whether it accepted the frame.
    pub fn push(&mut self, frame: &EncodedFrame, arrived: Instant) -> bool {
        self.source = frame.dimensions.or(self.source);
        self.pending.push_back((frame.at, arrived));
        // The send also fails if the queue is full: a decoder that is seconds behind is replaced at
        // the next key frame.
        self.process
            .try_send(MatroskaWriter::frame(
                1,
                frame.at,
                frame.is_key,
                &frame.data,
            ))
            .is_ok()
    }

    /// Returns the oldest capture time in the decoder; `None` if it is empty or has stalled.
    pub fn next_pending(&mut self, now: Instant) -> Option<Duration> {
        let last = self.output.decoded.lock().last;
        if let Some((decoded, _)) = last {
            // Earlier frames are done, too: a frame that refers to lost ones has no own output.
            let is_done = |(at, _): &(Duration, Instant)| *at <= decoded + ROUNDING;
            while self.pending.front().is_some_and(is_done) {
                self.pending.pop_front();
            }
        }
        let (at, sent) = *self.pending.front()?;
        let progress = last.map_or(sent, |(_, came)| came.max(sent));
        (now.saturating_duration_since(progress) < STALL_TIMEOUT).then_some(at)
    }

    /// Returns how many frames are still in the decoder.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the newest frame captured up to a moment, and drops earlier ones.
    pub fn take_frame(&self, until: Duration) -> Option<TileFrame> {
        let mut decoded = self.output.decoded.lock();
        let mut newest = None;
        while decoded.frames.front().is_some_and(|(at, _)| *at <= until) {
            newest = decoded.frames.pop_front().map(|(_, frame)| frame);
        }
        drop(decoded);
        self.output.changed.notify_all();
        newest.map(|frame| TileFrame::new(frame, self.source))
    }

    /// Adds a frame as if it had been decoded.
    #[cfg(test)]
    pub fn show(&self, at: Duration, frame: VideoFrame) {
        self.output.push(at, Some(frame));
    }

    /// Returns whether the process has exited.
    pub fn has_ended(&mut self) -> bool {
        self.process.exit_status().is_some()
    }
}

impl Drop for VideoDecoder {
    fn drop(&mut self) {
        // Wakes the reading thread, which would otherwise wait for room for ever.
        self.output.decoded.lock().is_closed = true;
        self.output.changed.notify_all();
    }
}

fn start(
    mut command: Command,
    mut on_block: impl FnMut(MatroskaBlock) + Send + 'static,
) -> Result<Process, String> {
    // One cluster per frame: ffmpeg writes a cluster only when it is complete, so a frame would
    // otherwise wait for the next ones.
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
    let mut reader = MatroskaReader::default();
    let on_output =
        Box::new(move |bytes: &[u8]| reader.push(bytes).into_iter().for_each(&mut on_block));
    Process::start_with_memory_limit(
        command,
        Some(MAX_ADDRESS_SPACE),
        MAX_QUEUED_FRAMES,
        Some(on_output),
    )
    .map_err(|error| format!("ffmpeg cannot be started: {error}"))
}

/// Writer for a live Matroska stream with one video track.
#[derive(Debug, Clone, Copy)]
pub struct VideoStream;

impl VideoStream {
    /// Returns the stream header for this first frame; `None` if a decoder cannot start with it.
    pub fn header(codec: Codec, first: &EncodedFrame) -> Option<Vec<u8>> {
        track_header(codec, first).map(|track| MatroskaWriter::header(&[track]))
    }

    /// Returns a frame's bytes, with a time since the stream's start.
    pub fn frame(at: Duration, frame: &EncodedFrame) -> Vec<u8> {
        MatroskaWriter::frame(1, at, frame.is_key, &frame.data)
    }

    /// Returns an ffmpeg command that reads a stream from its standard input and decodes each frame
    /// as it arrives. `options` apply to the input; the caller adds the output.
    pub fn reader(ffmpeg: &Ffmpeg, codec: Codec, options: &[&str]) -> Command {
        let mut command = ffmpeg.command();
        if let Some(decoder) = decoder(codec) {
            command.args(["-c:v", decoder]);
        }
        // By default, ffmpeg reads several frames to guess the frame rate before it decodes any.
        command
            .args(options)
            .args(["-fpsprobesize", "0", "-max_pixels", &MAX_PIXELS.to_string()]);
        // One thread: frame threading would hold back a frame per thread, and there are many
        // decoders anyway.
        command.args(["-threads", "1", "-copyts", "-f", "matroska", "-i", "pipe:0"]);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_starts_with_a_key_frame_and_keeps_the_times() {
        let frame = |data: &[u8], is_key| EncodedFrame {
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
        // A frame may be shown before its predecessor, as with B-frames.
        stream.extend(VideoStream::frame(Duration::from_millis(20), &other));
        let blocks = MatroskaReader::default().push(&stream);
        let read: Vec<_> = blocks
            .iter()
            .map(|block| (block.at.as_millis(), block.data.as_slice()))
            .collect();
        assert_eq!(read, [(40, &key.data[..]), (20, &other.data[..])]);
    }
}
