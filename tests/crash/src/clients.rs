//! The clients: each performs random actions on its own rooms, and repeats unanswered requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::journal::{Action, Answer, Entry, Journal};
use crate::service::{Attempt, Call, Service};

/// Empty timeouts of rooms, in seconds: some rooms end on their own, some do not.
const EMPTY_TIMEOUTS: [u32; 4] = [1, 2, 7_200, 7_200];
/// Maximum rooms that a client uses; the oldest is dropped from its list.
const ROOMS: usize = 12;
/// Maximum exchanges per code.
pub const CODE_USES: u32 = 3;

/// A request that got no response or a 503. It can be repeated, because it has an idempotency key.
struct Unanswered {
    action: Action,
    path: String,
    body: Value,
    key: String,
}

/// Returns whether a client must repeat a request with this response.
fn is_unanswered(answer: Option<&Answer>) -> bool {
    answer.is_none_or(|answer| answer.status == 503)
}

/// A client: its resources, and the requests that it must repeat.
pub struct Client {
    number: u32,
    random: fastrand::Rng,
    service: Box<dyn Service>,
    journal: Arc<Journal>,
    sequence: u32,
    rooms: Vec<String>,
    codes: Vec<String>,
    participants: Vec<String>,
    unanswered: Vec<Unanswered>,
}

impl Client {
    /// Starts a client that works until `stop` is set.
    pub fn spawn(
        number: u32,
        seed: u64,
        service: impl Service + 'static,
        journal: &Arc<Journal>,
        stop: &Arc<AtomicBool>,
    ) -> JoinHandle<()> {
        let mut client = Self {
            number,
            random: fastrand::Rng::with_seed(seed),
            service: Box::new(service),
            journal: Arc::clone(journal),
            sequence: 0,
            rooms: Vec::new(),
            codes: Vec::new(),
            participants: Vec::new(),
            unanswered: Vec::new(),
        };
        let stop = Arc::clone(stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                client.connect();
                client.act();
            }
            client.connect();
            client.repeat_all();
        })
    }

    /// Waits for a server, and drops earlier participants that are gone.
    fn connect(&mut self) {
        if self.service.connect() {
            self.participants.clear();
        }
    }

    fn act(&mut self) {
        match self.random.u32(0..100) {
            0..20 => self.create_room(),
            20..25 => self.end_room(),
            25..28 => self.create_template(),
            28..34 => self.create_code(),
            34..46 => self.exchange_code(),
            46..70 => self.join(),
            70..82 => self.leave(),
            82..89 => self.publish(),
            89..94 => self.read_room(),
            _ => self.repeat_all(),
        }
    }

    fn next_name(&mut self, kind: &str) -> String {
        self.sequence += 1;
        format!("{kind}-{}-{}", self.number, self.sequence)
    }

    fn any(random: &mut fastrand::Rng, of: &[String]) -> Option<String> {
        random.choice(of).cloned()
    }

    fn write(&self, action: Action, attempt: Attempt) {
        self.journal.add(Entry::new(action, None, attempt));
    }

    /// Sends a request and records all its attempts. Returns the last response.
    fn call(&mut self, action: &Action, call: Call<'_>) -> Option<Answer> {
        let attempts = self.service.call(call);
        let answer = attempts.last().and_then(|attempt| attempt.answer.clone());
        attempts.into_iter().for_each(|attempt| {
            self.journal
                .add(Entry::new(action.clone(), call.key, attempt));
        });
        answer
    }

    /// Sends a request with an idempotency key, and keeps it for a repetition if it gets no response or a 503.
    fn create(&mut self, action: Action, path: String, body: Value) -> Option<Answer> {
        let key = self.next_name("key");
        let answer = self.call(&action, Call::new("POST", &path).body(&body).key(&key));
        if is_unanswered(answer.as_ref()) {
            self.unanswered.push(Unanswered {
                action,
                path,
                body,
                key,
            });
        }
        answer.filter(Answer::is_success)
    }

    /// Repeats the unanswered requests. Requests that stay unanswered are kept.
    fn repeat_all(&mut self) {
        for request in std::mem::take(&mut self.unanswered) {
            let Unanswered {
                action,
                path,
                body,
                key,
            } = &request;
            let answer = self.call(action, Call::new("POST", path).body(body).key(key));
            if is_unanswered(answer.as_ref()) {
                self.unanswered.push(request);
            }
        }
    }

    fn create_room(&mut self) {
        let name = self.next_name("room");
        let timeout = EMPTY_TIMEOUTS[self.random.usize(..EMPTY_TIMEOUTS.len())];
        let body = json!({"name": name, "empty_timeout_seconds": timeout});
        if self
            .create(
                Action::CreateRoom { name: name.clone() },
                "/v1/rooms".into(),
                body,
            )
            .is_some()
        {
            self.rooms.push(name);
            if self.rooms.len() > ROOMS {
                self.rooms.remove(0);
            }
        }
    }

    fn end_room(&mut self) {
        let Some(name) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        self.rooms.retain(|room| *room != name);
        let path = format!("/v1/rooms/{name}");
        self.call(&Action::EndRoom { name }, Call::new("DELETE", &path));
    }

    fn create_template(&mut self) {
        let name = self.next_name("template");
        let body = json!({"name": name, "roles": {"host": {}}});
        self.create(
            Action::CreateTemplate { name },
            "/v1/templates".into(),
            body,
        );
    }

    fn create_code(&mut self) {
        let Some(room) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let body = json!({"role": "guest", "max_uses": CODE_USES});
        let path = format!("/v1/rooms/{room}/codes");
        if let Some(created) = self.create(Action::CreateCode { room }, path, body) {
            self.codes
                .extend(created.json()["code"].as_str().map(str::to_owned));
        }
    }

    fn exchange_code(&mut self) {
        let Some(code) = Self::any(&mut self.random, &self.codes) else {
            return;
        };
        let path = format!("/v1/codes/{code}/exchange");
        self.call(
            &Action::ExchangeCode { code },
            Call::new("POST", &path).body(&json!({})),
        );
    }

    fn read_room(&mut self) {
        let Some(name) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let path = format!("/v1/rooms/{name}");
        self.call(&Action::ReadRoom { name }, Call::new("GET", &path));
    }

    fn join(&mut self) {
        let Some(room) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let identity = format!("user-{}", self.random.u32(0..4));
        let body = json!({"room": room, "identity": identity, "role": "host"});
        let action = Action::CreateToken { room: room.clone() };
        let answer = self.call(&action, Call::new("POST", "/v1/tokens").body(&body));
        let Some(token) = answer
            .filter(Answer::is_success)
            .map(|answer| answer.json())
        else {
            return;
        };
        let attempt = self.service.join(token["token"].as_str().expect("a token"));
        let joined = attempt.answer.as_ref().filter(|answer| answer.is_success());
        self.participants
            .extend(joined.and_then(|answer| answer.json()["sid"].as_str().map(str::to_owned)));
        self.write(Action::Join { room, identity }, attempt);
    }

    fn leave(&mut self) {
        let Some(sid) = Self::any(&mut self.random, &self.participants) else {
            return;
        };
        let clean = self.random.bool();
        let attempt = self.service.leave(&sid, clean);
        self.participants.retain(|participant| *participant != sid);
        self.write(Action::Leave { sid }, attempt);
    }

    fn publish(&mut self) {
        let Some(sid) = Self::any(&mut self.random, &self.participants) else {
            return;
        };
        let attempt = self.service.publish(&sid);
        self.write(Action::Publish { sid }, attempt);
    }
}
