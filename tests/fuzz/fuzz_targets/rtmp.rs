//! An RTMP encoder: its progress, and then bytes, chunks of messages, and messages of video and audio.
//!
//! The result does not depend on the pieces in which the bytes arrive; H.264 reaches a recording unchanged, and a transcoder
//! can read its input.

#![no_main]

use std::cell::Cell;
use std::panic;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use conclave_egress::fuzzing::{PublisherClock, TrackReader};
use conclave_fuzz::rtmp_client::{self, Stage};
use conclave_fuzz::{records, seeds};
use conclave_media::embedded::encoders::rtmp::{
    AvcParameters, FileReader, MediaAction, MediaStream, Medium, RtmpEvent, Timeline, VideoTag,
    file_header, file_tag, packets, read_video, units,
};
use conclave_sfu::{Codec, RecordedPacket, SourcePacket};
use libfuzzer_sys::fuzz_target;

/// Largest number of records in an input.
const RECORDS: usize = 64;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fuzz_target!(init: init(), |data: &[u8]| {
    let Some((stage, rest)) = data.split_first() else { return };
    let stage = [Stage::Connected, Stage::Open, Stage::Publishing][usize::from(stage % 3)];
    let pieces: Vec<_> = records::read(rest).take(RECORDS).enumerate().filter_map(piece).collect();
    let events = receive(stage, pieces.iter().map(Vec::as_slice));
    if stage == Stage::Publishing {
        // An error discards the events of its piece.
        let whole = receive(stage, [pieces.concat().as_slice()]);
        let common = events.len().min(whole.len());
        assert_eq!(events[..common], whole[..common]);
    }
    carry(&events);
});

thread_local! {
    /// Whether a session is processing bytes.
    static IS_RECEIVING: Cell<bool> = const { Cell::new(false) };
}

/// The protocol's crate panics on some bytes. The session catches such panics, and closes the connection. Panics of our own code are
/// findings.
fn init() {
    let finding = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_ours = panic
            .location()
            .is_some_and(|location| location.file().contains("media/src/"));
        if is_ours || !IS_RECEIVING.get() {
            finding(panic);
        }
    }));
    write_seeds();
}

/// Returns a record's bytes for the session.
fn piece((number, record): (usize, &[u8])) -> Option<Vec<u8>> {
    let (kind, contents) = record.split_first()?;
    let time = u32::try_from(number).unwrap_or_default() * 40;
    match kind % 4 {
        0 => Some(contents.to_vec()),
        1 => contents
            .split_first()
            .map(|(kind, body)| rtmp_client::message(*kind, time, body)),
        2 => Some(rtmp_client::message(rtmp_client::VIDEO, time, contents)),
        _ => Some(rtmp_client::message(rtmp_client::AUDIO, time, contents)),
    }
}

/// Returns the events of a session that receives these bytes, until the session closes.
fn receive<'a>(stage: Stage, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<RtmpEvent> {
    let mut session = rtmp_client::session(stage);
    let mut events = Vec::new();
    for piece in pieces {
        IS_RECEIVING.set(true);
        let received = session.receive(piece);
        IS_RECEIVING.set(false);
        let mut is_open = received.is_ok();
        while let Some(event) = session.next_event().filter(|_| is_open) {
            // Fails for a stream that was not created.
            is_open = !matches!(event, RtmpEvent::Publish(_)) || session.accept().is_ok();
            events.push(event);
        }
        if !is_open {
            break;
        }
        session.take_output();
    }
    events
}

/// Processes a stream's media: recording and transcoding.
fn carry(events: &[RtmpEvent]) {
    let (mut stream, mut parameters) = (MediaStream::new(), None);
    for (event, millis) in events.iter().zip(0..) {
        let now = *START + Duration::from_millis(millis);
        let actions = match event {
            RtmpEvent::Video(time, body) => {
                match (read_video(body), &parameters) {
                    (Some(VideoTag::Parameters(read)), _) => parameters = Some(read),
                    (Some(VideoTag::Frame { units, .. }), Some(parameters)) => {
                        check_frame(parameters, body, units)
                    }
                    _ => {}
                }
                stream.video(*time, body.clone(), now)
            }
            RtmpEvent::Audio(time, body) => stream.audio(*time, body.clone(), now),
            RtmpEvent::Publish(_) | RtmpEvent::Finished => continue,
        };
        actions.iter().for_each(check_action);
    }
}

fn check_action(action: &MediaAction) {
    match action {
        MediaAction::Send(packets) => assert!(packets.last().is_none_or(|packet| packet.is_last)),
        MediaAction::Transcode(medium, time, body) => {
            let milliseconds = u32::try_from(time.time.as_millis()).unwrap_or(u32::MAX);
            let file = [
                file_header(*medium),
                file_tag(*medium, milliseconds, body).expect("it was received"),
            ]
            .concat();
            let read = FileReader::default().read(&file);
            let expected = (*medium == Medium::Video).then(|| (milliseconds, body.clone()));
            assert_eq!(read, Vec::from_iter(expected));
        }
    }
}

/// Checks that a frame's units, and a key frame's parameters, are unchanged after packetization.
fn check_frame(parameters: &AvcParameters, body: &[u8], units_of_frame: &[u8]) {
    // The unit types allowed in RTP payloads, without delimiters and filler.
    let is_sent = |unit: &&[u8]| matches!(unit[0] & 0x1f, 1..=8 | 10 | 11 | 13..=23);
    let has =
        |kind| units(units_of_frame, parameters.length_size).any(|unit| unit[0] & 0x1f == kind);
    let sets = if has(5) && !has(7) {
        parameters.sets.as_slice()
    } else {
        &[]
    };
    let sets = sets.iter().map(Vec::as_slice).filter(|set| !set.is_empty());
    let expected = sets
        .chain(units(units_of_frame, parameters.length_size))
        .filter(is_sent);
    let with_length =
        |unit: &[u8]| [&u32::try_from(unit.len()).unwrap().to_be_bytes(), unit].concat();
    let expected: Vec<u8> = expected.flat_map(with_length).collect();
    let packets = packets(parameters, Timeline::new().message(0, *START), body);
    let mut reader = TrackReader::new(Codec::H264, *START);
    let mut clock = PublisherClock::default();
    let frames: Vec<_> = packets
        .iter()
        .zip(0..)
        .flat_map(|(packet, number)| reader.push(recorded(packet, number), &mut clock))
        .collect();
    assert_eq!(
        frames
            .iter()
            .map(|frame| frame.data.as_slice())
            .collect::<Vec<_>>()
            .concat(),
        expected
    );
}

fn recorded(packet: &SourcePacket, sequence: u64) -> RecordedPacket {
    RecordedPacket {
        track: "TR_1".parse().unwrap(),
        layer: 0,
        codec: Codec::H264,
        sequence,
        timestamp: packet.timestamp,
        is_marked: packet.is_last,
        is_entry_point: true,
        payload: packet.payload.clone(),
        arrived: *START,
        report: None,
    }
}

fn write_seeds() {
    const PARAMETERS: [u8; 21] = [
        2, 0x17, 0, 0, 0, 0, 1, 0x42, 0xc0, 0x1f, 0xff, 0xe1, 0, 3, 0x67, 0x42, 9, 1, 0, 1, 0x68,
    ];
    let frame = |kind: u8, unit: &[u8]| {
        let length = u32::try_from(unit.len()).unwrap().to_be_bytes();
        [&[2, kind, 1, 0, 0, 0], &length[..], unit].concat()
    };
    let (key, p) = (
        frame(0x17, &[&[0x65, 0x88][..], &[1; 2_000]].concat()),
        frame(0x27, &[0x41, 0xe0]),
    );
    let sound = [vec![3, 0xaf, 0, 0x12, 0x10], vec![3, 0xaf, 1, 1, 2, 3]];
    let stream = [
        vec![
            PARAMETERS.to_vec(),
            key,
            p.clone(),
            frame(0x27, &[1, 0xa0]),
            p,
        ],
        sound.to_vec(),
    ]
    .concat();
    let other = [
        vec![2, 0x90, b'h', b'v', b'c', b'1'],
        vec![2, 0x22, 1, 2],
        vec![1, 1, 0, 0, 0x10, 0],
    ];
    let raw = |bytes: Vec<u8>| [vec![0], bytes].concat();
    let commands: Vec<_> = rtmp_client::commands().into_iter().map(raw).collect();
    let seed = |stage: u8, records: &[Vec<u8>]| [vec![stage], records::write(records)].concat();
    let handshake = raw(rtmp_client::handshake());
    let whole = [vec![handshake.clone()], commands.clone(), stream.clone()].concat();
    let seeds = [
        seed(0, &[handshake]),
        seed(0, &whole),
        seed(1, &commands),
        seed(2, &stream),
        seed(2, &other),
    ];
    seeds::write("rtmp", seeds);
}
