//! Data tracks between clients, under the roles' rules.

use std::time::{Duration, Instant};

use livekit_protocol as proto;
use proto::request_response::Reason;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use serde_json::json;

use super::Call;
use super::client::Client;
use crate::support::{Receiver, TestApp};

const LABEL: &str = "_data_track";
const PARTICIPANTS: &str = "/v1/rooms/stage/participants";

/// Opens a room with roles, and joins clients with data track channels.
fn stage(members: &[(&str, &str)]) -> Call {
    let mut call = Call::new(TestApp::start_with_webrtc());
    let roles = json!({
        "host": {},
        "viewer": {"publish": {"allowed": ["audio"]}},
        "ghost": {"hidden": true},
        "guest": {"subscribe": {"to_roles": ["host"]}},
    });
    call.app.room_with_roles("stage", &roles);
    for (identity, role) in members {
        let token = call.app.token("stage", identity, role);
        call.clients
            .push(Client::join(&call.app.api, &token).unwrap());
        call.wait("it is listed", |call| {
            call.app
                .get(&format!("{PARTICIPANTS}/{identity}"))
                .send()
                .status
                == 200
        });
        let client = call.clients.last_mut().unwrap();
        client.transport.connection.open_channel(LABEL);
    }
    call.wait("the channels are open", |call| {
        call.clients
            .iter()
            .all(|client| client.transport.connection.channels.contains_key(LABEL))
    });
    call
}

fn packet(handle: u16, number: u8) -> Vec<u8> {
    let mut packet = vec![0x18, 0, 0, 0, 0, number, 0, 1, 0, 0, 0, 7, number];
    packet[2..4].copy_from_slice(&handle.to_be_bytes());
    packet
}

impl Call {
    /// Publishes a data track with a handle. Returns its sid, or the reason for the refusal.
    fn publish_data(&mut self, client: usize, handle: u16) -> Result<String, Reason> {
        self.clients[client].forget_responses();
        let name = format!("track {handle}");
        let request = proto::PublishDataTrackRequest {
            pub_handle: handle.into(),
            name,
            ..Default::default()
        };
        self.clients[client].request(Request::PublishDataTrackRequest(request));
        let answer = |call: &Self| {
            call.clients[client]
                .responses
                .iter()
                .find_map(|response| match response {
                    Response::PublishDataTrackResponse(response) => {
                        Some(Ok(response.info.clone().unwrap().sid))
                    }
                    Response::RequestResponse(response) => Some(Err(response.reason())),
                    _ => None,
                })
        };
        self.wait("it is answered", |call| answer(call).is_some());
        answer(self).unwrap()
    }

    fn subscribe_data(&mut self, client: usize, track: &str, subscribe: bool) {
        let update = proto::update_data_subscription::Update {
            track_sid: track.to_owned(),
            subscribe,
            options: None,
        };
        let updates = vec![update];
        self.clients[client].request(Request::UpdateDataSubscription(
            proto::UpdateDataSubscription { updates },
        ));
    }

    /// Returns a client's handle for a track, from the latest message.
    fn handle(&self, client: usize, track: &str) -> Option<u16> {
        let told =
            self.clients[client]
                .responses
                .iter()
                .rev()
                .find_map(|response| match response {
                    Response::DataTrackSubscriberHandles(handles) => Some(&handles.sub_handles),
                    _ => None,
                })?;
        told.iter()
            .find(|(_, known)| known.track_sid == track)
            .map(|(handle, _)| u16::try_from(*handle).unwrap())
    }

    fn await_handle(&mut self, client: usize, track: &str) -> u16 {
        self.wait("it has a handle", |call| {
            call.handle(client, track).is_some()
        });
        self.handle(client, track).unwrap()
    }

    fn send(&mut self, client: usize, packet: &[u8]) {
        let sent =
            self.clients[client]
                .transport
                .connection
                .send_message(LABEL, packet, Instant::now());
        assert!(sent, "the channel takes it");
    }

    /// Returns the packets that a client has received.
    fn packets(&self, client: usize) -> Vec<Vec<u8>> {
        let messages = self.clients[client].transport.connection.messages.iter();
        messages
            .filter(|(label, _)| label == LABEL)
            .map(|(_, packet)| packet.clone())
            .collect()
    }

    /// Waits until a client receives a packet from a sender that keeps sending.
    fn assert_gets(&mut self, from: usize, sent: &[u8], to: usize, expected: &[u8]) {
        let before = self.packets(to).len();
        let mut at = 0;
        while self.packets(to).len() == before {
            assert!(at < 600, "the packet arrives");
            self.send(from, sent);
            self.run(Duration::from_millis(100));
            at += 1;
        }
        assert_eq!(self.packets(to).last().unwrap(), expected);
    }

    /// Checks that a client receives nothing from a sender.
    fn assert_gets_nothing(&mut self, from: usize, sent: &[u8], to: usize) {
        // Answered by the media worker, which has then handled the commands and packets before.
        let id = format!("/{}/room/stage", self.app.project);
        self.wait("the worker follows", |call| {
            call.app.actors(&id)["media"].is_array()
        });
        self.run(Duration::from_millis(300));
        let before = self.packets(to).len();
        self.send(from, sent);
        self.run(Duration::from_millis(300));
        assert_eq!(self.packets(to).len(), before);
    }

    fn set_role(&self, identity: &str, role: &str) {
        self.app
            .post(&format!("{PARTICIPANTS}/{identity}/role"))
            .json(json!({"role": role}))
            .send()
            .expect(200);
    }
}

#[test]
fn a_data_track_reaches_who_subscribes_to_it_and_is_a_track_of_the_records() {
    let mut call = stage(&[("alice", "host"), ("bob", "host"), ("carol", "host")]);
    let receiver = Receiver::start();
    call.app.endpoint(&receiver.url);
    let track = call.publish_data(0, 7).unwrap();
    call.wait("bob sees it", |call| {
        call.clients[1]
            .seen("alice")
            .is_some_and(|seen| !seen.data_tracks.is_empty())
    });
    let shown = call
        .app
        .get(&format!("{PARTICIPANTS}/alice"))
        .send()
        .expect(200)["tracks"][0]
        .clone();
    assert_eq!(
        [&shown["sid"], &shown["kind"], &shown["name"]],
        [&json!(track), &json!("data"), &json!("track 7")]
    );
    call.app.wait_for_event("track.published", 1);
    let event = call.app.events(&receiver).remove(0);
    assert_eq!(
        [&event["type"], &event["track_sid"]],
        [&json!("track.published"), &json!(track)]
    );

    call.subscribe_data(1, &track, true);
    let handle = call.await_handle(1, &track);
    call.assert_gets(0, &packet(7, 1), 1, &packet(handle, 1));
    assert!(call.packets(2).is_empty(), "carol has not asked for it");
    call.subscribe_data(1, &track, false);
    call.wait("its handle is gone", |call| {
        call.handle(1, &track).is_none()
    });
    call.assert_gets_nothing(0, &packet(7, 2), 1);

    call.clients[0].request(Request::UnpublishDataTrackRequest(
        proto::UnpublishDataTrackRequest { pub_handle: 7 },
    ));
    call.wait("bob sees it end", |call| {
        call.clients[1]
            .seen("alice")
            .unwrap()
            .data_tracks
            .is_empty()
    });
    let sessions = call
        .app
        .get("/v1/sessions?identity=alice")
        .send()
        .expect(200);
    let id = sessions["sessions"][0]["id"].as_str().unwrap().to_owned();
    let recorded = &call
        .app
        .get(&format!("/v1/sessions/{id}"))
        .send()
        .expect(200)["tracks"];
    assert_eq!(
        (&recorded[0]["kind"], recorded[0]["ended_at"].is_string()),
        (&json!("data"), true),
        "{recorded}"
    );
}

#[test]
fn a_role_decides_who_publishes_data_tracks_and_who_receives_them_also_when_it_changes() {
    let mut call = stage(&[("alice", "host"), ("bob", "guest"), ("victor", "viewer")]);
    assert_eq!(call.publish_data(2, 1), Err(Reason::NotAllowed));
    let (of_alice, of_bob) = (
        call.publish_data(0, 1).unwrap(),
        call.publish_data(1, 1).unwrap(),
    );
    call.subscribe_data(1, &of_alice, true);
    call.subscribe_data(2, &of_alice, true);
    call.subscribe_data(2, &of_bob, true);
    let (to_bob, to_victor) = (
        call.await_handle(1, &of_alice),
        call.await_handle(2, &of_alice),
    );
    call.assert_gets(0, &packet(1, 1), 1, &packet(to_bob, 1));
    call.assert_gets(0, &packet(1, 1), 2, &packet(to_victor, 1));
    let of_bob_to_victor = call.await_handle(2, &of_bob);
    call.assert_gets(1, &packet(1, 2), 2, &packet(of_bob_to_victor, 2));

    call.set_role("victor", "guest");
    call.assert_gets_nothing(1, &packet(1, 3), 2);
    call.set_role("alice", "ghost");
    call.assert_gets_nothing(0, &packet(1, 4), 1);
    call.set_role("alice", "host");
    let again = call.await_handle(1, &of_alice);
    call.assert_gets(0, &packet(1, 5), 1, &packet(again, 5));

    let mute = |call: &Call, muted: bool| {
        let body = json!({"track_sid": of_alice, "muted": muted});
        call.app
            .post(&format!("{PARTICIPANTS}/alice/mute"))
            .json(body)
            .send()
            .expect(200);
    };
    mute(&call, true);
    call.assert_gets_nothing(0, &packet(1, 6), 1);
    mute(&call, false);
    call.assert_gets(0, &packet(1, 7), 1, &packet(again, 7));
    call.set_role("alice", "viewer");
    call.assert_gets_nothing(0, &packet(1, 8), 1);
    call.wait("its track has ended", |call| {
        call.clients[0]
            .responses
            .iter()
            .any(|response| matches!(response, Response::UnpublishDataTrackResponse(_)))
    });
}
