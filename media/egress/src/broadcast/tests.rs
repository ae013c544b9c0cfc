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
