//! A broadcast: one encoder, and a connection for each receiver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::rtmp::RtmpUrl;
use conclave_model::settings::EgressConfig;
use parking_lot::Mutex;

use super::target::Target;
use super::{BROADCAST, Encoder, Media, Sink, arguments};
use crate::ffmpeg::{Capacity, Ffmpeg, Need, Process};
use crate::progress::{Progress, TargetState};
use crate::rtmp::{Dialler, Splitter, Tag, TagKind};

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
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use conclave_model::address::AddressFilter;
    use tempfile::TempDir;

    use super::*;
    use crate::rtmp::double::{Behaviour, KEY, Receiver, tag};

    /// How long something may take that comes at once.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A broadcast whose encoder is a script, which writes some tags and then reads.
    struct Broadcast {
        sink: Box<StreamSink>,
        progress: Arc<Progress>,
        _folder: TempDir,
    }

    fn write_ffmpeg(folder: &TempDir) -> Ffmpeg {
        let tags = [
            tag(TagKind::Header, (9, 0), &[0x17, 0, 1]),
            tag(TagKind::KeyFrame, (9, 0), &[0x17, 1, 1]),
            tag(TagKind::Audio, (8, 0), &[0xaf, 1, 1]),
        ];
        let stream = [
            b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec(),
            tags.map(|tag| tag.bytes).concat(),
        ]
        .concat();
        let (program, media) = (
            folder.path().join("ffmpeg"),
            folder.path().join("media.flv"),
        );
        fs::write(&media, stream).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*-version) echo 'ffmpeg version 5.1 of a test' ;;\n\
             *-encoders) echo ' V..... libx264'; echo ' A..... aac' ;;\n*) cat {} -  | head -c 200; cat > /dev/null ;;\nesac\n",
            media.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Ffmpeg::detect(&program.display().to_string()).unwrap()
    }

    impl Broadcast {
        fn start(urls: &[String]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let ffmpeg = write_ffmpeg(&folder);
            let encoding = EgressConfig {
                width: 320,
                height: 180,
                frame_rate: 10,
                video_kbps: 100,
                audio_kbps: 32,
                preset: "ultrafast".into(),
                ..EgressConfig::default()
            };
            let filter = AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]);
            let urls: Vec<_> = urls
                .iter()
                .map(|url| RtmpUrl::parse(url).unwrap())
                .collect();
            let (media, progress) = (
                Media {
                    has_video: true,
                    has_audio: true,
                },
                Arc::<Progress>::default(),
            );
            let receivers = (&urls[..], Dialler::new(filter, &[]).unwrap());
            let sink = StreamSink::start(
                &ffmpeg,
                receivers,
                (media, &encoding),
                Capacity::from(512),
                Arc::clone(&progress),
            )
            .unwrap();
            Self {
                sink: Box::new(sink),
                progress,
                _folder: folder,
            }
        }

        /// Looks after it now, until the receivers are so.
        #[track_caller]
        fn wait_until(&mut self, expected: &[TargetState]) {
            let end = Instant::now() + LIMIT;
            while self.progress.targets() != expected {
                assert!(Instant::now() < end, "{:?}", self.progress.targets());
                thread::sleep(Duration::from_millis(5));
                self.sink.look_after(Instant::now()).unwrap();
            }
        }

        /// Looks after it as if it were so much later.
        fn look_after_in(&mut self, seconds: u64) -> Result<(), String> {
            self.sink
                .look_after(Instant::now() + Duration::from_secs(seconds))
        }
    }

    fn url(receiver: &Receiver) -> String {
        format!("rtmp://{}/live/{KEY}", receiver.address)
    }

    #[test]
    fn a_broadcast_is_active_once_the_first_receiver_has_accepted_the_stream() {
        let (silent, taking) = (
            Receiver::start(Behaviour::IsSilent, None),
            Receiver::start(Behaviour::Takes, None),
        );
        let mut broadcast = Broadcast::start(&[url(&silent)]);
        broadcast.wait_until(&[TargetState::Connecting]);
        assert!(!broadcast.sink.is_active());
        let mut broadcast = Broadcast::start(&[url(&silent), url(&taking)]);
        broadcast.wait_until(&[TargetState::Connecting, TargetState::Connected]);
        assert!(broadcast.sink.is_active());
        assert_eq!(
            broadcast.look_after_in(600),
            Ok(()),
            "the other one has the stream"
        );
        assert_eq!(broadcast.sink.finish(), Ok(true));
    }

    /// Proves S-71.
    #[test]
    fn a_broadcast_whose_receivers_never_accept_it_has_failed_after_a_minute() {
        let (silent, refusing) = (
            Receiver::start(Behaviour::IsSilent, None),
            Receiver::start(Behaviour::Refuses, None),
        );
        let nobody = format!("rtmp://127.0.0.1:1/live/{KEY}");
        for (url, expected) in [
            (url(&silent), ""),
            (url(&refusing), "BadName"),
            (nobody, "refused the connection"),
        ] {
            let mut broadcast = Broadcast::start(&[url]);
            let end = Instant::now() + LIMIT;
            // The reason is known soon, unless the receiver is silent.
            while !expected.is_empty()
                && broadcast
                    .sink
                    .targets
                    .iter()
                    .all(|target| target.failure.is_none())
            {
                assert!(Instant::now() < end);
                broadcast.sink.look_after(Instant::now()).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(broadcast.look_after_in(30), Ok(()));
            let failure = broadcast.look_after_in(61).unwrap_err();
            assert!(
                failure.contains("for a minute") && failure.contains(expected),
                "{failure}"
            );
            assert!(
                !broadcast.sink.is_active() && !failure.contains("hush"),
                "{failure}"
            );
        }
    }

    /// Proves S-71.
    #[test]
    fn a_broadcast_that_is_accepted_and_never_read_has_failed_a_minute_after_it_was_lost() {
        let closing = Receiver::start(Behaviour::Closes, None);
        let mut broadcast = Broadcast::start(&[url(&closing)]);
        broadcast.wait_until(&[TargetState::Connected]);
        assert!(broadcast.sink.is_active());
        let frame = Arc::new(tag(TagKind::KeyFrame, (9, 0), &[0x17]));
        let end = Instant::now() + LIMIT;
        while broadcast.sink.targets[0].failure.is_none() {
            assert!(Instant::now() < end);
            broadcast.sink.targets[0].send(&frame, &[], Instant::now());
            broadcast.sink.look_after(Instant::now()).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(broadcast.look_after_in(30), Ok(()));
        // It has been connected again by then.
        let end = Instant::now() + LIMIT;
        while broadcast.sink.targets[0].state() != TargetState::Connected {
            assert!(Instant::now() < end);
            broadcast.look_after_in(31).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        assert!(
            broadcast
                .look_after_in(61)
                .unwrap_err()
                .contains("for a minute")
        );
    }
}
