//! An ffmpeg child process that converts media for receivers: any audio to Opus, any video to H.264 without B-frames.
//!
//! It reads from its standard input, so it ends with the encoder's connection or with this process, however that ends.

use std::io;
use std::time::Duration;

use conclave_egress::{Ffmpeg, MAX_PIXELS, OnOutput, Priority, Process, SendError, VideoStream};
use conclave_model::permits::ProjectPermit;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::flv::{FileReader, Medium};
use super::packets::OggPackets;
use super::{InputContainer, InputOpening, Message};

/// Maximum buffered messages for ffmpeg: some seconds.
const QUEUE: usize = 512;
/// Maximum buffered packets and frames from ffmpeg.
const OUTPUT: usize = 256;
/// Maximum address space of ffmpeg, in bytes. Video of the largest size needs slightly more than half of it.
const MEMORY: u64 = 2 << 30;
/// Condition for a key frame: 2 seconds since the last one. A number of frames alone would be too long at low frame
/// rates.
const KEY_FRAMES: &str = "expr:if(isnan(prev_forced_t),1,gte(t,prev_forced_t+2))";
/// Audio before the first sample that an Opus decoder returns (RFC 7845, section 4.2).
const PRE_SKIP: Duration = Duration::from_micros(6_500);
/// Audio per packet.
const PACKET: Duration = Duration::from_millis(20);

/// ffmpeg's output.
#[derive(Debug, PartialEq, Eq)]
pub enum Transcoded {
    /// An Opus packet, with its time.
    Audio(Duration, Vec<u8>),
    /// A video message, with its time.
    Video(Duration, Vec<u8>),
}

/// A running ffmpeg process.
pub struct Transcoder {
    /// The first message's time.
    start: Duration,
    /// `None` while it is being dropped.
    process: Option<Process>,
    output: mpsc::Receiver<Transcoded>,
    /// Returned once the process has ended.
    permit: Option<ProjectPermit>,
}

impl Transcoder {
    /// Starts ffmpeg for a medium whose first message has this time. Blocks briefly.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(
        (ffmpeg, priority): (&Ffmpeg, Priority),
        medium: Medium,
        (start, opening): (Duration, InputOpening),
        permit: ProjectPermit,
    ) -> io::Result<Self> {
        let (sender, output) = mpsc::channel(OUTPUT);
        let mut parser = OutputParser::new(medium, start);
        let on_output = move |bytes: &[u8]| {
            for output in parser.read(bytes) {
                // Blocks while the connection is slow. If the connection is closed, the process is killed soon.
                let _ = sender.blocking_send(output);
            }
        };
        let (command, on_output) = (
            command(ffmpeg, medium, opening.source),
            Some(Box::new(on_output) as OnOutput),
        );
        let process = priority
            .run(|| Process::start_with_memory_limit(command, Some(MEMORY), QUEUE, on_output))?;
        // The queue is empty.
        let _ = process.try_send(opening.bytes);
        Ok(Self {
            start,
            process: Some(process),
            output,
            permit: Some(permit),
        })
    }

    /// Sends a message to ffmpeg, without waiting.
    ///
    /// # Errors
    /// If ffmpeg does not read fast enough, or has ended.
    pub fn send(&self, message: &impl Message) -> Result<(), SendError> {
        let since = message.time().saturating_sub(self.start);
        let process = self.process.as_ref().ok_or(SendError::Closed)?;
        // A message that is too large for the container is skipped.
        message
            .chunk(since)
            .map_or(Ok(()), |chunk| process.try_send(chunk))
    }

    /// Waits for the next output; `None` once ffmpeg has ended.
    pub async fn next(&mut self) -> Option<Transcoded> {
        self.output.recv().await
    }

    /// Stops ffmpeg, and returns its permit.
    pub async fn end(mut self) -> Option<ProjectPermit> {
        let (process, permit) = (self.process.take(), self.permit.take());
        // The permit covers the process's memory, so it is free only after the process has ended.
        let ended = spawn_blocking(move || drop(process)).await;
        // The only error is a panic.
        permit.filter(|_| ended.is_ok())
    }

    /// Returns ffmpeg's own message about its failure.
    pub async fn failure(mut self) -> String {
        let Some(mut process) = self.process.take() else {
            return String::new();
        };
        let failure = spawn_blocking(move || match process.exit_status() {
            Some(status) => process.failure(status),
            None => "ffmpeg closed its output".into(),
        });
        // The only error is a panic.
        failure.await.unwrap_or_default()
    }
}

impl Drop for Transcoder {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            let permit = self.permit.take();
            // In the background, since the process's end is awaited.
            drop(spawn_blocking(move || {
                drop(process);
                drop(permit);
            }));
        }
    }
}

/// Returns an ffmpeg command that reads a container from its standard input.
fn reader(ffmpeg: &Ffmpeg, source: InputContainer) -> std::process::Command {
    match source {
        InputContainer::Matroska(codec) => VideoStream::reader(ffmpeg, codec, &[]),
        InputContainer::Flv { .. } => {
            let mut command = ffmpeg.command();
            // Starts with the first message and decodes each frame at once. More threads would delay frames.
            command.args(["-max_pixels", &MAX_PIXELS.to_string()]);
            command.args([
                "-threads",
                "1",
                "-probesize",
                "2048",
                "-analyzeduration",
                "1000",
                "-copyts",
            ]);
            command.args(["-f", "flv", "-i", "pipe:0"]);
            command
        }
    }
}

fn command(ffmpeg: &Ffmpeg, medium: Medium, source: InputContainer) -> std::process::Command {
    let mut command = reader(ffmpeg, source);
    match medium {
        Medium::Audio => {
            // Fills gaps with silence, since packets are timed by counting them.
            command.args([
                "-vn",
                "-af",
                "aresample=48000:async=1:first_pts=0",
                "-ac",
                "2",
            ]);
            command.args([
                "-c:a",
                "libopus",
                "-b:a",
                "128k",
                "-application",
                "audio",
                "-frame_duration",
                "20",
            ]);
            command.args(["-f", "ogg", "-page_duration", "20000"]);
        }
        Medium::Video => {
            command.arg("-an").args(ffmpeg.keep_timestamps());
            // Shared windows can have odd sizes, which yuv420p does not allow.
            command.args(["-vf", "scale=trunc(iw/2)*2:trunc(ih/2)*2"]);
            command.args([
                "-c:v",
                "libx264",
                "-preset",
                "veryfast",
                "-tune",
                "zerolatency",
                "-profile:v",
                "baseline",
            ]);
            // Each thread needs memory, which is limited.
            command.args(["-threads", "4"]);
            command.args([
                "-pix_fmt", "yuv420p", "-bf", "0", "-g", "60", "-maxrate", "4M", "-bufsize", "4M",
            ]);
            command.args(["-force_key_frames", KEY_FRAMES]);
            command.args(["-f", "flv", "-flvflags", "no_duration_filesize"]);
        }
    }
    command.args(["-flush_packets", "1", "pipe:1"]);
    command
}

/// Parser for ffmpeg's output.
struct OutputParser {
    start: Duration,
    /// Audio packets so far.
    packets: u32,
    format: OutputFormat,
}

enum OutputFormat {
    Ogg(OggPackets),
    Flv(FileReader),
}

impl OutputParser {
    fn new(medium: Medium, start: Duration) -> Self {
        let format = match medium {
            Medium::Audio => OutputFormat::Ogg(OggPackets::default()),
            Medium::Video => OutputFormat::Flv(FileReader::default()),
        };
        Self {
            start,
            packets: 0,
            format,
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<Transcoded> {
        match &mut self.format {
            OutputFormat::Ogg(ogg) => {
                let packets = ogg.read(bytes);
                packets
                    .into_iter()
                    .map(|packet| self.audio(packet))
                    .collect()
            }
            OutputFormat::Flv(flv) => {
                let time =
                    |milliseconds: u32| self.start + Duration::from_millis(milliseconds.into());
                flv.read(bytes)
                    .into_iter()
                    .map(|(at, body)| Transcoded::Video(time(at), body))
                    .collect()
            }
        }
    }

    fn audio(&mut self, packet: Vec<u8>) -> Transcoded {
        let time = (self.start + PACKET * self.packets).saturating_sub(PRE_SKIP);
        self.packets += 1;
        Transcoded::Audio(time, packet)
    }
}

#[cfg(test)]
mod tests {
    use super::super::flv;
    use super::*;

    #[test]
    fn each_audio_packet_and_each_frame_has_its_time() {
        let start = Duration::from_secs(10);
        let mut parser = OutputParser::new(Medium::Audio, start);
        let times: Vec<_> = (0..2).map(|_| parser.audio(vec![1])).collect();
        let time = |micros| start + Duration::from_micros(micros) - PRE_SKIP;
        assert_eq!(
            times,
            [
                Transcoded::Audio(time(0), vec![1]),
                Transcoded::Audio(time(20_000), vec![1])
            ]
        );
        let mut parser = OutputParser::new(Medium::Video, start);
        let file = [
            flv::file_header(Medium::Video),
            flv::file_tag(Medium::Video, 40, &[7]).unwrap(),
        ]
        .concat();
        let output = parser.read(&file);
        assert_eq!(
            output,
            [Transcoded::Video(
                start + Duration::from_millis(40),
                vec![7]
            )]
        );
    }
}
