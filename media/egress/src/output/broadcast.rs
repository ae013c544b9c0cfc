//! A broadcast: one encoder, and a connection for each receiver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::rtmp::RtmpUrl;
use conclave_model::settings::EgressConfig;
use parking_lot::Mutex;

use crate::backlog::{Capacity, Need};
use crate::encoding::{BROADCAST, Media, arguments};
use crate::ffmpeg::Ffmpeg;
use crate::flv::{Splitter, Tag, TagKind};
use crate::job::Progress;
use crate::process::Process;
use crate::rtmp::Dialler;
use crate::sink::{Encoder, Sink};
use crate::target::{Target, TargetState};

/// How long no receiver may have the stream before the broadcast has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long receivers may take to take the end of the stream.
const CLOSING: Duration = Duration::from_secs(5);
/// How often it is looked whether they have.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long the encoder may take to end.
const ENDING: Duration = Duration::from_secs(10);

/// What the encoder has written.
#[derive(Default)]
struct Encoded {
    splitter: Splitter,
    tags: Vec<Tag>,
}

/// A broadcast to some receivers.
pub struct StreamSink {
    dialler: Dialler,
    media: Media,
    encoder: Encoder,
    encoded: Arc<Mutex<Encoded>>,
    /// What each connection begins with.
    headers: Vec<Arc<Tag>>,
    /// Whether media has followed, so that the headers are complete.
    has_media: bool,
    targets: Vec<Target>,
    progress: Arc<Progress>,
    bytes: u64,
    was_connected: bool,
    last_connected: Instant,
}

impl StreamSink {
    /// Starts the encoder.
    ///
    /// # Errors
    /// It cannot be started, or an encoder is missing.
    pub fn start(
        ffmpeg: &Ffmpeg,
        (urls, dialler): (&[RtmpUrl], Dialler),
        (media, encoding): (Media, &EgressConfig),
        backlog: Capacity,
        progress: Arc<Progress>,
    ) -> Result<Self, String> {
        let arguments = arguments(ffmpeg, BROADCAST, media, encoding)
            .map_err(|codec| format!("this ffmpeg has no encoder for {codec}"))?;
        let mut command = ffmpeg.command();
        command
            .args(["-f", "matroska", "-i", "pipe:0", "-map", "0"])
            .args(arguments);
        command.args([
            "-flush_packets",
            "1",
            "-flvflags",
            "no_duration_filesize",
            "-f",
            "flv",
            "pipe:1",
        ]);
        let encoded = Arc::new(Mutex::new(Encoded::default()));
        let written = Arc::clone(&encoded);
        let on_output = Box::new(move |bytes: &[u8]| {
            let mut encoded = written.lock();
            let tags = encoded.splitter.push(bytes);
            encoded.tags.extend(tags);
        });
        let process = Process::start(command, backlog, Some(on_output))
            .map_err(|error| format!("ffmpeg cannot be started: {error}"))?;
        let now = Instant::now();
        Ok(Self {
            dialler,
            media,
            encoder: Encoder::new(process, media, encoding, true)?,
            encoded,
            headers: Vec::new(),
            has_media: false,
            targets: urls.iter().map(|url| Target::new(url, now)).collect(),
            progress,
            bytes: 0,
            was_connected: false,
            last_connected: now,
        })
    }

    /// Passes on what the encoder has written.
    fn pass_on(&mut self, now: Instant) {
        let tags = std::mem::take(&mut self.encoded.lock().tags);
        for tag in tags.into_iter().map(Arc::new) {
            self.bytes += u64::try_from(tag.bytes.len()).unwrap_or_default();
            if tag.kind == TagKind::Header {
                self.headers.push(Arc::clone(&tag));
            } else {
                self.has_media = true;
            }
            self.targets
                .iter_mut()
                .for_each(|target| target.send(&tag, &self.headers, now));
        }
    }

    /// Looks after the receivers, once there is something for them.
    fn look_after_targets(&mut self, now: Instant) {
        if self.has_media {
            for target in &mut self.targets {
                target.look_after(&self.dialler, self.media.has_video, now);
            }
        }
        let states: Vec<_> = self.targets.iter().map(Target::state).collect();
        self.was_connected |= states.contains(&TargetState::Connected);
        if self.targets.iter().any(Target::has_stream) {
            self.last_connected = now;
        }
        self.progress.set_targets(states);
    }
}

impl Sink for StreamSink {
    fn write_picture(&mut self, at: Duration, planes: Vec<u8>, need: Need) -> Result<bool, String> {
        Ok(self.encoder.write_picture(at, &planes, need))
    }

    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String> {
        self.encoder.write_samples(at, &samples)
    }

    fn look_after(&mut self, now: Instant) -> Result<(), String> {
        if let Some(failure) = self.encoder.failure() {
            return Err(failure);
        }
        self.look_after_targets(now);
        self.pass_on(now);
        if now < self.last_connected + PATIENCE {
            return Ok(());
        }
        let failures: Vec<_> = self
            .targets
            .iter()
            .filter_map(|target| target.failure.clone())
            .collect();
        Err(format!(
            "no receiver has taken the stream for a minute: {}",
            failures.join("; ")
        ))
    }

    fn is_active(&self) -> bool {
        self.was_connected
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn buffered_bytes(&self) -> u64 {
        self.encoder.buffered_bytes()
    }

    fn finish(mut self: Box<Self>) -> Result<bool, String> {
        // What the encoder still has is passed on once it has ended.
        let (encoded, encoder) = (
            Arc::clone(&self.encoded),
            self.encoder.into_process().finish(ENDING),
        );
        let rest = std::mem::take(&mut encoded.lock().tags);
        let now = Instant::now();
        for tag in rest.into_iter().map(Arc::new) {
            self.targets
                .iter_mut()
                .for_each(|target| target.send(&tag, &self.headers, now));
        }
        self.targets.iter_mut().for_each(Target::close);
        // The broadcast is over, whatever the receivers make of it.
        while !self.targets.iter().all(Target::has_ended) && now.elapsed() < CLOSING {
            std::thread::sleep(INTERVAL);
        }
        encoder.map(|()| self.was_connected)
    }
}

#[cfg(test)]
mod tests;
