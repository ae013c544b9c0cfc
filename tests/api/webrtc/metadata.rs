//! Clients' own metadata, as other clients and the API see it.

use livekit_protocol as proto;
use proto::request_response::Reason;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use serde_json::{Value, json};

use super::Call;
use super::client::Client;

const PARTICIPANTS: &str = "/v1/rooms/stage/participants";

/// Opens a room whose speakers may change their own metadata, with a speaker and a host.
fn stage() -> Call {
    let mut call = Call::new(crate::support::TestApp::start_with_webrtc());
    let roles = json!({
        "speaker": {"permissions": {"update_own_metadata": true}, "attributes": {"team": "blue"}},
        "host": {},
    });
    call.app.room_with_roles("stage", &roles);
    for (identity, role) in [("alice", "speaker"), ("bob", "host")] {
        call.enter(identity, role);
    }
    call
}

fn update(request_id: u32, name: &str, attributes: &[(&str, &str)]) -> Request {
    let attributes = attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let name = name.to_owned();
    Request::UpdateMetadata(proto::UpdateParticipantMetadata {
        name,
        attributes,
        request_id,
        ..Default::default()
    })
}

impl Call {
    /// Joins a client, and waits until it is listed.
    fn enter(&mut self, identity: &str, role: &str) -> usize {
        let token = self.app.token("stage", identity, role);
        self.clients
            .push(Client::join(&self.app.api, &token).unwrap());
        self.wait("it is active", |call| {
            call.app
                .get(&format!("{PARTICIPANTS}/{identity}"))
                .send()
                .status
                == 200
        });
        self.clients.len() - 1
    }

    fn listed(&self, identity: &str) -> Value {
        self.app
            .get(&format!("{PARTICIPANTS}/{identity}"))
            .send()
            .expect(200)
    }

    /// Sends a request of a client, and waits for its response.
    fn answer(&mut self, client: usize, request_id: u32, request: Request) -> Reason {
        self.clients[client].request(request);
        let answer = |call: &Self| {
            let responses = call.clients[client]
                .responses
                .iter()
                .filter_map(|response| match response {
                    Response::RequestResponse(response) => Some(response),
                    _ => None,
                });
            responses
                .rev()
                .find(|response| response.request_id == request_id)
                .map(proto::RequestResponse::reason)
        };
        self.wait("the response comes", |call| answer(call).is_some());
        answer(self).unwrap()
    }

    fn sees(
        &mut self,
        client: usize,
        identity: &str,
        name: &str,
        attribute: &str,
        value: Option<&str>,
    ) {
        self.wait("it is seen", |call| {
            call.clients[client].seen(identity).is_some_and(|seen| {
                seen.name == name && seen.attributes.get(attribute).map(String::as_str) == value
            })
        });
    }
}

#[test]
fn a_client_whose_role_permits_it_changes_what_others_those_that_come_later_and_the_api_see_of_it()
{
    let mut call = stage();
    call.sees(1, "alice", "", "team", Some("blue"));
    assert_eq!(
        call.answer(0, 1, update(1, "Alice", &[("hand", "up"), ("seat", "4")])),
        Reason::Ok
    );
    call.sees(1, "alice", "Alice", "hand", Some("up"));
    let listed = call.listed("alice");
    assert_eq!(
        (&listed["name"], &listed["attributes"]["seat"]),
        (&json!("Alice"), &json!("4"))
    );
    assert_eq!(listed["attributes"]["svc.role"], json!("speaker"));
    let carol = call.enter("carol", "host");
    call.sees(carol, "alice", "Alice", "hand", Some("up"));

    call.clients[1].lose_signalling();
    assert_eq!(
        call.answer(0, 2, update(2, "", &[("hand", "")])),
        Reason::Ok
    );
    call.clients[1].resume();
    call.sees(1, "alice", "Alice", "hand", None);
    call.sees(carol, "alice", "Alice", "seat", Some("4"));
}

/// Proves S-44.
#[test]
fn what_a_role_does_not_permit_is_refused_also_after_a_change_of_role_and_so_are_attributes_of_the_server()
 {
    let mut call = stage();
    assert_eq!(call.answer(1, 1, update(1, "Bob", &[])), Reason::NotAllowed);
    assert_eq!(
        call.answer(0, 2, update(2, "", &[("svc.role", "host")])),
        Reason::NotAllowed
    );
    assert_eq!(
        call.answer(0, 3, update(3, &"n".repeat(257), &[])),
        Reason::LimitExceeded
    );
    let change = |call: &Call, identity: &str, role: &str| {
        call.app
            .post(&format!("{PARTICIPANTS}/{identity}/role"))
            .json(json!({"role": role}))
            .send()
            .expect(200);
    };
    change(&call, "alice", "host");
    change(&call, "bob", "speaker");
    assert_eq!(
        call.answer(0, 4, update(4, "Alice", &[])),
        Reason::NotAllowed
    );
    assert_eq!(call.answer(1, 5, update(5, "Bob", &[])), Reason::Ok);
    assert_eq!(
        (&call.listed("alice")["name"], &call.listed("bob")["name"]),
        (&json!(""), &json!("Bob"))
    );
    let permission = |seen: Option<&proto::ParticipantInfo>| {
        seen.unwrap()
            .permission
            .as_ref()
            .unwrap()
            .can_update_metadata
    };
    call.wait("each knows what it may", |call| {
        !permission(call.clients[0].seen("alice")) && permission(call.clients[1].seen("bob"))
    });
}
