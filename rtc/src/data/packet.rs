//! What a client's message becomes on its way to the others.

#![allow(deprecated, reason = "old clients read the fields that newer ones have replaced")]

use conclave_model::participant::DataKind;
use livekit_protocol as proto;
use livekit_protocol::data_packet::{Kind, Value};
use prost::Message as _;

use super::Message;
use crate::command::ServerMessage;
use crate::event::{Receivers, SentMessage};

/// Who sends a message, as the server knows it.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The sid of the join.
    pub sid: &'a str,
    /// The identity of the sender.
    pub identity: &'a str,
    /// Whether receivers are not told who sent it.
    pub is_hidden: bool,
    /// Whether it may send transcriptions.
    pub is_agent: bool,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The sender's number of a reliable message; 0 if it does not count.
    pub sequence: u32,
    /// Who receives it.
    pub to: Receivers,
    /// What they receive.
    pub message: Message,
}

/// Returns what a message of a client becomes; `None` if it is not forwarded.
pub fn route(bytes: &[u8], kind: DataKind, sender: Sender<'_>) -> Option<Routed> {
    let mut packet = proto::DataPacket::decode(bytes).ok()?;
    if !may_pass(packet.value.as_ref()?, sender) {
        return None;
    }
    let (sid, identity) = if sender.is_hidden { ("", "") } else { (sender.sid, sender.identity) };
    packet.kind = wire_kind(kind);
    sid.clone_into(&mut packet.participant_sid);
    identity.clone_into(&mut packet.participant_identity);
    let sids = match &mut packet.value {
        Some(Value::User(user)) => address_user_packet(user, sid, identity, &mut packet.destination_identities),
        _ => Vec::new(),
    };
    Some(Routed {
        sequence: packet.sequence,
        message: packet.encode_to_vec().into(),
        to: Receivers { identities: packet.destination_identities, sids },
    })
}

/// Returns what a message becomes that is no packet of the protocol: a user packet for all.
pub fn route_plain(payload: Vec<u8>, sender: Sender<'_>) -> Routed {
    let (sid, identity) = if sender.is_hidden { ("", "") } else { (sender.sid, sender.identity) };
    let (participant_sid, participant_identity) = (sid.to_owned(), identity.to_owned());
    let user = proto::UserPacket {
        payload,
        participant_sid: participant_sid.clone(),
        participant_identity: participant_identity.clone(),
        ..proto::UserPacket::default()
    };
    let value = Some(Value::User(user));
    let kind = wire_kind(DataKind::Reliable);
    let packet =
        proto::DataPacket { kind, value, participant_sid, participant_identity, ..proto::DataPacket::default() };
    Routed { sequence: 0, message: packet.encode_to_vec().into(), to: Receivers::default() }
}

/// Writes sender and receivers of a packet into the fields of the user packet in it, and takes the receivers from there
/// where only old fields name them. Returns the receivers by sid.
fn address_user_packet(user: &mut proto::UserPacket, sid: &str, identity: &str, to: &mut Vec<String>) -> Vec<String> {
    sid.clone_into(&mut user.participant_sid);
    identity.clone_into(&mut user.participant_identity);
    if to.is_empty() {
        to.clone_from(&user.destination_identities);
    }
    user.destination_identities.clone_from(to);
    user.destination_sids.clone()
}

/// Returns whether clients may send a message of this sort to each other.
const fn may_pass(value: &Value, sender: Sender<'_>) -> bool {
    match value {
        Value::Speaker(_) | Value::Metrics(_) => false,
        Value::Transcription(_) => sender.is_agent,
        _ => true,
    }
}

const fn wire_kind(kind: DataKind) -> i32 {
    match kind {
        DataKind::Reliable => Kind::Reliable as i32,
        DataKind::Lossy => Kind::Lossy as i32,
    }
}

/// Returns a message on its way as it is reported to the control side; `None` if it is no user message.
pub fn sent_message(kind: DataKind, routed: &Routed) -> Option<SentMessage> {
    let Some(Value::User(user)) = proto::DataPacket::decode(&*routed.message).ok()?.value else { return None };
    Some(SentMessage { kind, topic: user.topic, payload: user.payload, to: routed.to.clone() })
}

/// Returns a message of the server: a user packet without a sender.
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
    let to = Receivers { identities, sids: Vec::new() };
    Routed { sequence: 0, to, message: packet.encode_to_vec().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Sender<'_> = Sender { sid: "PA_alice", identity: "alice", is_hidden: false, is_agent: false };

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
        Value::User(proto::UserPacket { payload: b"hi".to_vec(), destination_identities, ..Default::default() })
    }

    fn decoded(routed: &Routed) -> proto::DataPacket {
        proto::DataPacket::decode(&*routed.message).unwrap()
    }

    #[test]
    fn a_message_names_its_real_sender_and_its_receivers_everywhere() {
        let routed = route(&packet(user(&["bob"])).encode_to_vec(), DataKind::Lossy, ALICE).unwrap();
        let sent = decoded(&routed);
        assert_eq!((sent.participant_identity.as_str(), sent.participant_sid.as_str()), ("alice", "PA_alice"));
        assert_eq!((sent.kind, sent.sequence, routed.sequence), (Kind::Lossy as i32, 7, 7));
        assert_eq!(sent.destination_identities, ["bob"]);
        let Some(Value::User(user)) = sent.value else { panic!("a user packet") };
        assert_eq!((user.participant_identity.as_str(), user.participant_sid.as_str()), ("alice", "PA_alice"));
        assert!(routed.to.include("bob", "PA_bob") && !routed.to.include("carol", "PA_carol"));
    }

    #[test]
    fn a_hidden_sender_is_not_named() {
        let routed =
            route(&packet(user(&[])).encode_to_vec(), DataKind::Reliable, Sender { is_hidden: true, ..ALICE }).unwrap();
        let sent = decoded(&routed);
        assert_eq!((sent.participant_identity.as_str(), sent.participant_sid.as_str()), ("", ""));
        assert!(routed.to.include("bob", "PA_bob"));
    }

    #[test]
    fn only_agents_send_transcriptions_and_nobody_sends_metrics_or_speakers() {
        let transcription = packet(Value::Transcription(proto::Transcription::default())).encode_to_vec();
        assert!(route(&transcription, DataKind::Reliable, ALICE).is_none());
        assert!(route(&transcription, DataKind::Reliable, Sender { is_agent: true, ..ALICE }).is_some());
        for value in
            [Value::Metrics(proto::MetricsBatch::default()), Value::Speaker(proto::ActiveSpeakerUpdate::default())]
        {
            assert!(route(&packet(value).encode_to_vec(), DataKind::Reliable, ALICE).is_none());
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            route(&bytes, DataKind::Reliable, ALICE);
        }
    }
}
