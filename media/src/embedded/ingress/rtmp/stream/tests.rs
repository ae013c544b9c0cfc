//! Streams of H.264 and others.

use super::*;

/// A decoder configuration record with one set of each kind.
fn parameters(profile: u8) -> Vec<u8> {
    let record = [
        1, profile, 0xc0, 0x1f, 0xff, 0xe1, 0, 3, 0x67, profile, 9, 1, 0, 2, 0x68, 8,
    ];
    [&[0x17, 0, 0, 0, 0][..], &record].concat()
}

/// A frame of one unit.
fn frame(unit: &[u8]) -> Vec<u8> {
    let length = u32::try_from(unit.len()).unwrap().to_be_bytes();
    [&[0x27, 1, 0, 0, 0][..], &length, unit].concat()
}

const KEY: [u8; 3] = [0x65, 0x88, 1];
const P: [u8; 2] = [0x41, 0b1110_0000];
const B: [u8; 2] = [0x01, 0b1010_0000];
const MAIN: u8 = 77;

struct Encoder {
    stream: MediaStream,
    time: u32,
    now: Instant,
}

impl Encoder {
    fn new() -> Self {
        Self {
            stream: MediaStream::new(),
            time: 0,
            now: Instant::now(),
        }
    }

    fn video(&mut self, body: Vec<u8>) -> Vec<Action> {
        self.time += 40;
        self.now += std::time::Duration::from_millis(40);
        self.stream.video(self.time, body, self.now)
    }

    /// Sends frames, and returns how many are sent on and how many transcoded.
    fn frames(&mut self, units: &[&[u8]]) -> (usize, usize) {
        let actions: Vec<_> = units
            .iter()
            .flat_map(|unit| self.video(frame(unit)))
            .collect();
        let sent = actions
            .iter()
            .filter(|action| matches!(action, Action::Send(_)))
            .count();
        (sent, actions.len() - sent)
    }
}

#[test]
fn a_baseline_stream_passes_from_its_first_key_frame_on() {
    let mut encoder = Encoder::new();
    assert!(
        encoder.video(frame(&KEY)).is_empty(),
        "without parameters it cannot be decoded"
    );
    encoder.video(parameters(BASELINE));
    assert!(
        encoder.video(frame(&P)).is_empty(),
        "it cannot begin with this"
    );
    let actions = encoder.video(frame(&KEY));
    let [Action::Send(packets)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    let [packet] = packets.as_slice() else {
        panic!("{packets:?}")
    };
    let with_parameters = [
        0x78, 0, 3, 0x67, BASELINE, 9, 0, 2, 0x68, 8, 0, 3, 0x65, 0x88, 1,
    ];
    assert_eq!(
        (&*packet.payload, packet.is_last),
        (&with_parameters[..], true)
    );
    let later = encoder.video(frame(&P));
    let [Action::Send(next)] = later.as_slice() else {
        panic!("{later:?}")
    };
    assert_eq!(next[0].timestamp - packet.timestamp, 3_600);
    assert_eq!(*next[0].payload, P);
}

#[test]
fn another_profile_passes_once_some_frames_had_no_b_pictures() {
    let mut encoder = Encoder::new();
    encoder.video(parameters(MAIN));
    assert_eq!(encoder.frames(&[&KEY, &P, &P, &P, &P, &P, &P]), (0, 0));
    assert_eq!(encoder.frames(&[&P]), (FRAMES_TO_SEE, 0));
    assert_eq!(encoder.frames(&[&P, &KEY]), (2, 0));
    assert_eq!(encoder.stream.unplayable(), None);
}

#[test]
fn a_stream_with_b_pictures_is_transcoded_from_its_first_key_frame_on() {
    let mut encoder = Encoder::new();
    encoder.video(parameters(MAIN));
    // The parameters, and the frames that were kept.
    assert_eq!(encoder.frames(&[&KEY, &P, &B]), (0, 4));
    assert_eq!(encoder.frames(&[&P]), (0, 1));
    assert_eq!(encoder.stream.unplayable(), Some(Unplayable::BPictures));
}

#[test]
fn b_pictures_that_begin_late_are_transcoded_from_the_next_key_frame_on() {
    let mut encoder = Encoder::new();
    encoder.video(parameters(MAIN));
    encoder.frames(&[&KEY, &P, &P, &P, &P, &P, &P, &P]);
    assert_eq!(encoder.frames(&[&B, &P]), (0, 0));
    assert_eq!(encoder.frames(&[&KEY, &B]), (0, 3));
}

#[test]
fn another_codec_is_transcoded_and_so_is_sound() {
    let mut encoder = Encoder::new();
    let actions = encoder.video(vec![0x12, 1, 2]);
    assert!(matches!(
        actions.as_slice(),
        [Action::Transcode(Medium::Video, ..)]
    ));
    assert_eq!(encoder.stream.unplayable(), Some(Unplayable::Codec));
    let actions = encoder.stream.audio(0, vec![0xaf, 1, 9], encoder.now);
    assert!(matches!(
        actions.as_slice(),
        [Action::Transcode(Medium::Audio, ..)]
    ));
    assert!(encoder.stream.audio(0, Vec::new(), encoder.now).is_empty());
    assert!(
        encoder.video(vec![0x17, 0]).is_empty(),
        "a message that is cut off"
    );
}
