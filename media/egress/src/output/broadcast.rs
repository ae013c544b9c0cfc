//! Broadcast: one encoder, and one connection per receiver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::rtmp::RtmpUrl;
use conclave_model::settings::EgressConfig;
use parking_lot::Mutex;

use super::target::BroadcastTarget;
use super::{BROADCAST_CONTAINER, Encoder, Media, Sink, arguments};
use crate::ffmpeg::{BacklogCapacity, Ffmpeg, Importance, Process};
use crate::progress::{EgressProgress, TargetState};
use crate::rtmp::{FlvSplitter, FlvTag, FlvTagKind, RtmpDialler};

/// Time without any receiver after which the broadcast fails.
const NO_RECEIVER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for the receivers to read the rest.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(10);
const ENCODER_TIMEOUT: Duration = Duration::from_secs(10);

/// Tags that the encoder wrote and that were not forwarded yet.
#[derive(Default)]
struct EncoderOutput {
    splitter: FlvSplitter,
    tags: Vec<FlvTag>,
}

/// Broadcast to 1 to 8 receivers.
pub struct StreamSink {
    dialler: RtmpDialler,
    media: Media,
    encoder: Encoder,
    encoded: Arc<Mutex<EncoderOutput>>,
    /// Tags with which each connection starts.
    headers: Vec<Arc<FlvTag>>,
    /// Whether media has followed, so that the headers are complete.
    has_media: bool,
    targets: Vec<BroadcastTarget>,
    progress: Arc<EgressProgress>,
    bytes: u64,
    was_connected: bool,
    last_connected: Instant,
}

impl StreamSink {
    /// Starts the encoder.
    ///
    /// # Errors
    /// Fails if the encoder cannot be started, or ffmpeg lacks it.
    pub fn start(
        ffmpeg: &Ffmpeg,
        (urls, dialler): (&[RtmpUrl], RtmpDialler),
        (media, encoding): (Media, &EgressConfig),
        backlog: BacklogCapacity,
        progress: Arc<EgressProgress>,
    ) -> Result<Self, String> {
        let arguments = arguments(ffmpeg, BROADCAST_CONTAINER, media, encoding)
            .map_err(|codec| format!("this ffmpeg has no encoder for {codec}"))?;
        let mut command = ffmpeg.command();
        command
            .args(["-f", "matroska", "-i", "pipe:0", "-map", "0"])
            .args(arguments);
        command.args([
            "-flush_packets",
            "1",
            "-flvflags",
            // Duration and size are unknown in a live stream; ffmpeg would seek back to fill them
            // in.
            "no_duration_filesize",
            "-f",
            "flv",
            "pipe:1",
        ]);
        let encoded = Arc::new(Mutex::new(EncoderOutput::default()));
        let written = Arc::clone(&encoded);
        let on_output = Box::new(move |bytes: &[u8]| {
            let mut encoded = written.lock();
            let tags = encoded.splitter.push(bytes);
            encoded.tags.extend(tags);
        });
        // No URL is among the arguments: the machine's other users can read them, and URLs contain
        // stream keys.
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
            targets: urls
                .iter()
                .map(|url| BroadcastTarget::new(url, now))
                .collect(),
            progress,
            bytes: 0,
            was_connected: false,
            last_connected: now,
        })
    }

    /// Forwards the encoder's tags to all receivers.
    fn forward(&mut self, now: Instant) {
        let tags = std::mem::take(&mut self.encoded.lock().tags);
        for tag in tags.into_iter().map(Arc::new) {
            self.bytes += u64::try_from(tag.bytes.len()).unwrap_or_default();
            if tag.kind == FlvTagKind::Header {
                // Kept for receivers that connect later. ffmpeg writes headers once, before the
                // media.
                self.headers.push(Arc::clone(&tag));
            } else {
                self.has_media = true;
            }
            self.targets
                .iter_mut()
                .for_each(|target| target.send(&tag, &self.headers, now));
        }
    }

    /// Polls the receivers, once there is media for them.
    fn poll_targets(&mut self, now: Instant) {
        // Not earlier: a receiver may close a connection without a stream.
        if self.has_media {
            for target in &mut self.targets {
                target.poll(&self.dialler, self.media.has_video, now);
            }
        }
        let states: Vec<_> = self.targets.iter().map(BroadcastTarget::state).collect();
        self.was_connected |= states.contains(&TargetState::Connected);
        // Not merely connected: a receiver that accepts and never reads would keep a broadcast
        // running for ever.
        if self.targets.iter().any(BroadcastTarget::has_stream) {
            self.last_connected = now;
        }
        self.progress.set_targets(states);
    }
}

impl Sink for StreamSink {
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

    fn poll(&mut self, now: Instant) -> Result<(), String> {
        if let Some(failure) = self.encoder.failure() {
            return Err(failure);
        }
        self.poll_targets(now);
        self.forward(now);
        if now < self.last_connected + NO_RECEIVER_TIMEOUT {
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
        // The encoder's last tags are forwarded once it has exited.
        let (encoded, encoder) = (
            Arc::clone(&self.encoded),
            self.encoder.into_process().finish(ENCODER_TIMEOUT),
        );
        let rest = std::mem::take(&mut encoded.lock().tags);
        let now = Instant::now();
        for tag in rest.into_iter().map(Arc::new) {
            self.targets
                .iter_mut()
                .for_each(|target| target.send(&tag, &self.headers, now));
        }
        self.targets.iter_mut().for_each(BroadcastTarget::close);
        // The broadcast is over, whether the receivers acknowledge it or not.
        while !self.targets.iter().all(BroadcastTarget::has_ended) && now.elapsed() < CLOSE_TIMEOUT
        {
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

    /// Bound for events that happen at once.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Broadcast whose encoder is a script, which writes some tags and then reads its input.
    struct Broadcast {
        sink: Box<StreamSink>,
        progress: Arc<EgressProgress>,
        _folder: TempDir,
    }

    fn write_ffmpeg(folder: &TempDir) -> Ffmpeg {
        let tags = [
            tag(FlvTagKind::Header, (9, 0), &[0x17, 0, 1]),
            tag(FlvTagKind::KeyFrame, (9, 0), &[0x17, 1, 1]),
            tag(FlvTagKind::Audio, (8, 0), &[0xaf, 1, 1]),
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
                Arc::<EgressProgress>::default(),
            );
            let receivers = (&urls[..], RtmpDialler::new(filter, &[]).unwrap());
            let sink = StreamSink::start(
                &ffmpeg,
                receivers,
                (media, &encoding),
                BacklogCapacity::from(512),
                Arc::clone(&progress),
            )
            .unwrap();
            Self {
                sink: Box::new(sink),
                progress,
                _folder: folder,
            }
        }

        /// Polls the broadcast until the receivers have these states.
        #[track_caller]
        fn wait_until(&mut self, expected: &[TargetState]) {
            let end = Instant::now() + LIMIT;
            while self.progress.targets() != expected {
                assert!(Instant::now() < end, "{:?}", self.progress.targets());
                thread::sleep(Duration::from_millis(5));
                self.sink.poll(Instant::now()).unwrap();
            }
        }

        /// Polls the broadcast as if this much time had passed.
        fn poll_in(&mut self, seconds: u64) -> Result<(), String> {
            self.sink
                .poll(Instant::now() + Duration::from_secs(seconds))
        }
    }

    fn url(receiver: &Receiver) -> String {
        format!("rtmp://{}/live/{KEY}", receiver.address)
    }

    #[test]
    fn a_broadcast_is_active_once_the_first_receiver_has_accepted_the_stream() {
        let (silent, taking) = (
            Receiver::start(Behaviour::Silent, None),
            Receiver::start(Behaviour::Accepts, None),
        );
        let mut broadcast = Broadcast::start(&[url(&silent)]);
        broadcast.wait_until(&[TargetState::Connecting]);
        assert!(!broadcast.sink.is_active());
        let mut broadcast = Broadcast::start(&[url(&silent), url(&taking)]);
        broadcast.wait_until(&[TargetState::Connecting, TargetState::Connected]);
        assert!(broadcast.sink.is_active());
        assert_eq!(
            broadcast.poll_in(600),
            Ok(()),
            "the other one has the stream"
        );
        assert_eq!(broadcast.sink.finish(), Ok(true));
    }

    /// Proves S-71.
    #[test]
    fn a_broadcast_whose_receivers_never_accept_it_has_failed_after_a_minute() {
        let (silent, refusing) = (
            Receiver::start(Behaviour::Silent, None),
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
            // A silent receiver gives no reason.
            while !expected.is_empty()
                && broadcast
                    .sink
                    .targets
                    .iter()
                    .all(|target| target.failure.is_none())
            {
                assert!(Instant::now() < end);
                broadcast.sink.poll(Instant::now()).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(broadcast.poll_in(30), Ok(()));
            let failure = broadcast.poll_in(61).unwrap_err();
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
        let frame = Arc::new(tag(FlvTagKind::KeyFrame, (9, 0), &[0x17]));
        let end = Instant::now() + LIMIT;
        while broadcast.sink.targets[0].failure.is_none() {
            assert!(Instant::now() < end);
            broadcast.sink.targets[0].send(&frame, &[], Instant::now());
            broadcast.sink.poll(Instant::now()).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(broadcast.poll_in(30), Ok(()));
        // By then, the target has connected again.
        let end = Instant::now() + LIMIT;
        while broadcast.sink.targets[0].state() != TargetState::Connected {
            assert!(Instant::now() < end);
            broadcast.poll_in(31).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        assert!(broadcast.poll_in(61).unwrap_err().contains("for a minute"));
    }
}
