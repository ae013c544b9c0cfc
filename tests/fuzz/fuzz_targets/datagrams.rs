//! Datagrams to a media worker: each record is a datagram from a participant or from an unauthenticated client, or the content of a packet or
//! message that the participant encrypts correctly. Two others talk in the same room, and one of them receives the media.
//!
//! Nothing panics, and the others hear each other.

#![no_main]

use std::cell::RefCell;

use conclave_fuzz::rtc::Call;
use conclave_fuzz::rtc::fixture::{Publication, SERVER};
use conclave_fuzz::{records, seeds};
use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::machine::{Datagram, Source};
use conclave_sfu::{ConnectionMode, PeerCommand};
use libfuzzer_sys::fuzz_target;
use str0m::format::Codec;

/// Largest number of records in an input.
const RECORDS: usize = 64;

thread_local! {
    static TARGET: RefCell<Option<Target>> = const { RefCell::new(None) };
}

fuzz_target!(init: write_seeds(), |data: &[u8]| TARGET.with_borrow_mut(|target| {
    let target = target.get_or_insert_with(Target::new);
    records::read(data).take(RECORDS).for_each(|record| target.handle(record));
    target.call.assert_audible();
    if target.is_mallory_gone() {
        *target = Target::new();
    }
}));

/// A call, and a participant that sends the input.
struct Target {
    call: Call,
    mallory: usize,
    tracks: [Publication; 3],
}

impl Target {
    fn new() -> Self {
        let mut call = Call::new();
        let mallory = call
            .fixture
            .join_connected("PA_mallory", ConnectionMode::Single);
        let tracks = [
            ("TR_m1", Codec::Opus),
            ("TR_m2", Codec::Vp8),
            ("TR_m3", Codec::H264),
        ]
        .map(|(sid, codec)| call.fixture.publish(mallory, sid, codec, &[]));
        tracks
            .iter()
            .for_each(|track| call.fixture.subscribe(call.bob, track));
        for client in [mallory, call.bob] {
            call.fixture.clients[client]
                .publisher
                .open_channel("_data_track");
        }
        call.fixture
            .run_until("the channels for data tracks are open", |fixture| {
                [mallory, call.bob].iter().all(|client| {
                    fixture.clients[*client]
                        .publisher
                        .channels
                        .contains_key("_data_track")
                })
            });
        let (publisher, track): (ParticipantSid, TrackSid) =
            ("PA_mallory".parse().unwrap(), "DTR_m4".parse().unwrap());
        let publish = PeerCommand::PublishDataTrack {
            track: track.clone(),
            handle: 1,
        };
        call.fixture.command(publish.for_peer(publisher.clone()));
        let subscribe = PeerCommand::SubscribeDataTrack {
            publisher,
            track,
            handle: 2,
        };
        call.fixture
            .command(subscribe.for_peer("PA_bob".parse().unwrap()));
        call.fixture.clients[mallory].events.clear();
        Self {
            call,
            mallory,
            tracks,
        }
    }

    fn handle(&mut self, record: &[u8]) {
        let Some((kind, contents)) = record.split_first() else {
            return;
        };
        let fixture = &mut self.call.fixture;
        let now = fixture.now;
        let own = fixture.clients[self.mallory].publisher.address;
        match kind % 9 {
            0..3 => {
                let track = &mut self.tracks[usize::from(kind % 9)];
                track.is_red = false;
                fixture.send(track, None, contents);
            }
            3 => {
                self.tracks[0].is_red = true;
                fixture.send(&mut self.tracks[0], None, contents);
            }
            4 | 5 | 8 => {
                let label = match kind % 9 {
                    4 => "_reliable",
                    5 => "_lossy",
                    _ => "_data_track",
                };
                fixture.clients[self.mallory]
                    .publisher
                    .send_message(label, contents, now);
                fixture.settle();
            }
            source => {
                let address = if source == 6 {
                    own
                } else {
                    "203.0.113.9:4000".parse().unwrap()
                };
                let source = Source {
                    is_tcp: false,
                    address,
                };
                let datagram = Datagram {
                    source,
                    destination: SERVER.parse().unwrap(),
                    contents,
                };
                fixture.worker.handle_datagram(datagram, now);
                fixture.settle();
            }
        }
    }

    /// Returns whether the worker has disconnected the participant, which is allowed.
    fn is_mallory_gone(&self) -> bool {
        let mallory = &self.call.fixture.clients[self.mallory];
        mallory.publisher.is_closed
            || self.call.fixture.worker.peers() < self.call.fixture.clients.len()
    }
}

fn write_seeds() {
    let contents: [&[u8]; 15] = [
        &[0, 0x78, 1, 2, 3],
        &[
            1, 0x90, 0xf0, 0x80, 1, 1, 0, 0x10, 2, 0, 0x9d, 1, 0x2a, 0, 5, 0xd0, 2,
        ],
        &[1, 0x90, 0xe0, 5, 1, 0x40, 0x31, 1, 2, 3],
        &[1, 0x10, 1, 2, 3],
        &[2, 0x65, 1, 2, 3],
        &[2, 0x78, 0, 2, 0x67, 1, 0, 2, 0x65, 2],
        &[2, 0x7c, 0x85, 1, 2],
        &[3, 0xef, 0x03, 0xc0, 2, 0x6f, 1, 2, 3, 4],
        &[4, 0x08, 0, 0x12, 7, 0x12, 5, b'h', b'e', b'l', b'l', b'o'],
        &[5, 0x08, 1, 0x12, 7, 0x12, 5, b'h', b'e', b'l', b'l', b'o'],
        &[
            6, 0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ],
        &[6, 0x16, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        &[6, 0x80, 111, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3],
        &[8, 0x18, 0, 0, 1, 0, 2, 0, 3, 0, 0, 0, 4, 5],
        &[7, 0x81, 0xce, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1],
    ];
    let contents = contents.map(<[u8]>::to_vec);
    let each = contents.iter().map(|record| records::write([record]));
    seeds::write("datagrams", each.chain([records::write(&contents)]));
}
