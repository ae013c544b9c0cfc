//! Rewriting of data messages on their way from a client to its receivers.

#![allow(
    deprecated,
    reason = "old clients read the fields that newer ones have replaced"
)]

use conclave_model::participant::DataKind;
use livekit_protocol as proto;
use livekit_protocol::data_packet::{Kind, Value};
use prost::{Message as _, encoding};

use super::Message;
use crate::command::ServerMessage;
use crate::event::{Receivers, SentMessage};

/// Sender of a message, as known to the server.
#[derive(Clone, Copy)]
pub struct Sender<'a> {
    /// Sid of the join.
    pub sid: &'a str,
    /// The sender's identity.
    pub identity: &'a str,
    /// Whether the sender is not named to receivers.
    pub is_hidden: bool,
    /// Whether it may send transcriptions of other participants' speech.
    pub transcribes_others: bool,
    /// Returns whether a track sid belongs to another participant.
    pub is_track_of_other: &'a dyn Fn(&str) -> bool,
}

/// Message with its receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The sender's sequence number for a reliable message; 0 if it has none.
    pub sequence: u32,
    /// Receivers.
    pub to: Receivers,
    /// Encoded message for them.
    pub message: Message,
}

/// Rewrites a client's message for its receivers; `None` if it may not be forwarded. Only a user packet in it is
/// changed. Everything else passes unchanged, including fields of newer protocol versions.
pub fn route(bytes: &[u8], kind: DataKind, sender: Sender<'_>) -> Option<Routed> {
    let mut packet = proto::DataPacket::decode(bytes).ok()?;
    let (sid, identity) = if sender.is_hidden {
        ("", "")
    } else {
        (sender.sid, sender.identity)
    };
    packet.kind = wire_kind(kind);
    // Clients could claim any sender and kind, so the server overwrites both.
    sid.clone_into(&mut packet.participant_sid);
    identity.clone_into(&mut packet.participant_identity);
    let user = match packet.value.take() {
        Some(Value::User(user)) => Some(user),
        _ => None,
    };
    let mut sids = Vec::new();
    if let Some(mut user) = user {
        sids = address_user_packet(&mut user, sid, identity, &mut packet.destination_identities);
        packet.value = Some(Value::User(user));
    }
    let mut message = packet.encode_to_vec();
    // Re-encoding would lose fields that this version of the protocol does not know, so they are copied from the
    // original bytes.
    let carried = carried_fields(bytes, packet.value.is_some(), sender)?;
    // An envelope without content has nothing to forward.
    if carried.is_empty() && packet.value.is_none() {
        return None;
    }
    carried
        .into_iter()
        .for_each(|field| message.extend_from_slice(field));
    let to = Receivers {
        identities: packet.destination_identities,
        sids,
    };
    Some(Routed {
        // The sender's own number, by which a resumed receiver names the messages that it has.
        sequence: packet.sequence,
        message: message.into(),
        to,
    })
}

/// Envelope fields of a packet: sender, receivers, kind and sequence number.
const ENVELOPE: [u32; 5] = [1, 4, 5, 16, 17];
/// User packet.
const USER: u32 = 2;
/// Fields that clients may not send to each other: active speakers, which only the server may report, and metrics,
/// which are meant for the server.
const REFUSED: [u32; 2] = [3, 8];

/// Complete transcription, and header of a text stream, which may be a transcription.
const TRANSCRIPTION: u32 = 7;
const STREAM_HEADER: u32 = 13;
/// Topic of transcription streams, and their attribute with the track sid.
const TRANSCRIPTION_TOPIC: &str = "lk.transcription";
const TRANSCRIBED_TRACK: &str = "lk.transcribed_track_id";

/// Returns the content fields of a packet, except a user packet, which is encoded again. `None` if the sender may not
/// send the content, or if another field overrides the user packet.
fn carried_fields<'a>(
    mut bytes: &'a [u8],
    has_user: bool,
    sender: Sender<'_>,
) -> Option<Vec<&'a [u8]>> {
    let mut carried = Vec::new();
    // A field of a oneof may be repeated or replaced in the encoding; so each field is checked, not only the decoded
    // result.
    while !bytes.is_empty() {
        let start = bytes;
        let (number, wire_type) = encoding::decode_key(&mut bytes).ok()?;
        encoding::skip_field(
            wire_type,
            number,
            &mut bytes,
            encoding::DecodeContext::default(),
        )
        .ok()?;
        // A user packet that did not survive decoding would pass with the sender that the client wrote into it.
        if REFUSED.contains(&number) || (number == USER && !has_user) {
            return None;
        }
        let field = &start[..start.len() - bytes.len()];
        if !sender.transcribes_others && speaks_for_other(number, field, sender) {
            return None;
        }
        if number != USER && !ENVELOPE.contains(&number) {
            carried.push(field);
        }
    }
    Some(carried)
}

/// Returns whether a field contains another participant's speech. Each field is checked, because receivers take the
/// last one and merge fields with the same number.
fn speaks_for_other(number: u32, mut field: &[u8], sender: Sender<'_>) -> bool {
    if number != TRANSCRIPTION && number != STREAM_HEADER {
        return false;
    }
    // The caller has decoded the key already, so this cannot fail.
    let _ = encoding::decode_key(&mut field);
    if number == TRANSCRIPTION {
        // The whole packet was decoded before, so this is unreachable; refuse rather than trust.
        let Ok(transcription) = proto::Transcription::decode_length_delimited(field) else {
            return true;
        };
        // Either field alone would make clients show the text as another participant's speech.
        let named = &transcription.transcribed_participant_identity;
        return !(named.is_empty() || named == sender.identity)
            || (sender.is_track_of_other)(&transcription.track_id);
    }
    let Ok(header) = proto::data_stream::Header::decode_length_delimited(field) else {
        return true;
    };
    let track = header
        .attributes
        .get(TRANSCRIBED_TRACK)
        // Applications may use the attribute in streams with other topics, where it means nothing to LiveKit's clients.
        .filter(|_| header.topic == TRANSCRIPTION_TOPIC);
    track.is_some_and(|track| (sender.is_track_of_other)(track))
}

/// Converts an opaque message into a user packet for all participants.
pub fn route_plain(payload: Vec<u8>, sender: Sender<'_>) -> Routed {
    let (sid, identity) = if sender.is_hidden {
        ("", "")
    } else {
        (sender.sid, sender.identity)
    };
    // In both places: clients read one or the other, depending on their version.
    let (participant_sid, participant_identity) = (sid.to_owned(), identity.to_owned());
    let user = proto::UserPacket {
        payload,
        participant_sid: participant_sid.clone(),
        participant_identity: participant_identity.clone(),
        ..proto::UserPacket::default()
    };
    let value = Some(Value::User(user));
    let kind = wire_kind(DataKind::Reliable);
    let packet = proto::DataPacket {
        kind,
        value,
        participant_sid,
        participant_identity,
        ..proto::DataPacket::default()
    };
    Routed {
        sequence: 0,
        message: packet.encode_to_vec().into(),
        to: Receivers::default(),
    }
}

/// Writes a packet's sender and receivers into its user packet. If only the user packet's deprecated fields name
/// receivers, they are copied to the packet. Returns the receivers by sid.
fn address_user_packet(
    user: &mut proto::UserPacket,
    sid: &str,
    identity: &str,
    to: &mut Vec<String>,
) -> Vec<String> {
    sid.clone_into(&mut user.participant_sid);
    identity.clone_into(&mut user.participant_identity);
    // Old clients name the receivers in the user packet only.
    if to.is_empty() {
        to.clone_from(&user.destination_identities);
    }
    // Old receivers read only the user packet, so it names sender and receivers as well.
    user.destination_identities.clone_from(to);
    user.destination_sids.clone()
}

const fn wire_kind(kind: DataKind) -> i32 {
    match kind {
        DataKind::Reliable => Kind::Reliable as i32,
        DataKind::Lossy => Kind::Lossy as i32,
    }
}

/// Returns a message in the form that is reported to the control side; `None` if it is not a user message.
pub fn sent_message(kind: DataKind, routed: &Routed) -> Option<SentMessage> {
    let Some(Value::User(user)) = proto::DataPacket::decode(&*routed.message).ok()?.value else {
        return None;
    };
    Some(SentMessage {
        kind,
        topic: user.topic,
        payload: user.payload,
        to: routed.to.clone(),
    })
}

/// Creates a message from the server: a user packet without a sender.
pub fn server_packet(message: ServerMessage) -> Routed {
    let identities: Vec<_> = message.to.iter().map(ToString::to_string).collect();
    let user = proto::UserPacket {
        payload: message.payload,
        topic: message.topic,
        destination_identities: identities.clone(),
        ..proto::UserPacket::default()
    };
    let packet = proto::DataPacket {
        kind: wire_kind(message.kind),
        destination_identities: identities.clone(),
        value: Some(Value::User(user)),
        ..proto::DataPacket::default()
    };
    let to = Receivers {
        identities,
        sids: Vec::new(),
    };
    Routed {
        sequence: 0,
        to,
        message: packet.encode_to_vec().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Sender<'_> = Sender {
        sid: "PA_alice",
        identity: "alice",
        is_hidden: false,
        transcribes_others: false,
        is_track_of_other: &|sid| sid == "TR_bob",
    };

    fn packet(value: Value) -> proto::DataPacket {
        proto::DataPacket {
            value: Some(value),
            sequence: 7,
            participant_identity: "mallory".to_owned(),
            ..Default::default()
        }
    }

    fn user(to: &[&str]) -> Value {
        let destination_identities = to.iter().map(|to| (*to).to_owned()).collect();
        Value::User(proto::UserPacket {
            payload: b"hi".to_vec(),
            destination_identities,
            ..Default::default()
        })
    }

    fn decoded(routed: &Routed) -> proto::DataPacket {
        proto::DataPacket::decode(&*routed.message).unwrap()
    }

    #[test]
    fn a_message_names_its_real_sender_and_its_receivers_everywhere() {
        let routed = route(
            &packet(user(&["bob"])).encode_to_vec(),
            DataKind::Lossy,
            ALICE,
        )
        .unwrap();
        let sent = decoded(&routed);
        assert_eq!(
            (
                sent.participant_identity.as_str(),
                sent.participant_sid.as_str()
            ),
            ("alice", "PA_alice")
        );
        assert_eq!(
            (sent.kind, sent.sequence, routed.sequence),
            (Kind::Lossy as i32, 7, 7)
        );
        assert_eq!(sent.destination_identities, ["bob"]);
        let Some(Value::User(user)) = sent.value else {
            panic!("a user packet")
        };
        assert_eq!(
            (
                user.participant_identity.as_str(),
                user.participant_sid.as_str()
            ),
            ("alice", "PA_alice")
        );
        assert!(routed.to.include("bob", "PA_bob") && !routed.to.include("carol", "PA_carol"));
    }

    #[test]
    fn a_hidden_sender_is_not_named() {
        let routed = route(
            &packet(user(&[])).encode_to_vec(),
            DataKind::Reliable,
            Sender {
                is_hidden: true,
                ..ALICE
            },
        )
        .unwrap();
        let sent = decoded(&routed);
        assert_eq!(
            (
                sent.participant_identity.as_str(),
                sent.participant_sid.as_str()
            ),
            ("", "")
        );
        assert!(routed.to.include("bob", "PA_bob"));
    }

    /// Encodes a length-delimited field.
    fn field(number: u32, content: &[u8]) -> Vec<u8> {
        let mut field = Vec::new();
        encoding::encode_key(number, encoding::WireType::LengthDelimited, &mut field);
        encoding::encode_varint(content.len() as u64, &mut field);
        [field, content.to_vec()].concat()
    }

    #[test]
    fn every_kind_of_packet_passes_as_it_is_but_metrics_and_speakers() {
        let all = [
            Value::SipDtmf(proto::SipDtmf {
                code: 5,
                digit: "5".into(),
            }),
            Value::Transcription(proto::Transcription {
                track_id: "TR_1".into(),
                ..Default::default()
            }),
            Value::ChatMessage(proto::ChatMessage {
                message: "hi".into(),
                ..Default::default()
            }),
            Value::RpcRequest(proto::RpcRequest {
                method: "m".into(),
                ..Default::default()
            }),
            Value::RpcAck(proto::RpcAck {
                request_id: "1".into(),
            }),
            Value::RpcResponse(proto::RpcResponse {
                request_id: "1".into(),
                ..Default::default()
            }),
            Value::StreamHeader(proto::data_stream::Header {
                topic: "t".into(),
                ..Default::default()
            }),
            Value::StreamChunk(proto::data_stream::Chunk {
                content: vec![1],
                ..Default::default()
            }),
            Value::StreamTrailer(proto::data_stream::Trailer {
                stream_id: "s".into(),
                ..Default::default()
            }),
            Value::EncryptedPacket(proto::EncryptedPacket {
                iv: vec![1],
                ..Default::default()
            }),
        ];
        for value in all {
            let packet = proto::DataPacket {
                destination_identities: vec!["bob".into()],
                ..packet(value.clone())
            };
            let routed = route(&packet.encode_to_vec(), DataKind::Reliable, ALICE).unwrap();
            let sent = decoded(&routed);
            assert_eq!(
                (
                    sent.value,
                    sent.participant_identity.as_str(),
                    sent.sequence
                ),
                (Some(value), "alice", 7)
            );
            assert!(routed.to.include("bob", "PA_bob") && !routed.to.include("carol", "PA_carol"));
        }
        let user_and = |value| {
            [
                packet(user(&[])).encode_to_vec(),
                packet(value).encode_to_vec(),
            ]
            .concat()
        };
        for value in [
            Value::Metrics(proto::MetricsBatch::default()),
            Value::Speaker(proto::ActiveSpeakerUpdate::default()),
        ] {
            assert!(
                route(
                    &packet(value.clone()).encode_to_vec(),
                    DataKind::Reliable,
                    ALICE
                )
                .is_none()
            );
            assert!(route(&user_and(value), DataKind::Reliable, ALICE).is_none());
        }
        let overridden = user_and(Value::ChatMessage(proto::ChatMessage::default()));
        assert!(
            route(&overridden, DataKind::Reliable, ALICE).is_none(),
            "its user packet would name another sender"
        );
    }

    /// Proves S-55.
    #[test]
    fn only_an_agent_transcribes_what_others_say() {
        let transcription = |identity: &str, track: &str| {
            Value::Transcription(proto::Transcription {
                transcribed_participant_identity: identity.into(),
                track_id: track.into(),
                ..Default::default()
            })
        };
        let stream = |topic: &str, track: &str| {
            let attributes = [(TRANSCRIBED_TRACK.to_owned(), track.to_owned())].into();
            Value::StreamHeader(proto::data_stream::Header {
                topic: topic.into(),
                attributes,
                ..Default::default()
            })
        };
        let passes = |bytes: &[u8], sender| route(bytes, DataKind::Reliable, sender).is_some();
        let agent = Sender {
            transcribes_others: true,
            ..ALICE
        };
        let own = [
            transcription("alice", "TR_alice"),
            transcription("", ""),
            stream(TRANSCRIPTION_TOPIC, "TR_alice"),
        ];
        for value in own.into_iter().chain([stream("chat", "TR_bob")]) {
            assert!(
                passes(&packet(value.clone()).encode_to_vec(), ALICE),
                "{value:?}"
            );
        }
        for value in [
            transcription("bob", "TR_bob"),
            transcription("bob", ""),
            transcription("", "TR_bob"),
            transcription("alice", "TR_bob"),
            stream(TRANSCRIPTION_TOPIC, "TR_bob"),
        ] {
            let bytes = packet(value.clone()).encode_to_vec();
            assert!(!passes(&bytes, ALICE) && passes(&bytes, agent), "{value:?}");
            // Receivers merge fields, and take the last of several kinds.
            for hidden in [
                [
                    packet(transcription("alice", "")).encode_to_vec(),
                    bytes.clone(),
                ],
                [bytes.clone(), packet(user(&[])).encode_to_vec()],
                [
                    bytes.clone(),
                    packet(transcription("alice", "TR_alice")).encode_to_vec(),
                ],
            ] {
                assert!(!passes(&hidden.concat(), ALICE), "{value:?}");
            }
        }
    }

    #[test]
    fn what_a_newer_version_of_the_protocol_has_passes_as_it_is_and_a_packet_with_nothing_does_not()
    {
        let chat = [
            proto::ChatMessage {
                message: "hi".into(),
                ..Default::default()
            }
            .encode_to_vec(),
            field(99, b"new"),
        ];
        for (number, content) in [(9, chat.concat()), (77, b"unknown".to_vec())] {
            let carried = field(number, &content);
            let mallory = proto::DataPacket {
                participant_identity: "mallory".into(),
                ..Default::default()
            };
            let bytes = [mallory.encode_to_vec(), carried.clone()].concat();
            let routed = route(
                &bytes,
                DataKind::Lossy,
                Sender {
                    is_hidden: true,
                    ..ALICE
                },
            )
            .unwrap();
            assert!(routed.message.ends_with(&carried));
            assert_eq!(decoded(&routed).participant_identity, "");
        }
        let nothing = proto::DataPacket {
            sequence: 7,
            ..Default::default()
        }
        .encode_to_vec();
        assert!(route(&nothing, DataKind::Reliable, ALICE).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(routed) = route(&bytes, DataKind::Reliable, ALICE) {
                let sent = decoded(&routed);
                proptest::prop_assert_eq!((&*sent.participant_identity, &*sent.participant_sid), ("alice", "PA_alice"));
                if let Some(Value::User(user)) = sent.value {
                    proptest::prop_assert_eq!(&*user.participant_identity, "alice");
                }
            }
        }

        #[test]
        fn the_sender_is_the_real_one_whatever_fields_a_packet_has(
            fields in proptest::collection::vec((1_u32..20, proptest::collection::vec(proptest::num::u8::ANY, 0..6)), 0..6),
        ) {
            let bytes: Vec<u8> = fields.iter().flat_map(|(number, content)| field(*number, content)).collect();
            if let Some(routed) = route(&bytes, DataKind::Reliable, ALICE) {
                let sent = decoded(&routed);
                proptest::prop_assert_eq!((&*sent.participant_identity, &*sent.participant_sid), ("alice", "PA_alice"));
                if let Some(Value::User(user)) = sent.value {
                    proptest::prop_assert_eq!(&*user.participant_identity, "alice");
                }
            }
        }
    }
}
