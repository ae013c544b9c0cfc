//! Clients' data messages: messages received after a resume, and refused messages.

use std::time::Duration;

use livekit_protocol as proto;
use prost::Message as _;
use proto::data_packet::Value;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;

use super::Call;

impl Call {
    /// Joins a client, and waits until its data channels are open.
    #[track_caller]
    fn join_with_channels(&mut self, identity: &str) -> usize {
        let client = self.join(identity, "host");
        self.wait("its channels are open", |call| {
            call.clients[client].transport.connection.channels.len() >= 2
        });
        client
    }

    /// Sends a reliable message with its sequence number, as LiveKit's clients do.
    fn say(&mut self, client: usize, sequence: u32, text: &str) {
        let user = proto::UserPacket {
            payload: text.into(),
            ..Default::default()
        };
        let packet = proto::DataPacket {
            sequence,
            value: Some(Value::User(user)),
            ..Default::default()
        };
        self.clients[client].send_packet(&packet);
    }

    /// Texts that a client has received.
    fn heard(&self, client: usize) -> Vec<String> {
        self.clients[client]
            .messages()
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }
}

/// Returns a client's resume state: it has received a sender's messages up to a number.
fn state(sender: &str, last_seq: u32, times: usize) -> Request {
    let state = proto::DataChannelReceiveState {
        publisher_sid: sender.to_owned(),
        last_seq,
    };
    Request::SyncState(proto::SyncState {
        datachannel_receive_states: vec![state; times],
        ..Default::default()
    })
}

#[test]
fn a_client_that_resumes_gets_what_it_has_missed_once_and_nothing_from_before_its_join() {
    let mut call = Call::start();
    let alice = call.join_with_channels("alice");
    call.say(alice, 1, "before");
    call.run(Duration::from_millis(200));
    let bob = call.join_with_channels("bob");
    call.say(alice, 2, "after");
    call.wait("it arrives", |call| call.heard(bob) == ["after"]);
    let sid = call.clients[alice].sid.clone();

    // Outside a resume, the state has no effect.
    call.clients[bob].request(state(&sid, 0, 1));
    call.run(Duration::from_millis(300));
    assert_eq!(call.heard(bob), ["after"]);

    call.clients[bob].lose_signalling();
    call.run(Duration::from_millis(100));
    call.clients[bob].forget_responses();
    call.clients[bob].resume();
    call.wait("the resume is answered", |call| {
        call.clients[bob]
            .responses
            .iter()
            .any(|response| matches!(response, Response::Reconnect(_)))
    });
    for _ in 0..3 {
        call.clients[bob].request(state(&sid, 0, 900));
    }
    call.wait("what it says that it has missed arrives", |call| {
        call.heard(bob).len() > 1
    });
    call.run(Duration::from_millis(300));
    assert_eq!(call.heard(bob), ["after", "after"]);
}

#[test]
fn a_participant_transcribes_itself_and_nobody_else() {
    let mut call = Call::start();
    let (alice, bob) = (
        call.join_with_channels("alice"),
        call.join_with_channels("bob"),
    );
    let of_bob = call.speak(bob);
    for (identity, track) in [
        ("bob", ""),
        ("bob", of_bob.as_str()),
        ("", of_bob.as_str()),
        ("alice", ""),
    ] {
        let transcription = proto::Transcription {
            transcribed_participant_identity: identity.into(),
            track_id: track.into(),
            ..Default::default()
        };
        let value = Some(Value::Transcription(transcription));
        call.clients[alice].send_packet(&proto::DataPacket {
            value,
            ..Default::default()
        });
    }
    call.say(alice, 1, "the end");
    call.wait("the last message arrives", |call| {
        call.heard(bob) == ["the end"]
    });
    let packets = call.clients[bob].transport.connection.messages.iter();
    let packets = packets.map(|(_, bytes)| proto::DataPacket::decode(bytes.as_slice()).unwrap());
    let transcribed: Vec<_> = packets
        .filter_map(|packet| match packet.value {
            Some(Value::Transcription(transcription)) => {
                Some(transcription.transcribed_participant_identity)
            }
            _ => None,
        })
        .collect();
    assert_eq!(transcribed, ["alice"]);
}

#[test]
fn a_client_that_opens_channel_after_channel_is_removed() {
    let mut call = Call::start();
    let (alice, bob) = (
        call.join_with_channels("alice"),
        call.join_with_channels("bob"),
    );
    for number in 0..100 {
        call.clients[alice]
            .transport
            .connection
            .open_channel(&format!("channel-{number}"));
    }
    call.wait("it is told", |call| call.clients[alice].left().is_some());
    assert_eq!(
        call.clients[alice].left(),
        Some(proto::DisconnectReason::ParticipantRemoved)
    );
    call.app
        .get("/v1/rooms/standup/participants/alice")
        .send()
        .expect_error(404, "participant_not_found", None);
    let track = call.speak(bob);
    call.wait("the others go on", |call| {
        call.app
            .get("/v1/rooms/standup/participants/bob")
            .send()
            .status
            == 200
    });
    assert!(!track.is_empty());
}
