//! Rooms with their own roles, participants' actions through the sandbox, and the resulting events.

use serde_json::{Value, json};

use super::{Receiver, Response, TestApp};

/// Returns the fields of a participant event, plus the fields of an unmuted microphone track.
pub fn with_microphone(participant: &Value, track_sid: &str) -> Value {
    let mut fields = participant.clone();
    fields["track_sid"] = json!(track_sid);
    fields["track_kind"] = json!("audio");
    fields["track_source"] = json!("microphone");
    fields["track_muted"] = json!(false);
    fields
}

impl TestApp {
    /// Creates a room whose template has exactly these roles.
    #[track_caller]
    pub fn room_with_roles(&self, name: &str, roles: &Value) -> Value {
        self.room_like(&json!({"name": name}), roles)
    }

    /// Like [`Self::room_with_roles`], with additional room settings.
    #[track_caller]
    pub fn room_like(&self, room: &Value, roles: &Value) -> Value {
        let template = json!({"name": room["name"], "roles": roles});
        let template = self.post("/v1/templates").json(template).send().expect(201);
        let mut room = room.clone();
        room["template_id"] = template["id"].clone();
        self.post("/v1/rooms").json(room).send().expect(201)
    }

    /// Tries to join with a token.
    #[track_caller]
    pub fn join_with(&self, token: &str) -> Response {
        self.admin("POST", "/sandbox/join")
            .json(json!({"token": token}))
            .send()
    }

    /// Performs a participant's action through the sandbox.
    #[track_caller]
    pub fn act(&self, sid: &str, what: &str, body: Value) -> Response {
        self.admin("POST", &format!("/sandbox/participants/{sid}/{what}"))
            .json(body)
            .send()
    }

    #[track_caller]
    pub fn unpublish(&self, sid: &str, track: &str) {
        self.admin(
            "DELETE",
            &format!("/sandbox/participants/{sid}/tracks/{track}"),
        )
        .send()
        .expect_empty(204);
    }

    /// Sets a recording's or a broadcast's status.
    #[track_caller]
    pub fn drive(&self, egress: &str, body: Value) -> Value {
        self.admin("POST", &format!("/sandbox/egress/{egress}"))
            .json(body)
            .send()
            .expect(200)
    }

    /// Returns a participant's client state.
    #[track_caller]
    pub fn view(&self, sid: &str) -> Value {
        self.admin("GET", &format!("/sandbox/participants/{sid}"))
            .send()
            .expect(200)
    }

    /// Returns the tracks that a participant may receive.
    #[track_caller]
    pub fn subscriptions(&self, sid: &str) -> Vec<String> {
        let view = self.view(sid);
        view["subscriptions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|track| track.as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the expected event: the four common fields, at the current time, and `more`.
    pub fn event(&self, event_type: &str, room: &str, more: &Value) -> Value {
        let mut event = json!({"type": event_type, "project_id": self.project, "room": room, "occurred_at": self.now()});
        for (field, value) in more.as_object().unwrap() {
            event[field] = value.clone();
        }
        event
    }

    /// Delivers all events and returns the receiver's events since the last call.
    #[track_caller]
    pub fn events(&self, receiver: &Receiver) -> Vec<Value> {
        self.deliver();
        receiver.drain().iter().map(super::Received::json).collect()
    }

    /// Returns the types of [`TestApp::events`].
    #[track_caller]
    pub fn event_types(&self, receiver: &Receiver) -> Vec<String> {
        self.events(receiver)
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }
}
