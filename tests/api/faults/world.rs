//! An app in which every kind of actor gets every message, by calls that are repeated after an actor's failure.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use conclave_model::faults::left;
use serde_json::{Value, json};

use crate::support::{Receiver, Request, Response, TestApp, WAIT_LIMIT};
use crate::tools::default_template;

pub struct World {
    pub app: TestApp,
    pub receiver: Receiver,
    /// Delivery ids with their events.
    pub received: Vec<(String, Value)>,
}

impl World {
    pub fn new() -> Self {
        Self {
            app: TestApp::start_with_webrtc(),
            receiver: Receiver::start(),
            received: Vec::new(),
        }
    }

    /// Sends a request. The clock advances meanwhile, so that failed actors are rebuilt.
    #[track_caller]
    pub fn answer(&self, request: Request) -> Response {
        let (sender, answer) = mpsc::channel();
        std::thread::spawn(move || sender.send(request.send()));
        let started = Instant::now();
        loop {
            if let Ok(answer) = answer.recv_timeout(Duration::from_millis(50)) {
                return answer;
            }
            assert!(started.elapsed() < WAIT_LIMIT, "a call hangs");
            self.app.advance(Duration::from_millis(100));
        }
    }

    /// Repeats a request until it has one of these statuses. A failed actor causes a server error.
    #[track_caller]
    pub fn call(&self, request: Request, statuses: &[u16]) -> Response {
        for _ in 0..20 {
            let answer = self.answer(request.clone());
            if statuses.contains(&answer.status) {
                return answer;
            }
            let code = answer.json()["error"]["code"].clone();
            let is_failure = ["internal_error", "media_unavailable"]
                .map(Value::from)
                .contains(&code);
            assert!(is_failure, "{}", answer.text());
            self.app.advance(Duration::from_millis(100));
        }
        panic!("the call does not succeed");
    }

    /// Advances the clock in small steps until `holds`.
    #[track_caller]
    pub fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(
                started.elapsed() < WAIT_LIMIT,
                "waited in vain: {}",
                self.actors()
            );
            self.pass(Duration::from_millis(500));
        }
    }

    pub fn pass(&self, span: Duration) {
        self.app.advance(span);
        std::thread::park_timeout(Duration::from_millis(10));
    }

    pub fn room(&self, name: &str, empty_timeout_seconds: u32) {
        let body = json!({"name": name, "empty_timeout_seconds": empty_timeout_seconds});
        self.call(
            self.app.post("/v1/rooms").json(body).idempotency_key(name),
            &[201],
        );
    }

    pub fn join(&self, room: &str, identity: &str, role: &str) -> String {
        let body = json!({"token": self.app.token(room, identity, role)});
        let joined = self
            .call(self.app.admin("POST", "/sandbox/join").json(body), &[201])
            .json();
        joined["sid"].as_str().unwrap().to_owned()
    }

    /// Causes every message that actors get while rooms are open.
    pub fn live(&mut self) {
        let app = &self.app;
        let endpoint = json!({"url": self.receiver.url});
        let endpoint = self.call(app.post("/v1/webhook-endpoints").json(endpoint), &[201]);
        let endpoint = endpoint.json()["id"].as_str().unwrap().to_owned();
        let endpoint = format!("/ext/v1/webhook-endpoints/{endpoint}");
        self.call(
            app.patch(&endpoint).json(json!({"description": "events"})),
            &[200],
        );
        let rotation = app.post(&format!("{endpoint}/rotate-secret"));
        self.call(rotation.json(json!({"overlap_seconds": 1})), &[200]);
        // A recording that starts by itself, in this room only.
        let settings = format!("/v1/templates/{}/settings", default_template(app));
        let record = |auto_record: Value| {
            let body = json!({"region": "auto", "auto_record": auto_record});
            self.call(app.patch(&settings).json(body), &[200]);
        };
        record(json!({"type": "room_composite"}));
        self.room("sibling", 86_400);
        record(Value::Null);
        self.join("sibling", "dora", "host");
        self.room("stage", 86_400);
        self.room("idle", 60);
        let limited = json!({"name": "limited", "max_duration_seconds": 90});
        self.call(
            app.post("/v1/rooms")
                .json(limited)
                .idempotency_key("limited"),
            &[201],
        );
        self.join("limited", "frank", "");
        let alice = self.join("stage", "alice", "host");
        self.join("stage", "bob", "guest");
        let tracks = app.admin("POST", &format!("/sandbox/participants/{alice}/tracks"));
        let track = self
            .call(
                tracks.json(json!({"kind": "audio", "source": "microphone"})),
                &[201],
            )
            .json();
        self.moderate(&track["sid"]);
        self.ask_for_a_seat();
        self.follow();
        self.miss_an_answer();
        // Two reconciliation rounds, the idle room's deadline, and the limited room's notice and end.
        for _ in 0..13 {
            self.pass(Duration::from_secs(10));
        }
        self.until(|world| {
            let actors = world.actors();
            let works = |actor: &Value| {
                ["running", "hibernating"]
                    .map(Value::from)
                    .contains(&actor["status"])
            };
            actors["actors"].as_array().unwrap().iter().all(works)
        });
    }

    /// Admits a WebRTC client that never connects its media, so its seat expires.
    fn ask_for_a_seat(&self) {
        let body = json!({"room": "sibling", "identity": "erin", "role": "guest"});
        let token = self
            .call(self.app.post("/v1/tokens").json(body), &[201])
            .json();
        let api = self.app.api.replacen("http", "ws", 1);
        let url = format!(
            "{api}/rtc?access_token={}&protocol=16",
            token["token"].as_str().unwrap()
        );
        let (sender, answer) = mpsc::channel();
        std::thread::spawn(move || sender.send(tungstenite::connect(url).is_ok()));
        let started = Instant::now();
        // A room that fails during admission refuses the client.
        while answer.recv_timeout(Duration::from_millis(50)).is_err() {
            assert!(started.elapsed() < WAIT_LIMIT, "a client hangs");
            self.app.advance(Duration::from_millis(100));
        }
    }

    fn actors(&self) -> Value {
        self.app
            .admin("GET", "/debug/actors?limit=200")
            .send()
            .expect(200)
    }

    fn moderate(&self, track: &Value) {
        let app = &self.app;
        let of = |path: &str| format!("/v1/rooms/stage/{path}");
        let mute = json!({"track_sid": track, "muted": true});
        self.call(app.post(&of("participants/alice/mute")).json(mute), &[200]);
        self.call(
            app.post(&of("send-data")).json(json!({"data": "aGk="})),
            &[200],
        );
        self.call(
            app.post(&of("participants/bob/role"))
                .json(json!({"role": "host"})),
            &[200],
        );
        // The participant may have been removed although the response was lost.
        self.call(app.delete(&of("participants/bob")), &[204, 404]);
    }

    /// Starts recordings and ingress endpoints; some stay live.
    fn follow(&self) {
        let app = &self.app;
        let record = |key: &str| {
            let start = app
                .post("/v1/rooms/stage/recordings")
                .json(json!({"type": "room_composite"}));
            let started = self.call(start.idempotency_key(key), &[201]).json();
            format!("/v1/recordings/{}", started["egress_id"].as_str().unwrap())
        };
        let (first, _) = (record("first"), record("second"));
        self.pass(Duration::from_secs(1));
        self.call(app.get(&first), &[200]);
        self.call(app.post(&format!("/ext{first}/pause")), &[200]);
        self.call(app.post(&format!("{first}/stop")), &[200]);
        let create = |identity: &str| {
            let body = json!({"input_type": "rtmp", "participant_identity": identity});
            self.call(app.post("/v1/rooms/stage/ingress").json(body), &[201])
                .json()
        };
        let (first, second) = (create("camera-1"), create("camera-2"));
        for ingress in [&first, &second] {
            let key = ingress["stream_key"].as_str().unwrap();
            self.call(
                app.admin("POST", &format!("/sandbox/ingress/{key}/connect")),
                &[200],
            );
        }
        let path = format!("/v1/ingress/{}", first["ingress_id"].as_str().unwrap());
        self.call(app.get(&path), &[200]);
        self.call(app.delete(&path), &[204]);
    }

    /// Starts a recording without a response.
    fn miss_an_answer(&self) {
        let outage = |seconds: u32| {
            self.app
                .admin("POST", "/sandbox/outage")
                .json(json!({"seconds": seconds}))
        };
        self.answer(outage(600)).expect(200);
        let start = self
            .app
            .post("/v1/rooms/stage/recordings")
            .json(json!({"type": "room_composite"}));
        self.answer(start);
        self.answer(outage(0)).expect(200);
    }

    /// Ends the rooms and waits until all events are delivered.
    pub fn end(&mut self) {
        for room in ["stage", "sibling"] {
            self.call(self.app.delete(&format!("/v1/rooms/{room}")), &[204]);
        }
        self.until(|world| {
            let active = world.app.get("/v1/sessions?active=true").send().expect(200);
            // These two end by themselves, if need be after their rebuild.
            let have_ended = ["idle", "limited"].iter().all(|room| {
                let room = world.app.get(&format!("/v1/rooms/{room}")).send();
                room.json()["status"] == "ended"
            });
            have_ended
                && active["sessions"] == json!([])
                && world.app.deliveries("status=pending").is_empty()
        });
        let received = self.receiver.drain();
        self.received.extend(
            received
                .iter()
                .map(|post| (post.header("webhook-id").to_owned(), post.json())),
        );
    }

    /// Deletes the webhook endpoint.
    pub fn forget_endpoint(&self) {
        let endpoints = self.app.get("/v1/webhook-endpoints").send().expect(200);
        let id = endpoints["webhook_endpoints"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        self.call(
            self.app.delete(&format!("/v1/webhook-endpoints/{id}")),
            &[204],
        );
    }

    /// Returns whether no fault is armed.
    pub fn is_over(&self) -> bool {
        left(&self.app.project) == 0
    }
}
