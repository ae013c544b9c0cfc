//! The clients: each performs random actions on its own rooms, and repeats unanswered requests.

mod endpoint;
mod moderator;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::json;

pub use endpoint::{EndpointOwner, changed_url};
use moderator::Moderator;
pub use moderator::REASON;
use requests::Requests;

use crate::journal::{Action, Journal};
use crate::service::{Call, Service};

/// Empty timeouts of rooms, in seconds: some rooms end on their own, some do not.
const EMPTY_TIMEOUTS: [u32; 4] = [1, 2, 7_200, 7_200];
/// Maximum durations of rooms, in seconds, which no run reaches; 0 is unlimited.
const MAX_DURATIONS: [u32; 3] = [0, 43_200, 604_800];
/// Maximum rooms that a client uses; the oldest is dropped from its list.
const ROOMS: usize = 12;
/// Maximum exchanges per code.
pub const CODE_USES: u32 = 3;

/// A room code that the client has created.
#[derive(Clone)]
struct Code {
    id: String,
    room: String,
    code: String,
}

/// A client and its resources.
pub struct Client {
    random: fastrand::Rng,
    requests: Requests,
    rooms: Vec<String>,
    codes: Vec<Code>,
    participants: Vec<String>,
    moderator: Moderator,
    /// The webhook endpoint that only this client changes.
    endpoint: Option<EndpointOwner>,
}

impl Client {
    /// Starts a client that works until `stop` is set.
    pub fn spawn(
        number: u32,
        seed: u64,
        service: impl Service + 'static,
        endpoint: Option<EndpointOwner>,
        journal: &Arc<Journal>,
        stop: &Arc<AtomicBool>,
    ) -> JoinHandle<()> {
        let mut client = Self {
            random: fastrand::Rng::with_seed(seed),
            requests: Requests::new(number, service, journal),
            rooms: Vec::new(),
            codes: Vec::new(),
            participants: Vec::new(),
            moderator: Moderator::default(),
            endpoint,
        };
        let stop = Arc::clone(stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                client.connect();
                client.act();
            }
            client.connect();
            client.requests.repeat_all();
        })
    }

    /// Waits for a server, and drops earlier participants that are gone.
    fn connect(&mut self) {
        if self.requests.connect() {
            self.participants.clear();
        }
    }

    fn act(&mut self) {
        let (random, requests) = (&mut self.random, &mut self.requests);
        match random.u32(0..130) {
            0..20 => self.create_room(),
            20..25 => self.end_room(),
            25..28 => self.create_template(),
            28..34 => self.create_code(),
            34..46 => self.exchange_code(),
            46..70 => self.join(),
            70..82 => self.leave(),
            82..89 => self.publish(),
            89..94 => self.read_room(),
            94..97 => self.disable_code(),
            97..101 => self.read_events(),
            101..122 => self.moderator.act(random, requests, &self.rooms),
            122..125 => {
                if let Some(endpoint) = &mut self.endpoint {
                    endpoint.act(random, requests);
                }
            }
            _ => requests.repeat_all(),
        }
    }

    fn any<T: Clone>(random: &mut fastrand::Rng, of: &[T]) -> Option<T> {
        random.choice(of).cloned()
    }

    fn create_room(&mut self) {
        let name = self.requests.next_name("room");
        let timeout = EMPTY_TIMEOUTS[self.random.usize(..EMPTY_TIMEOUTS.len())];
        let maximum = MAX_DURATIONS[self.random.usize(..MAX_DURATIONS.len())];
        let body = json!({"name": name, "empty_timeout_seconds": timeout, "max_duration_seconds": maximum});
        let action = Action::CreateRoom { name: name.clone() };
        let created = self.requests.create(action, "/v1/rooms".into(), body);
        if created.is_some() {
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
        self.requests
            .call(&Action::EndRoom { name }, Call::new("DELETE", &path));
    }

    fn create_template(&mut self) {
        let name = self.requests.next_name("template");
        let settings = json!({
            "max_duration_seconds": MAX_DURATIONS[self.random.usize(..MAX_DURATIONS.len())],
            "auto_record": {"type": "room_composite", "layout": "grid"}
        });
        let body = json!({"name": name, "roles": {"host": {}}, "settings": settings});
        let action = Action::CreateTemplate { name };
        self.requests.create(action, "/v1/templates".into(), body);
    }

    fn create_code(&mut self) {
        let Some(room) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let body = json!({"role": "guest", "max_uses": CODE_USES});
        let path = format!("/v1/rooms/{room}/codes");
        let action = Action::CreateCode { room: room.clone() };
        if let Some(created) = self.requests.create(action, path, body) {
            let created = created.json();
            let text = |field: &str| created[field].as_str().expect("a text").to_owned();
            self.codes.push(Code {
                id: text("id"),
                room,
                code: text("code"),
            });
        }
    }

    fn exchange_code(&mut self) {
        let Some(Code { code, .. }) = Self::any(&mut self.random, &self.codes) else {
            return;
        };
        let path = format!("/v1/codes/{code}/exchange");
        self.requests.call(
            &Action::ExchangeCode { code },
            Call::new("POST", &path).body(&json!({})),
        );
    }

    /// Disables a code by its id. The client keeps it, since later exchanges must be refused.
    fn disable_code(&mut self) {
        let Some(Code { id, room, code }) = Self::any(&mut self.random, &self.codes) else {
            return;
        };
        let path = format!("/ext/v1/rooms/{room}/codes/{id}");
        self.requests
            .call(&Action::DisableCode { code }, Call::new("DELETE", &path));
    }

    fn read_room(&mut self) {
        let Some(name) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let path = format!("/v1/rooms/{name}");
        self.requests
            .call(&Action::ReadRoom { name }, Call::new("GET", &path));
    }

    fn read_events(&mut self) {
        let Some(room) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let path = format!("/ext/v1/events?after=0&limit=200&room={room}");
        self.requests
            .call(&Action::ReadEvents { room }, Call::new("GET", &path));
    }

    fn join(&mut self) {
        let Some(room) = Self::any(&mut self.random, &self.rooms) else {
            return;
        };
        let identity = format!("user-{}", self.random.u32(0..4));
        let Some(token) = self.requests.create_token(&room, &identity) else {
            return;
        };
        let joined = self.requests.join(Action::Join { room, identity }, &token);
        self.participants.extend(joined);
    }

    fn leave(&mut self) {
        let Some(sid) = Self::any(&mut self.random, &self.participants) else {
            return;
        };
        let clean = self.random.bool();
        self.participants.retain(|participant| *participant != sid);
        self.requests.leave(sid, clean);
    }

    fn publish(&mut self) {
        let Some(sid) = Self::any(&mut self.random, &self.participants) else {
            return;
        };
        self.requests.publish(sid);
    }
}
