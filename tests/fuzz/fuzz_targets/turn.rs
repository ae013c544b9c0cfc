//! A client of the TURN server: the input is a list of messages, either raw, or as attributes of a request that is signed with valid
//! credentials.
//!
//! Nothing panics; data is relayed only to the media worker, and only for clients that have signed a request; a stream
//! has the same meaning in other pieces.

#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use conclave_fuzz::{records, seeds};
use conclave_model::{Clock, MediaAddress, Secret, Timestamp};
use conclave_turn::credentials::{password, username};
use conclave_turn::fuzzing::{ClientTransport, MessageReader, TurnReaction, TurnSession};
use conclave_turn::{ALLOCATION_TIMEOUT, MAX_ALLOCATIONS, TurnServer, TurnSettings};
use libfuzzer_sys::fuzz_target;
use stun_types::attribute::{Nonce, RawAttribute, Realm, Username};
use stun_types::message::{
    IntegrityAlgorithm, LongTermCredentials, Message, MessageClass, MessageType, MessageWriteVec,
    Method,
};
use stun_types::prelude::{MessageWrite as _, MessageWriteExt as _};
use turn_types::message::{ALLOCATE, CHANNEL_BIND, CREATE_PERMISSION, REFRESH};

/// Largest number of records in an input.
const RECORDS: usize = 32;
/// Methods of signed requests.
const METHODS: [Method; 4] = [ALLOCATE, REFRESH, CREATE_PERMISSION, CHANNEL_BIND];
const SECRET: &str = "hush";
const TRANSACTION: u128 = 7;

fuzz_target!(init: write_seeds(), |data: &[u8]| run(data));

struct Fixture {
    session: TurnSession,
    clock: Clock,
    /// Realm and nonce of the last challenge.
    challenge: Option<(String, String)>,
    has_signed: bool,
}

fn bound() -> SocketAddr {
    "10.0.0.1:7882".parse().unwrap()
}

fn worker() -> SocketAddr {
    "192.0.2.1:7882".parse().unwrap()
}

fn run(data: &[u8]) {
    let Some((transport, rest)) = data.split_first() else {
        return;
    };
    let clock = Clock::manual(Timestamp::from_millis(1_000_000_000));
    let peers = [MediaAddress {
        bound: bound(),
        advertised: worker(),
    }];
    let server = TurnServer::new(TurnSettings {
        secret: Secret::new(SECRET),
        peers: &peers,
        clock: clock.clone(),
        allocation_timeout: ALLOCATION_TIMEOUT,
        max_allocations: MAX_ALLOCATIONS,
    });
    let _access = server.admit("PA_mallory", "prj_000000000001".parse().unwrap());
    let transport = if transport % 2 == 0 {
        ClientTransport::Udp
    } else {
        ClientTransport::Stream
    };
    let session = server.session("198.51.100.1:5000".parse().unwrap(), transport);
    let mut fixture = Fixture {
        session,
        clock,
        challenge: None,
        has_signed: false,
    };
    fixture.receive(&Message::builder_request(ALLOCATE, MessageWriteVec::new()).finish());
    for record in records::read(rest).take(RECORDS) {
        match record.split_first() {
            Some((0..=3, _)) => {
                let message = fixture.signed(record);
                fixture.has_signed = true;
                fixture.receive(&message);
            }
            Some((4, seconds)) => fixture.pass(seconds.len() as u64 * 60),
            Some((5, payload)) => drop(fixture.session.push_relayed(
                bound(),
                payload,
                &mut Vec::new(),
            )),
            Some((_, raw)) => fixture.receive(raw),
            None => {}
        }
    }
    assert_same_in_pieces(rest);
}

impl Fixture {
    fn pass(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.session.expire();
    }

    fn receive(&mut self, bytes: &[u8]) {
        match self.session.receive(bytes, &mut |_| Ok(40_000)) {
            TurnReaction::Nothing => {}
            TurnReaction::Reply(response) => self.read(&response),
            TurnReaction::Relay { to, payload } => {
                assert!(self.has_signed && to == bound() && payload.len() <= bytes.len());
            }
        }
    }

    /// Parses a response, which must be a short STUN message.
    fn read(&mut self, response: &[u8]) {
        let message = Message::from_bytes(response).expect("an answer is a message of STUN");
        assert!(message.is_response() && response.len() < 400, "{message}");
        if let (Ok(realm), Ok(nonce)) = (message.attribute::<Realm>(), message.attribute::<Nonce>())
        {
            self.challenge = Some((realm.realm().to_owned(), nonce.nonce().to_owned()));
        }
    }

    /// Returns a request with the input's attributes, and with credentials.
    fn signed(&self, record: &[u8]) -> Vec<u8> {
        let (method, mut rest) = record.split_first().expect("a record with a kind");
        let kind =
            MessageType::from_class_method(MessageClass::Request, METHODS[usize::from(*method)]);
        let mut message = Message::builder(kind, TRANSACTION.into(), MessageWriteVec::new());
        while let [high, low, length, value @ ..] = rest {
            let (value, behind) = value.split_at(usize::from(*length).min(value.len()));
            message.push_attribute_unchecked(&RawAttribute::new(
                u16::from_be_bytes([*high, *low]).into(),
                value,
            ));
            rest = behind;
        }
        let username = username(
            "PA_mallory",
            Timestamp::from_millis(1_000_000_000).after(Duration::from_secs(86_400)),
        );
        let password = password(&Secret::new(SECRET), &username);
        let (realm, nonce) = self
            .challenge
            .clone()
            .expect("the first request is challenged");
        message.push_attribute_unchecked(&Username::new(&username).unwrap());
        message.push_attribute_unchecked(&Realm::new(&realm).unwrap());
        message.push_attribute_unchecked(&Nonce::new(&nonce).unwrap());
        let key = LongTermCredentials::new(username, password.reveal().to_owned()).to_key(realm);
        // Fails if the input already contains an integrity attribute.
        let _ = message.add_message_integrity_with_key(
            &key.make_key(IntegrityAlgorithm::Sha1),
            IntegrityAlgorithm::Sha1,
        );
        message.finish()
    }
}

/// Returns a stream's messages, and whether the stream is valid to its end.
fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let (mut reader, mut found) = (MessageReader::default(), Vec::new());
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_message() {
                Ok(Some(message)) => found.push(message.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, false),
            }
        }
    }
    (found, true)
}

fn assert_same_in_pieces(stream: &[u8]) {
    assert_eq!(messages([stream].into_iter()), messages(stream.chunks(7)));
}

fn write_seeds() {
    let attribute = |kind: u16, value: &[u8]| {
        [
            &kind.to_be_bytes()[..],
            &[u8::try_from(value.len()).unwrap()],
            value,
        ]
        .concat()
    };
    // 192.0.2.1:7882, XORed with the magic cookie (RFC 5389, section 15.2).
    let peer = attribute(0x12, &[0, 1, 0x3f, 0xd8, 0xe1, 0x12, 0xa6, 0x43]);
    let records = [
        [&[0][..], &attribute(0x19, &[17, 0, 0, 0])].concat(),
        [&[2][..], &peer].concat(),
        [&[3][..], &attribute(0x0c, &[0x40, 0, 0, 0]), &peer].concat(),
        [&[6][..], &[0x40, 0, 0, 4], b"ping"].concat(),
        [&[5][..], b"pong"].concat(),
        [&[1][..], &attribute(0x0d, &[0, 0, 0, 0])].concat(),
        vec![4; 12],
    ];
    let written = |count: usize| records::write(&records[..count]);
    seeds::write(
        "turn",
        [0, 1]
            .into_iter()
            .flat_map(|kind| (1..=7).map(move |count| [&[kind][..], &written(count)].concat())),
    );
}
