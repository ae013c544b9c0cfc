//! Recordings whose encoder is a script that does not read before it is told to.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use conclave_model::ProjectId;
use tempfile::TempDir;

use super::*;
use crate::backlog::DiskBuffer;
use crate::files::{Content, reserve};
use crate::matroska::Reader;
use crate::stopping::StopDeadline;

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
