//! Every event type with its exact fields, as described at `/openapi.json`, compared with events at a receiver. The event bytes are
//! compared with `tests/data/events.jsonl`. A type that the scenario does not produce fails.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::event::EventType;
use serde_json::{Value, json};

use crate::console::Browser;
use crate::snapshot;
use crate::support::{Received, Receiver, TestApp};
use crate::tools::{conclave, fields};

/// Event bodies from the scenario.
const RECORDED: &str = "tests/data/events.jsonl";

/// Condition under which an optional field is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    /// The participant holds a role.
    RoleHeld,
    /// The participant held a role before this one.
    RoleHeldBefore,
    /// A room token made the change.
    ByRoomToken,
    /// An API key made the change.
    ByKey,
    /// The participant publishes exactly one track, which is therefore the track over the limit.
    OneTrack,
}

/// Condition by optional field.
const CONDITIONS: [(&str, When); 5] = [
    ("role", When::RoleHeld),
    ("previous_role", When::RoleHeldBefore),
    ("changed_by_identity", When::ByRoomToken),
    ("changed_by_api_key_prefix", When::ByKey),
    ("track_sid", When::OneTrack),
];

/// Conditions that hold for every event of a type: a role change sets a role, and only a role has a bitrate limit.
const ALWAYS: [(EventType, When); 3] = [
    (EventType::ParticipantRoleChanged, When::RoleHeld),
    (EventType::ParticipantPublishLimitExceeded, When::RoleHeld),
    (EventType::ParticipantPublishLimitCleared, When::RoleHeld),
];

/// Fields with random values.
const GENERATED: [&str; 6] = [
    "project_id",
    "participant_sid",
    "track_sid",
    "egress_id",
    "ingress_id",
    "changed_by_api_key_prefix",
];

/// An event's fields in the description.
struct Shape {
    event: EventType,
    always: Vec<String>,
    /// Optional fields with their conditions.
    sometimes: Vec<(String, When)>,
}

impl Shape {
    fn of(event: EventType, document: &Value) -> Self {
        let name = event.as_str();
        let body =
            &document["webhooks"][name]["post"]["requestBody"]["content"]["application/json"];
        let required = body["schema"]["required"].as_array().unwrap();
        let mut shape = Self {
            event,
            always: Vec::new(),
            sometimes: Vec::new(),
        };
        for field in fields(&body["schema"]["properties"]) {
            if required.contains(&field.into()) {
                shape.always.push(field.to_owned());
                continue;
            }
            let (_, when) = CONDITIONS
                .into_iter()
                .find(|(optional, _)| *optional == field)
                .unwrap_or_else(|| panic!("the condition of {name}.{field} is not in CONDITIONS"));
            if ALWAYS.contains(&(event, when)) {
                shape.always.push(field.to_owned());
            } else {
                shape.sometimes.push((field.to_owned(), when));
            }
        }
        shape
    }
}

/// The received events.
#[derive(Default)]
struct Scenario {
    /// Each with its type and the conditions that held.
    events: Vec<(EventType, Vec<When>, Value)>,
    /// Body of each event, including the test event, as received.
    bodies: Vec<String>,
}

impl Scenario {
    /// Records the next events in order, each with the conditions that hold for it.
    #[track_caller]
    fn record(&mut self, app: &TestApp, receiver: &Receiver, expected: &[(EventType, &[When])]) {
        let events = self.received(app, receiver);
        let types: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            types,
            expected
                .iter()
                .map(|(event, _)| event.as_str())
                .collect::<Vec<_>>()
        );
        for ((event_type, when), event) in expected.iter().zip(events) {
            self.events.push((*event_type, when.to_vec(), event));
        }
    }

    /// Delivers all events, stores their bodies and returns them.
    #[track_caller]
    fn received(&mut self, app: &TestApp, receiver: &Receiver) -> Vec<Value> {
        app.deliver();
        let requests = receiver.drain();
        let bodies = requests
            .iter()
            .map(|request| String::from_utf8(request.body.clone()).unwrap());
        self.bodies.extend(bodies);
        requests.iter().map(Received::json).collect()
    }

    /// Records the events of a participant without a role and of a host: joins, tracks, leaves and lost connections.
    fn participants(&mut self, app: &TestApp, receiver: &Receiver) {
        use EventType as E;
        app.room("participants");
        let mut started: Option<(EventType, &[When])> = Some((E::RoomStarted, &[]));
        for (role, when) in [("", &[] as &[When]), ("host", &[When::RoleHeld])] {
            for (clean, gone) in [
                (true, E::ParticipantLeft),
                (false, E::ParticipantConnectionAborted),
            ] {
                let ann = app.join("participants", "ann", role);
                let track = app.publish(&ann, "audio", "microphone");
                app.unpublish(&ann, &track);
                app.leave(&ann, clean);
                let life = [
                    E::ParticipantJoined,
                    E::TrackPublished,
                    E::TrackUnpublished,
                    gone,
                ];
                let expected: Vec<_> = started
                    .take()
                    .into_iter()
                    .chain(life.map(|event| (event, when)))
                    .collect();
                self.record(app, receiver, &expected);
            }
        }
        app.delete("/v1/rooms/participants")
            .send()
            .expect_empty(204);
        self.record(app, receiver, &[(E::RoomFinished, &[])]);
    }

    /// Records role changes by key and by room token, with and without a previous role.
    fn role_changes(&mut self, app: &TestApp, receiver: &Receiver) {
        app.room("roles");
        app.join("roles", "ann", "");
        app.join("roles", "bob", "guest");
        app.events(receiver);
        let give = |identity: &str, role: &str, token: Option<&str>| {
            let call = app
                .post(&format!("/v1/rooms/roles/participants/{identity}/role"))
                .json(json!({"role": role}));
            let call = match token {
                Some(token) => call.anonymous().header("x-svc-room-token", token),
                None => call,
            };
            call.send().expect(200);
        };
        give("ann", "host", None);
        give("bob", "host", None);
        let by = app.token("roles", "bob", "host");
        give("ann", "guest", Some(&by));
        app.join("roles", "cyd", "");
        give("cyd", "guest", Some(&by));
        let changed = EventType::ParticipantRoleChanged;
        self.record(
            app,
            receiver,
            &[
                (changed, &[When::ByKey]),
                (changed, &[When::ByKey, When::RoleHeldBefore]),
                (changed, &[When::ByRoomToken, When::RoleHeldBefore]),
                (EventType::ParticipantJoined, &[]),
                (changed, &[When::ByRoomToken]),
            ],
        );
    }

    /// Records a bitrate limit that is exceeded and met again, with one track and with two.
    fn limits(&mut self, app: &TestApp, receiver: &Receiver) {
        app.room_with_roles(
            "limits",
            &json!({"speaker": {"publish": {"max_kbps": 500}}}),
        );
        let ann = app.join("limits", "ann", "speaker");
        app.publish(&ann, "video", "camera");
        self.exceed_and_clear(app, receiver, &ann, &[When::OneTrack]);
        app.publish(&ann, "audio", "microphone");
        self.exceed_and_clear(app, receiver, &ann, &[]);
    }

    fn exceed_and_clear(&mut self, app: &TestApp, receiver: &Receiver, sid: &str, when: &[When]) {
        app.events(receiver);
        let (exceeded, cleared) = (
            EventType::ParticipantPublishLimitExceeded,
            EventType::ParticipantPublishLimitCleared,
        );
        for (event, kbps) in [(exceeded, 640), (cleared, 400)] {
            let before = app
                .deliveries(&format!("event_type={}", event.as_str()))
                .len();
            app.act(sid, "bitrate", json!({"kbps": kbps})).expect(200);
            app.advance(Duration::from_secs(5));
            app.wait_for_event(event.as_str(), before + 1);
            self.record(app, receiver, &[(event, when)]);
        }
    }

    /// Recordings and broadcasts, completed and failed.
    fn egresses(&mut self, app: &TestApp, receiver: &Receiver) {
        use EventType as E;
        app.room("egresses");
        let recordings = [
            E::RecordingStarted,
            E::RecordingUpdated,
            E::RecordingEnded,
            E::RecordingFailed,
        ];
        let broadcasts = [
            E::BroadcastStarted,
            E::BroadcastUpdated,
            E::BroadcastEnded,
            E::BroadcastFailed,
        ];
        for (path, body, [started, updated, ended, failed]) in [
            ("recordings", json!({"type": "room_composite"}), recordings),
            (
                "broadcasts",
                json!({"urls": ["rtmp://8.8.8.8/live/key"]}),
                broadcasts,
            ),
        ] {
            for (status, last) in [("complete", ended), ("failed", failed)] {
                let started_egress = app
                    .post(&format!("/v1/rooms/egresses/{path}"))
                    .json(body.clone())
                    .send()
                    .expect(201);
                let egress = started_egress["egress_id"].as_str().unwrap();
                app.drive(egress, json!({"status": "active"}));
                app.drive(egress, json!({"status": status}));
                self.record(
                    app,
                    receiver,
                    &[(started, &[]), (updated, &[]), (last, &[])],
                );
            }
        }
    }

    /// Records an encoder that connects and disconnects.
    fn encoder(&mut self, app: &TestApp, receiver: &Receiver) {
        use EventType as E;
        app.room("encoder");
        let body = json!({"input_type": "rtmp", "participant_identity": "camera"});
        let made = app
            .post("/v1/rooms/encoder/ingress")
            .json(body)
            .send()
            .expect(201);
        let key = made["stream_key"].as_str().unwrap();
        app.admin("POST", &format!("/sandbox/ingress/{key}/connect"))
            .send()
            .expect(200);
        let up = [
            E::RoomStarted,
            E::ParticipantJoined,
            E::TrackPublished,
            E::TrackPublished,
            E::IngressStarted,
        ];
        self.record(app, receiver, &up.map(|event| (event, &[] as &[When])));
        app.admin("POST", &format!("/sandbox/ingress/{key}/disconnect"))
            .send()
            .expect(200);
        let down = [
            E::TrackUnpublished,
            E::TrackUnpublished,
            E::ParticipantLeft,
            E::IngressEnded,
        ];
        self.record(app, receiver, &down.map(|event| (event, &[] as &[When])));
    }

    /// Records the event that the console's endpoint test sends.
    fn test_event(&mut self, app: &TestApp, receiver: &Receiver, endpoint: &Value) {
        let id = endpoint["id"].as_str().unwrap();
        Browser::new(app).act(
            &format!("/projects/{}/webhooks/{id}/test", app.project),
            &[],
        );
        let events = self.received(app, receiver);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(fields(&events[0]), ["occurred_at", "project_id", "type"]);
        assert_eq!(events[0]["type"], "webhook.test");
    }

    fn whole() -> Self {
        let (app, receiver) = (TestApp::start(), Receiver::start());
        let endpoint = app.endpoint(&receiver.url);
        let mut scenario = Self::default();
        scenario.participants(&app, &receiver);
        scenario.role_changes(&app, &receiver);
        scenario.limits(&app, &receiver);
        scenario.egresses(&app, &receiver);
        scenario.encoder(&app, &receiver);
        scenario.test_event(&app, &receiver, &endpoint);
        scenario
    }

    /// Returns the bodies, one per line, with numbers in place of the ids that differ from run to run.
    fn recorded(&self) -> String {
        let mut ids: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut lines = String::new();
        for body in &self.bodies {
            let event: Value = serde_json::from_str(body).unwrap();
            let mut line = body.clone();
            for field in GENERATED {
                let Some(id) = event[field].as_str() else {
                    continue;
                };
                let known = ids.entry(field).or_default();
                let number = known
                    .iter()
                    .position(|other| other == id)
                    .unwrap_or_else(|| {
                        known.push(id.to_owned());
                        known.len() - 1
                    });
                line = line.replace(id, &format!("{field} {}", number + 1));
            }
            lines += &line;
            lines.push('\n');
        }
        lines
    }
}

#[test]
fn the_body_of_every_event_is_byte_for_byte_the_recorded_one() {
    snapshot::check(RECORDED, &Scenario::whole().recorded());
}

#[test]
fn every_event_has_exactly_the_fields_of_its_description() {
    let scenario = Scenario::whole();
    let document = conclave(&TestApp::start(), &["openapi"]);
    for event_type in EventType::ALL {
        let shape = Shape::of(*event_type, &document);
        let name = shape.event.as_str();
        let mut seen: BTreeMap<When, (bool, bool)> = BTreeMap::new();
        let received: Vec<_> = scenario
            .events
            .iter()
            .filter(|(event, ..)| *event == shape.event)
            .collect();
        assert!(!received.is_empty(), "the scenario has no {name}");
        for (_, when, event) in received {
            let depending = shape
                .sometimes
                .iter()
                .filter(|(_, on)| when.contains(on))
                .map(|(field, _)| field);
            let mut expected: Vec<_> = shape.always.iter().chain(depending).collect();
            expected.sort_unstable();
            assert_eq!(fields(event), expected, "{name} when {when:?}");
            for (_, on) in &shape.sometimes {
                let (with, without) = seen.entry(*on).or_default();
                *(if when.contains(on) { with } else { without }) = true;
            }
        }
        for (on, (with, without)) in seen {
            assert!(
                with && without,
                "the scenario has {name} when {on:?}, and when not"
            );
        }
    }
}
