//! The file that an egress writes, through ffmpeg: a track as it is, or composed pictures and mixed sound.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use conclave_model::settings::EgressConfig;

use super::reserve::{ReservedFile, create_new, unfinished};
use super::{Encoder, Media, Sink, arguments};
use crate::codec::Container;
use crate::ffmpeg::{Capacity, Ffmpeg, Need, Process, StopDeadline};

/// How long ffmpeg may take to end a file, from when it has read anything last.
const ENDING: Duration = Duration::from_secs(60);
/// How long a file may take to be made seekable.
const REWRITING: Duration = Duration::from_secs(600);
/// The most of an MP4 file that a crash loses: a publisher may send a single key frame.
const FRAGMENT_MICROS: &str = "2000000";
/// Lets a video that begins later than its file begin later there, too. In MP4, only a delayed header can say so.
const KEEP_START: [&str; 1] = ["-copyts"];

/// A recorded file.
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

    /// Returns the path of the file.
    #[cfg(test)]
    pub fn path(&self) -> &std::path::Path {
        &self.file.path
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        fs::metadata(&self.file.path)
            .map(|metadata| metadata.len())
            .unwrap_or_default()
    }

    /// Starts ffmpeg, which writes what it is sent in Matroska, encoded by these arguments. What has been written plays at
    /// any moment.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        &self,
        encoding: &[String],
        queue: impl Into<Capacity>,
    ) -> Result<Process, String> {
        let mut command = self.ffmpeg.command();
        command
            .args(["-f", "matroska", "-i", "pipe:0", "-map", "0"])
            .args(KEEP_START)
            .args(encoding);
        if self.file.container == Container::Mp4 {
            command.args([
                "-movflags",
                "+frag_keyframe+delay_moov+default_base_moof",
                "-frag_duration",
                FRAGMENT_MICROS,
            ]);
        }
        command.args(["-strict", "experimental", "-flush_packets", "1"]);
        command
            .args(["-f", self.file.container.format(), "-y"])
            .arg(protocol(self.file.path.as_os_str()));
        start(command, queue)
    }

    /// Ends the file once nothing more is sent: waits for ffmpeg, and makes an MP4 file seekable. Returns whether anything is in
    /// it.
    ///
    /// # Errors
    /// Why ffmpeg failed. What was written plays.
    pub fn finish(self, process: Option<Process>) -> Result<bool, String> {
        let finished = process
            .map(|process| self.stop.finish(process, ENDING))
            .transpose();
        let finished = finished.map_err(|error| self.hide_path(&error));
        if self.bytes() == 0 {
            return finished.map(|_| false);
        }
        if self.file.container == Container::Mp4
            && let Err(error) = self.make_seekable()
        {
            log::warn!(
                "a recording plays, and was not made seekable: {}",
                self.hide_path(&error)
            );
        }
        finished.map(|_| true)
    }

    /// Replaces the file by a copy whose index is at its beginning.
    fn make_seekable(&self) -> Result<(), String> {
        let copy = unfinished(&self.file.path);
        // Of an attempt that a crash has interrupted.
        let _ = fs::remove_file(&copy);
        // ffmpeg keeps the mode of a file that it writes.
        create_new(&copy).map_err(|error| error.to_string())?;
        let mut command = self.ffmpeg.command();
        // Without the option, ffmpeg succeeds with a copy that does not play if the disk is full at its end.
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
            .and_then(|process| self.stop.finish(process, REWRITING))
            .and_then(|()| fs::rename(&copy, &self.file.path).map_err(|error| error.to_string()));
        if rewritten.is_err() {
            // The disk may be full, or the server stops.
            let _ = fs::remove_file(&copy);
        }
        rewritten
    }

    /// Takes the directories of the server out of an error.
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
            // Nothing was recorded, and the name is free again.
            let _ = fs::remove_file(&self.file.path);
        }
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

/// Lets ffmpeg take a path for a file, whatever is in its name.
fn protocol(path: &OsStr) -> std::ffi::OsString {
    let mut with_protocol = std::ffi::OsString::from("file:");
    with_protocol.push(path);
    with_protocol
}

fn start(command: Command, queue: impl Into<Capacity>) -> Result<Process, String> {
    Process::start(command, queue, None)
        .map_err(|error| format!("ffmpeg cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    //! Recordings whose encoder is a script that does not read before it is told to.

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use conclave_model::ProjectId;
    use tempfile::TempDir;

    use super::*;
    use crate::codec::Content;
    use crate::ffmpeg::DiskBuffer;
    use crate::matroska::Reader;
    use crate::output::reserve;

    /// A second of audio.
    const SECOND: u32 = 50;
    const CHUNK: Duration = Duration::from_millis(20);

    /// Bytes on disk for what waits.
    const BUFFER: u64 = 64 * 1024 * 1024;

    /// An encoder that copies what it reads into the file, once it may.
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

        /// Lets the encoder read.
        fn release(&self) {
            fs::write(self.folder.path().join("go"), "").unwrap();
        }
    }

    #[test]
    fn an_encoder_that_does_not_read_for_a_minute_gets_all_audio_when_it_does() {
        let mut starved = Starved::start();
        let picture = vec![0; 320 * 180 * 3 / 2];
        // As many pictures as there is room for, in the first second.
        while starved
            .sink
            .write_picture(Duration::ZERO, picture.clone(), Need::Optional)
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
        let mut reader = Reader::default();
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
