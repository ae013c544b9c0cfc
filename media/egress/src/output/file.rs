//! Recorded file, written through ffmpeg: a copied track or an encoded composition.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use conclave_model::settings::EgressConfig;

use super::reserve::{ReservedFile, create_new, unfinished};
use super::{Encoder, Media, Sink, arguments};
use crate::codec::Container;
use crate::ffmpeg::{BacklogCapacity, Ffmpeg, Importance, Process, StopDeadline};

// Counted from when ffmpeg last read anything, so a slow machine has as much time as it needs.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for making a file seekable.
const REWRITE_TIMEOUT: Duration = Duration::from_secs(600);
// A crash loses one fragment at most. Key frames do not bound that: a publisher may send a single
// one.
const FRAGMENT_MICROS: &str = "2000000";
// A video that starts later than its file keeps its offset. MP4 can express that only in a delayed
// header (`delay_moov`).
const KEEP_START: [&str; 1] = ["-copyts"];

/// Recorded file.
#[derive(Debug)]
pub struct OutputFile {
    ffmpeg: Ffmpeg,
    file: ReservedFile,
    stop: StopDeadline,
}

impl OutputFile {
    pub const fn new(ffmpeg: Ffmpeg, file: ReservedFile, stop: StopDeadline) -> Self {
        Self { ffmpeg, file, stop }
    }

    pub const fn container(&self) -> Container {
        self.file.container
    }

    #[cfg(test)]
    pub fn path(&self) -> &std::path::Path {
        &self.file.path
    }

    pub fn bytes(&self) -> u64 {
        fs::metadata(&self.file.path)
            .map(|metadata| metadata.len())
            .unwrap_or_default()
    }

    /// Starts ffmpeg with these encoding options. It reads Matroska, and its output plays at any
    /// moment.
    ///
    /// # Errors
    /// Fails if ffmpeg cannot be started.
    pub fn start(
        &self,
        encoding: &[String],
        queue: impl Into<BacklogCapacity>,
    ) -> Result<Process, String> {
        let mut command = self.ffmpeg.command();
        command
            .args(["-f", "matroska", "-i", "pipe:0", "-map", "0"])
            .args(KEEP_START)
            .args(encoding);
        if self.file.container == Container::Mp4 {
            command.args([
                "-movflags",
                // Fragmented: a plain MP4 file does not play until its index is written at the end,
                // so a crash would lose everything.
                "+frag_keyframe+delay_moov+default_base_moof",
                "-frag_duration",
                FRAGMENT_MICROS,
            ]);
        }
        // For ffmpeg's own Opus encoder, and Opus in MP4 with older versions; both are
        // experimental.
        command.args(["-strict", "experimental", "-flush_packets", "1"]);
        command
            .args(["-f", self.file.container.format(), "-y"])
            .arg(protocol(self.file.path.as_os_str()));
        start(command, queue)
    }

    /// Finishes the file: waits for ffmpeg, and makes an MP4 file seekable. Returns whether the
    /// file has any content.
    ///
    /// # Errors
    /// Fails with the reason if ffmpeg failed. The part written so far plays.
    pub fn finish(self, process: Option<Process>) -> Result<bool, String> {
        let finished = process
            .map(|process| self.stop.finish(process, FINISH_TIMEOUT))
            .transpose();
        let finished = finished.map_err(|error| self.hide_path(&error));
        // Before the error is returned: a failed egress without content must free its name, too.
        if self.bytes() == 0 {
            return finished.map(|_| false);
        }
        if self.file.container == Container::Mp4
            && let Err(error) = self.make_seekable()
        {
            log::warn!(
                "making a recording seekable failed; it plays, but seeking is slow: {}",
                self.hide_path(&error)
            );
        }
        finished.map(|_| true)
    }

    /// Replaces the file with a copy whose index comes first.
    fn make_seekable(&self) -> Result<(), String> {
        let copy = unfinished(&self.file.path);
        // A crash may have left an earlier attempt's copy.
        let _ = fs::remove_file(&copy);
        // ffmpeg keeps an existing file's mode.
        create_new(&copy).map_err(|error| error.to_string())?;
        let mut command = self.ffmpeg.command();
        // Without `-xerror`, ffmpeg reports success for a copy that does not play if the disk is
        // full at its end.
        command
            .arg("-xerror")
            .arg("-i")
            .arg(protocol(self.file.path.as_os_str()));
        command.args(["-map", "0", "-c", "copy"]).args(KEEP_START);
        command.args([
            "-strict",
            "experimental",
            "-movflags",
            "+faststart",
            "-f",
            "mp4",
            "-y",
        ]);
        command.arg(protocol(copy.as_os_str()));
        let rewritten = start(command, 1)
            .and_then(|process| self.stop.finish(process, REWRITE_TIMEOUT))
            // A rename is atomic: at any moment, the name belongs to a file that plays.
            .and_then(|()| fs::rename(&copy, &self.file.path).map_err(|error| error.to_string()));
        if rewritten.is_err() {
            // The disk may be full, or the server is shutting down. The original still plays.
            let _ = fs::remove_file(&copy);
        }
        rewritten
    }

    /// Replaces absolute paths in an error, which the API shows, with the requested one.
    pub fn hide_path(&self, error: &str) -> String {
        let path = self.file.path.to_string_lossy();
        error
            .replace(&format!("file:{path}"), self.file.filepath.as_str())
            .replace(&*path, self.file.filepath.as_str())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.bytes() == 0 {
            // Nothing was recorded, so the name becomes free again.
            let _ = fs::remove_file(&self.file.path);
        }
    }
}

/// Composition encoded into a file.
pub struct FileSink {
    file: OutputFile,
    encoder: Encoder,
}

impl FileSink {
    /// Starts the encoder with a queue of this capacity.
    ///
    /// # Errors
    /// Fails if the encoder cannot be started, or ffmpeg lacks it.
    pub fn start(
        ffmpeg: &Ffmpeg,
        file: OutputFile,
        media: Media,
        encoding: &EgressConfig,
        backlog: BacklogCapacity,
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
    fn write_frame(
        &mut self,
        at: Duration,
        planes: Vec<u8>,
        importance: Importance,
    ) -> Result<bool, String> {
        Ok(self.encoder.write_frame(at, &planes, importance))
    }

    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String> {
        self.encoder.write_samples(at, &samples)
    }

    fn poll(&mut self, _now: Instant) -> Result<(), String> {
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

/// Prefixes a path with a protocol: ffmpeg would take a name with a colon for a URL.
fn protocol(path: &OsStr) -> std::ffi::OsString {
    let mut with_protocol = std::ffi::OsString::from("file:");
    with_protocol.push(path);
    with_protocol
}

fn start(command: Command, queue: impl Into<BacklogCapacity>) -> Result<Process, String> {
    Process::start(command, queue, None)
        .map_err(|error| format!("ffmpeg cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    //! Recordings whose encoder, a script, does not read before a signal file exists.

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use conclave_model::ProjectId;
    use tempfile::TempDir;

    use super::*;
    use crate::codec::Content;
    use crate::ffmpeg::DiskBuffer;
    use crate::matroska::MatroskaReader;
    use crate::output::reserve;

    /// Audio chunks per second.
    const SECOND: u32 = 50;
    const CHUNK: Duration = Duration::from_millis(20);

    /// Bytes on disk for unread chunks.
    const BUFFER: u64 = 64 * 1024 * 1024;

    /// Encoder that copies its input into the file once it is released.
    struct Starved {
        sink: Box<FileSink>,
        folder: TempDir,
    }

    impl Starved {
        fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (program, go) = (folder.path().join("ffmpeg"), folder.path().join("go"));
            let script = format!(
                "#!/bin/sh\ncase \"$*\" in\n*-version) echo 'ffmpeg version 5.1 of a test' ;;\n\
                 *-encoders) echo ' V..... libx264'; echo ' A..... aac' ;;\n\
                 *) for last; do :; done; while ! [ -e {} ]; do sleep 0.02; done; cat > \"${{last#file:}}\" ;;\nesac\n",
                go.display()
            );
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let ffmpeg = Ffmpeg::detect(&program.display().to_string()).unwrap();
            let names = (&"call.mkv".parse().unwrap(), &[][..]);
            let file = reserve(
                &folder.path().join("recordings"),
                &ProjectId::new(),
                names,
                Content::Video,
            )
            .unwrap();
            let encoding = EgressConfig {
                width: 320,
                height: 180,
                frame_rate: 25,
                video_kbps: 100,
                audio_kbps: 32,
                preset: "ultrafast".into(),
                ..EgressConfig::default()
            };
            let media = Media {
                has_video: true,
                has_audio: true,
            };
            let file = OutputFile::new(ffmpeg.clone(), file, StopDeadline::default());
            let buffer = DiskBuffer {
                directory: folder.path().join("recordings"),
                bytes: BUFFER,
            };
            let sink = FileSink::start(&ffmpeg, file, media, &encoding, buffer.into()).unwrap();
            Self {
                sink: Box::new(sink),
                folder,
            }
        }

        fn release(&self) {
            fs::write(self.folder.path().join("go"), "").unwrap();
        }
    }

    #[test]
    fn an_encoder_that_does_not_read_for_a_minute_gets_all_audio_when_it_does() {
        let mut starved = Starved::start();
        let frame = vec![0; 320 * 180 * 3 / 2];
        // Fills the queue with frames in the first second.
        while starved
            .sink
            .write_frame(Duration::ZERO, frame.clone(), Importance::Optional)
            .unwrap()
        {}
        assert!(starved.sink.buffered_bytes() > BUFFER / 2);
        for chunk in 0..60 * SECOND {
            starved
                .sink
                .write_samples(CHUNK * chunk, vec![7; 3_840])
                .unwrap();
        }
        starved.release();
        let path = starved.sink.file.path().to_owned();
        assert_eq!(starved.sink.finish(), Ok(true));
        let mut reader = MatroskaReader::default();
        let blocks = reader.push(&fs::read(path).unwrap());
        let audio = blocks.iter().filter(|block| block.data.len() == 3_840);
        let times: Vec<_> = audio.map(|block| block.at).collect();
        assert_eq!(
            times,
            (0..60 * SECOND)
                .map(|chunk| CHUNK * chunk)
                .collect::<Vec<_>>()
        );
    }
}
