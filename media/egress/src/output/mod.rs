//! Where composed pictures and mixed sound go.

use std::time::{Duration, Instant};

use crate::backlog::{Capacity, Need};
use crate::encoding::{Media, arguments};
use crate::ffmpeg::Ffmpeg;
use crate::matroska::Writer;
use crate::output::OutputFile;
use crate::process::{Process, SendError};
use conclave_model::settings::EgressConfig;

/// Chunks behind which no further picture of a broadcast waits: it is live, and its receivers are not to fall behind.
const LIVE_CHUNKS: usize = 12;

/// Takes pictures and samples. An `Err` has the reason of a failure.
pub trait Sink: Send {
    /// Takes the planes of a picture. Returns whether there was room for it.
    fn write_picture(&mut self, at: Duration, planes: Vec<u8>, need: Need) -> Result<bool, String>;

    /// Takes the samples of a chunk.
    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String>;

    /// Looks after processes.
    fn look_after(&mut self, now: Instant) -> Result<(), String>;

    /// Returns whether media is written or sent.
    fn is_active(&self) -> bool;

    /// Returns how many bytes were written or sent.
    fn bytes(&self) -> u64;

    /// Returns the bytes on disk that wait for the encoder.
    fn buffered_bytes(&self) -> u64;

    /// Ends the output; returns whether anything is in it.
    fn finish(self: Box<Self>) -> Result<bool, String>;
}

/// An encoder that reads pictures and samples.
pub struct Encoder {
    process: Process,
    media: Media,
    /// Whether it encodes a broadcast.
    is_live: bool,
}

impl Encoder {
    /// Wraps the process, and sends it the header of the stream.
    ///
    /// # Errors
    /// The process does not read.
    pub fn new(
        process: Process,
        media: Media,
        encoding: &EgressConfig,
        is_live: bool,
    ) -> Result<Self, String> {
        let header = Writer::header(&media.tracks(encoding));
        process
            .try_send(header)
            .map_err(|_| "the encoder does not read".to_owned())?;
        Ok(Self {
            process,
            media,
            is_live,
        })
    }

    /// Takes the planes of a picture. Returns whether there was room for it.
    pub fn write_picture(&self, at: Duration, planes: &[u8], need: Need) -> bool {
        let frame = || Writer::frame(self.media.numbers().0, at, true, planes);
        match need {
            Need::Required => self.process.try_send(frame()).is_ok(),
            Need::Optional if self.is_live && self.process.backlog() >= LIVE_CHUNKS => false,
            Need::Optional => self.process.offer(frame()).is_ok(),
        }
    }

    /// Takes the samples of a chunk.
    ///
    /// # Errors
    /// The encoder does not read.
    pub fn write_samples(&self, at: Duration, samples: &[u8]) -> Result<(), String> {
        match self
            .process
            .try_send(Writer::frame(self.media.numbers().1, at, true, samples))
        {
            // It has read nothing for as long as its buffer on disk has audio for.
            Err(SendError::Full) => Err("the encoder has stopped to read".into()),
            // One that has ended is quoted when it is looked after.
            Ok(()) | Err(SendError::Closed) => Ok(()),
        }
    }

    /// Returns why the encoder has ended by itself; `None` while it runs.
    pub fn failure(&mut self) -> Option<String> {
        let status = self.process.ended()?;
        Some(self.process.failure(status))
    }

    /// Returns the bytes on disk that wait for the encoder.
    pub fn buffered_bytes(&self) -> u64 {
        self.process.buffered_bytes()
    }

    /// Returns the process.
    pub fn into_process(self) -> Process {
        self.process
    }
}

/// A file of composed pictures and mixed sound.
pub struct FileSink {
    file: OutputFile,
    encoder: Encoder,
}

impl FileSink {
    /// Starts the encoder, with a queue of this capacity.
    ///
    /// # Errors
    /// It cannot be started, or an encoder is missing.
    pub fn start(
        ffmpeg: &Ffmpeg,
        file: OutputFile,
        media: Media,
        encoding: &EgressConfig,
        backlog: Capacity,
    ) -> Result<Self, String> {
        let arguments = arguments(ffmpeg, file.container(), media, encoding)
            .map_err(|codec| format!("this ffmpeg has no encoder for {codec}"))?;
        let process = file.start(&arguments, backlog)?;
        Ok(Self {
            file,
            encoder: Encoder::new(process, media, encoding, false)?,
        })
    }
}

impl Sink for FileSink {
    fn write_picture(&mut self, at: Duration, planes: Vec<u8>, need: Need) -> Result<bool, String> {
        Ok(self.encoder.write_picture(at, &planes, need))
    }

    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String> {
        self.encoder.write_samples(at, &samples)
    }

    fn look_after(&mut self, _now: Instant) -> Result<(), String> {
        match self.encoder.failure() {
            Some(failure) => Err(self.file.hide_path(&failure)),
            None => Ok(()),
        }
    }

    fn is_active(&self) -> bool {
        true
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn buffered_bytes(&self) -> u64 {
        self.encoder.buffered_bytes()
    }

    fn finish(self: Box<Self>) -> Result<bool, String> {
        self.file.finish(Some(self.encoder.into_process()))
    }
}

#[cfg(test)]
mod tests;
