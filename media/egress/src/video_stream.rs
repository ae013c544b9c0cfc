//! Frames of one video as a live Matroska stream, the input of decoders.

use std::process::Command;
use std::time::Duration;

use conclave_sfu::Codec;

use crate::ffmpeg::Ffmpeg;
use crate::matroska::Writer;
use crate::rtp::{Frame, MAX_PIXELS};
use crate::track_header::header;

/// Writer of a live Matroska stream with one video.
#[derive(Debug, Clone, Copy)]
pub struct VideoStream;

impl VideoStream {
    /// Returns the header of a stream with this first frame; `None` if a decoder cannot start with the frame.
    pub fn header(codec: Codec, first: &Frame) -> Option<Vec<u8>> {
        header(codec, first).map(|track| Writer::header(&[track]))
    }

    /// Returns a frame, at a time since the start of the stream.
    pub fn frame(at: Duration, frame: &Frame) -> Vec<u8> {
        Writer::frame(1, at, frame.is_key, &frame.data)
    }

    /// Returns an ffmpeg command that reads a stream from its standard input, with further input options, and decodes each frame as soon
    /// as it arrives. The caller adds the output.
    pub fn reader(ffmpeg: &Ffmpeg, codec: Codec, options: &[&str]) -> Command {
        let mut command = ffmpeg.command();
        if codec == Codec::Vp9 {
            // ffmpeg's own decoder returns the frames of all spatial layers, this one only those of the best.
            command.args(["-c:v", "libvpx-vp9"]);
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
    use crate::matroska::Reader;

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
