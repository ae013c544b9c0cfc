//! Makes a sequence's calls to the app and to the model, and compares the results.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::reference::{CODE_LIFE, Call, Model, Room, SPEAKERS};
use crate::support::{Receiver, Response, TestApp};

/// Real time in which records that a timer changes must match the model.
const PATIENCE: Duration = Duration::from_secs(20);

/// The app, the model, and the names that the app assigned.
pub struct Driver {
    app: Option<TestApp>,
    model: Model,
    template: String,
    /// Sid by connected participant.
    sids: BTreeMap<(usize, usize), String>,
    codes: Vec<String>,
    _receiver: Receiver,
}

impl Driver {
    pub fn start() -> Self {
        let (app, receiver) = TestApp::start_with_receiver();
        let roles = json!({"host": {}, "speaker": {"max_peer_count": SPEAKERS}});
        let template = app
            .post("/v1/templates")
            .json(json!({"name": "model", "roles": roles}))
            .send()
            .expect(201);
        Self {
            app: Some(app),
            model: Model::default(),
            template: template["id"].as_str().unwrap().to_owned(),
            sids: BTreeMap::new(),
            codes: Vec::new(),
            _receiver: receiver,
        }
    }

    /// Makes all calls. Returns the first difference.
    pub fn run(mut self, calls: &[Call]) -> Result<(), String> {
        for call in calls {
            let expected = self.model.apply(call);
            let seen = self.call(call);
            if seen != (expected.status, expected.code.to_owned()) {
                return Err(format!(
                    "{call:?}: the contract demands {expected:?}, the app gave {seen:?}"
                ));
            }
            self.compare()
                .map_err(|difference| format!("after {call:?}: {difference}"))?;
        }
        Ok(())
    }

    fn app(&self) -> &TestApp {
        self.app.as_ref().unwrap()
    }

    /// Makes a call to the app. Returns the status and the error code.
    fn call(&mut self, call: &Call) -> (u16, String) {
        match *call {
            Call::CreateRoom {
                room,
                empty_timeout,
                max_participants,
            } => {
                let room = json!({
                    "name": name(room), "template_id": self.template, "empty_timeout_seconds": empty_timeout,
                    "max_participants": max_participants
                });
                outcome(&self.app().post("/v1/rooms").json(room).send())
            }
            Call::EndRoom { room } => outcome(&self.app().delete(&path(room, "")).send()),
            Call::Join { room, person, role } => self.join(room, person, role),
            Call::Leave {
                room,
                person,
                clean,
            } => self.leave(room, person, clean),
            Call::Remove { room, person } => outcome(
                &self
                    .app()
                    .delete(&path(room, &format!("/participants/{}", identity(person))))
                    .send(),
            ),
            Call::ChangeRole { room, person, role } => {
                let path = path(room, &format!("/participants/{}/role", identity(person)));
                outcome(&self.app().post(&path).json(json!({"role": role})).send())
            }
            Call::CreateCode {
                room,
                role,
                max_uses,
            } => self.create_code(room, role, max_uses),
            Call::Exchange { code, person } => {
                let path = format!("/v1/codes/{}/exchange", self.code(code));
                outcome(
                    &self
                        .app()
                        .post(&path)
                        .anonymous()
                        .json(json!({"identity": identity(person)}))
                        .send(),
                )
            }
            Call::DisableCode { code } => outcome(
                &self
                    .app()
                    .delete(&format!("/v1/codes/{}", self.code(code)))
                    .send(),
            ),
            Call::Advance { seconds } => {
                self.app().advance(Duration::from_secs(seconds.into()));
                (200, String::new())
            }
            Call::Restart => {
                self.app = self.app.take().map(TestApp::restart);
                self.sids.clear();
                (200, String::new())
            }
        }
    }

    fn join(&mut self, room: usize, person: usize, role: &str) -> (u16, String) {
        let token = json!({"room": name(room), "identity": identity(person), "role": role});
        let token = self.app().post("/v1/tokens").json(token).send();
        if token.status != 201 {
            return outcome(&token);
        }
        let joined = self
            .app()
            .join_with(token.json()["token"].as_str().unwrap());
        if joined.status == 201 {
            self.sids.insert(
                (room, person),
                joined.json()["sid"].as_str().unwrap().to_owned(),
            );
        }
        outcome(&joined)
    }

    /// Leaves. A participant that is not connected cannot leave, so its removal is compared with the refusal in the model.
    fn leave(&mut self, room: usize, person: usize, clean: bool) -> (u16, String) {
        match self.sids.remove(&(room, person)) {
            Some(sid) => outcome(&self.app().act(&sid, "leave", json!({"clean": clean}))),
            None => outcome(
                &self
                    .app()
                    .delete(&path(room, &format!("/participants/{}", identity(person))))
                    .send(),
            ),
        }
    }

    fn create_code(&mut self, room: usize, role: &str, max_uses: Option<u32>) -> (u16, String) {
        let code = json!({"role": role, "max_uses": max_uses, "ttl_seconds": CODE_LIFE});
        let created = self.app().post(&path(room, "/codes")).json(code).send();
        if created.status == 201 {
            self.codes
                .push(created.json()["code"].as_str().unwrap().to_owned());
        }
        outcome(&created)
    }

    fn code(&self, code: usize) -> String {
        self.codes
            .get(code)
            .cloned()
            .unwrap_or_else(|| "aaaa-bbbb-cccc".into())
    }

    /// Compares all records. Records that a timer changes may need a moment.
    fn compare(&mut self) -> Result<(), String> {
        let model = &self.model;
        self.sids
            .retain(|(room, person), _| model.is_connected(*room, *person));
        let started = Instant::now();
        loop {
            match self.difference() {
                None => return Ok(()),
                Some(difference) if started.elapsed() > PATIENCE => return Err(difference),
                Some(_) => std::thread::park_timeout(Duration::from_millis(5)),
            }
        }
    }

    fn difference(&self) -> Option<String> {
        let pairs = [
            ("rooms", self.rooms(), self.expected_rooms()),
            (
                "open rooms of the plan",
                self.active_rooms(),
                json!(self.model.open_rooms()),
            ),
            (
                "sessions",
                self.sessions(""),
                self.expected_sessions(|_| true),
            ),
            (
                "open sessions",
                self.sessions("active=true"),
                self.expected_sessions(|open| open),
            ),
            (
                "closed sessions",
                self.sessions("active=false"),
                self.expected_sessions(|open| !open),
            ),
            ("codes", self.codes_of_rooms(), self.expected_codes()),
            ("events", self.events(), self.expected_events()),
        ];
        let different = pairs
            .into_iter()
            .find(|(_, seen, expected)| seen != expected);
        different.map(|(what, seen, expected)| {
            format!("{what}: the model has {expected}, the app {seen}")
        })
    }

    /// Returns the rooms, newest first: the name, whether it is open, whether it has started.
    fn rooms(&self) -> Value {
        let rooms = self.app().get("/v1/rooms").send().expect(200);
        let row = |room: &Value| {
            json!([
                room["name"],
                room["status"] == "open",
                room.get("started_at").is_some()
            ])
        };
        rooms["rooms"].as_array().unwrap().iter().map(row).collect()
    }

    fn expected_rooms(&self) -> Value {
        self.model
            .rooms
            .iter()
            .rev()
            .map(|room| json!([name(room.name), room.open, room.started]))
            .collect()
    }

    fn active_rooms(&self) -> Value {
        self.app().get("/v1/plan").send().expect(200)["active_rooms"].clone()
    }

    /// Returns the sessions, newest first: the room, the identity, the role, whether it is open.
    fn sessions(&self, query: &str) -> Value {
        let sessions = self
            .app()
            .get(&format!("/v1/sessions?limit=200&{query}"))
            .send()
            .expect(200);
        let row = |session: &Value| {
            let open = session.get("left_at").is_none();
            json!([
                session["room"],
                session["participant_identity"],
                session["role"],
                open
            ])
        };
        sessions["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(row)
            .collect()
    }

    fn expected_sessions(&self, wanted: impl Fn(bool) -> bool) -> Value {
        let wanted = self
            .model
            .sessions
            .iter()
            .rev()
            .filter(|session| wanted(session.open));
        wanted
            .map(|s| json!([name(s.room), identity(s.person), s.role, s.open]))
            .collect()
    }

    /// Returns the codes by room, newest first: the uses, and whether the code is disabled.
    fn codes_of_rooms(&self) -> Value {
        let of_room = |room: &Room| -> Value {
            let codes = self
                .app()
                .get(&path(room.name, "/codes"))
                .send()
                .expect(200);
            codes["codes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|code| json!([code["uses"], code["disabled"]]))
                .collect()
        };
        self.model.rooms.iter().map(of_room).collect()
    }

    fn expected_codes(&self) -> Value {
        let of_room = |room: &Room| -> Value {
            let codes = self
                .model
                .codes
                .iter()
                .rev()
                .filter(|code| code.room == room.name);
            codes
                .map(|code| json!([code.uses, code.disabled]))
                .collect()
        };
        self.model.rooms.iter().map(of_room).collect()
    }

    /// Returns the events by room, oldest first: the event type and its participant.
    fn events(&self) -> Value {
        let mut rooms: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for delivery in self.app().deliveries("").iter().rev() {
            let event = &delivery["payload"];
            let row = json!([event["type"], event["participant_identity"]]);
            rooms
                .entry(event["room"].as_str().unwrap().to_owned())
                .or_default()
                .push(row);
        }
        json!(rooms)
    }

    fn expected_events(&self) -> Value {
        let with_events = self
            .model
            .rooms
            .iter()
            .filter(|room| !room.events.is_empty());
        let rows = with_events.map(|room| {
            let rows: Vec<Value> = room
                .events
                .iter()
                .map(|(kind, person)| json!([kind, person.map(identity)]))
                .collect();
            (name(room.name), rows)
        });
        json!(rows.collect::<BTreeMap<_, _>>())
    }
}

fn outcome(response: &Response) -> (u16, String) {
    let error = if response.status < 400 {
        Value::Null
    } else {
        response.json()["error"]["code"].clone()
    };
    (
        response.status,
        error.as_str().unwrap_or_default().to_owned(),
    )
}

fn name(room: usize) -> String {
    format!("room-{room}")
}

fn identity(person: usize) -> String {
    format!("person-{person}")
}

fn path(room: usize, rest: &str) -> String {
    format!("/v1/rooms/{}{rest}", name(room))
}
