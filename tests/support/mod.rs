//! The test harness: the app on free ports, a clock that the test advances, an HTTP client, and a webhook receiver.
//!
//! ```text
//! let app = TestApp::start();
//! app.post("/v1/rooms").json(json!({"name": "a"})).send().expect(201);
//! app.advance(Duration::from_secs(300));
//! eventually(|| app.get("/v1/rooms/a").send().json()["status"] == "ended");
//! ```

// Each test binary uses another part of the harness.
#![allow(dead_code, unused_imports)]

mod billing;
mod client;
mod deliveries;
mod hanging;
mod receiver;
mod records;
mod sandbox;
pub mod tls;
mod watcher;

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use conclave::config::{Config, Mode, PortRange, SettingOrigins};
use conclave::runtime::run_in_system;
use conclave::server::{Server, ServerOptions};
use conclave_model::{Clock, Secret, Timestamp};
use serde_json::{Value, json};
use test_postgres::Records;
use tokio::sync::oneshot;

pub use billing::FakeBilling;
pub use client::{Request, Response};
pub use hanging::Hanging;
pub use receiver::{Received, Receiver};
pub use records::create_schema;
pub use sandbox::with_microphone;
pub use watcher::{Watched, Watcher};

/// File name of the records in the data directory.
const DATABASE: &str = "conclave.db";

/// Start time of every test's clock.
pub const START: &str = "2026-03-01T12:00:00Z";

/// The PostgreSQL sessions for writes, and for reads: few, since each is a process.
const SESSIONS: (usize, usize) = (2, 4);

/// Real time for which a test waits for a state. Far longer than needed on a busy machine.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Step of [`TestApp::advance_until`].
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Real time for which [`TestApp::step_until`] waits after each step.
const STEP_WAIT: Duration = Duration::from_secs(10);

/// A timeout beyond any test: a test that depends on it fails at [`WAIT_LIMIT`].
pub const NEVER: Duration = Duration::from_secs(600);

/// A running app.
pub struct TestApp {
    pub api: String,
    pub admin: String,
    /// RTMP address, if RTMP is enabled.
    pub rtmp: Option<SocketAddr>,
    /// The listener that redirects to `https`, if there is one.
    pub redirect: Option<SocketAddr>,
    pub key: String,
    pub project: String,
    pub clock: Clock,
    config: Config,
    data: Option<tempfile::TempDir>,
    records: Arc<Records>,
    running: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Addresses and credentials of a started app.
struct Ready {
    api: String,
    admin: String,
    rtmp: Option<SocketAddr>,
    redirect: Option<SocketAddr>,
    key: String,
    project: String,
}

impl TestApp {
    /// Starts the app as `conclave dev` does, with rate limits that only tests of the limits reach.
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// Like [`Self::start`], with a webhook receiver for all events.
    pub fn start_with_receiver() -> (Self, Receiver) {
        let (app, receiver) = (Self::start(), Receiver::start());
        app.endpoint(&receiver.url);
        (app, receiver)
    }

    /// Like [`Self::start`], with changed settings.
    pub fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_at(START.parse::<Timestamp>().unwrap(), change)
    }

    /// Like [`Self::start`], with media workers at the loopback address, so that WebRTC clients can connect.
    pub fn start_with_webrtc() -> Self {
        Self::start_with_webrtc_and(|_| {})
    }

    /// Like [`Self::start_with_webrtc`], with changed settings.
    pub fn start_with_webrtc_and(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(|config| {
            config.media.rtc.enabled = true;
            config.media.rtc.addresses = vec!["127.0.0.1".parse().unwrap()];
            config.media.rtc.udp_ports = Some(PortRange(0..=0));
            config.media.rtc.workers = 1;
            // The same on machines with ffmpeg and without.
            config.egress.ffmpeg = "/nowhere/ffmpeg".into();
            change(config);
        })
    }

    /// Like [`Self::start_with`], at another time.
    pub fn start_at(time: Timestamp, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_by(Clock::manual(time), change)
    }

    /// Like [`Self::start_with`], with a clock that others use as well.
    pub fn start_by(clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::defaults(Mode::Dev);
        config.http.listen.set_port(0);
        config.admin.listen.set_port(0);
        config.http.workers = 1;
        // The signalling tests start media workers.
        config.media.rtc.enabled = false;
        config.media.rtmp_listen = None;
        config.limits.requests_per_second = 100_000;
        config.limits.burst = 100_000;
        config.limits.exchange_per_second = 100_000;
        config.limits.exchange_burst = 100_000;
        let data = tempfile::tempdir().unwrap();
        let records = Arc::new(Records::create(data.path().join(DATABASE), create_schema));
        config.database.url = records.url().map(Secret::new);
        (config.database.lanes, config.database.readers) = SESSIONS;
        change(&mut config);
        Self::boot(config, clock, data, records)
    }

    fn boot(config: Config, clock: Clock, data: tempfile::TempDir, records: Arc<Records>) -> Self {
        let options = ServerOptions {
            config: config.clone(),
            origins: SettingOrigins::default(),
            mode: Mode::Dev,
            data: data.path().into(),
            clock: clock.clone(),
        };
        let (sender, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || serve(options, &sender, stopped));
        let ready: Ready = started.recv_timeout(WAIT_LIMIT).expect("the app starts");
        Self {
            api: ready.api,
            admin: ready.admin,
            rtmp: ready.rtmp,
            redirect: ready.redirect,
            key: ready.key,
            project: ready.project,
            clock,
            config,
            data: Some(data),
            records,
            running: Some(Running { stop, thread }),
        }
    }

    /// Stops the app and starts it again on the same data and the same clock. It has a new API key.
    pub fn restart(self) -> Self {
        self.restart_after(Duration::ZERO)
    }

    /// Like [`Self::restart`], with the clock advanced while the app is stopped.
    pub fn restart_after(mut self, downtime: Duration) -> Self {
        self.halt();
        self.clock.advance(downtime);
        let records = Arc::clone(&self.records);
        Self::boot(
            self.config.clone(),
            self.clock.clone(),
            self.data.take().unwrap(),
            records,
        )
    }

    /// Starts the app on the current state of the disk, as after a crash, with the clock advanced while it was down.
    pub fn crash_for(mut self, downtime: Duration) -> Self {
        let disk = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(self.data()).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), disk.path().join(file.file_name())).unwrap();
            }
        }
        let records = Arc::new(self.records.copy(disk.path().join(DATABASE)));
        self.halt();
        self.clock.advance(downtime);
        self.config.database.url = records.url().map(Secret::new);
        Self::boot(self.config.clone(), self.clock.clone(), disk, records)
    }

    /// Restarts with changed settings.
    pub fn restart_with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self.restart()
    }

    /// Waits until the app has ended on its own, as a process that its supervisor would now restart.
    #[track_caller]
    pub fn wait_for_end(&self) {
        eventually(|| {
            self.running
                .as_ref()
                .is_none_or(|running| running.thread.is_finished())
        });
    }

    /// Returns the port of the API listener.
    pub fn port(&self) -> u16 {
        self.api.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Returns the data directory.
    pub fn data(&self) -> &std::path::Path {
        self.data.as_ref().unwrap().path()
    }

    fn halt(&mut self) {
        if let Some(Running { stop, thread }) = self.running.take() {
            let _ = stop.send(());
            let stopped = thread.join();
            if !std::thread::panicking() {
                stopped.expect("the app stops well");
            }
        }
    }

    /// Waits until this server accepts no connections, because it has started to stop. Not for the thread that stops it.
    pub fn stop_begins(api: &str) {
        eventually(|| TcpStream::connect(api.trim_start_matches("http://")).is_err());
    }

    /// Advances the clock.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Advances the clock in small steps until `holds`, by at most `limit`. On a busy machine the clock then stands and the server follows.
    #[track_caller]
    pub fn advance_until(&self, limit: Duration, mut holds: impl FnMut() -> bool) {
        let end = self.clock.now().after(limit);
        eventually(|| {
            self.advance(CLOCK_STEP.min(end.since(self.clock.now())));
            holds()
        });
    }

    /// Advances the clock by `step`, up to `most` times, until `holds`. Waits in between, since a step wakes others: only a timer that was
    /// armed after a step needs the next one.
    #[track_caller]
    pub fn step_until(&self, step: Duration, most: u32, mut holds: impl FnMut() -> bool) {
        let holds_after_a_step = |_| {
            self.advance(step);
            let stepped = Instant::now();
            while !holds() {
                if stepped.elapsed() > STEP_WAIT {
                    return false;
                }
                std::thread::park_timeout(Duration::from_millis(5));
            }
            true
        };
        assert!((0..most).any(holds_after_a_step), "waited in vain");
    }

    /// Returns the current time in the API's format.
    pub fn now(&self) -> String {
        self.clock.now().to_string()
    }

    pub fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub fn post(&self, path: &str) -> Request {
        self.request("POST", path)
    }

    pub fn put(&self, path: &str) -> Request {
        self.request("PUT", path)
    }

    pub fn patch(&self, path: &str) -> Request {
        self.request("PATCH", path)
    }

    pub fn delete(&self, path: &str) -> Request {
        self.request("DELETE", path)
    }

    /// Returns a request to the API with the project's key.
    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, format!("{}{path}", self.api)).bearer(&self.key)
    }

    /// Returns a request to the admin listener: `/sandbox/…`, `/debug/…`, with the admin token if there is one.
    pub fn admin(&self, method: &str, path: &str) -> Request {
        let request = Request::new(method, format!("{}{path}", self.admin));
        match &self.config.admin.token {
            Some(token) => request.bearer(token.reveal()),
            None => request,
        }
    }

    /// Returns the debug endpoint's response, once it is there and every actor in it shows its state. After a start, actors are rebuilt in
    /// the background, and a stopping or busy actor is shown without its state.
    #[track_caller]
    pub fn actors(&self, path: &str) -> Value {
        let is_busy = |shown: &Value| {
            let listed = shown["actors"].as_array();
            listed.map_or(shown["status"] == "busy", |actors| {
                actors.iter().any(|actor| actor["status"] == "busy")
            })
        };
        let mut shown = Value::Null;
        eventually(|| {
            let response = self.admin("GET", &format!("/debug/actors{path}")).send();
            if response.status == 404 {
                return false;
            }
            shown = response.expect(200);
            !is_busy(&shown)
        });
        shown
    }

    /// Creates a room with the defaults.
    pub fn room(&self, name: &str) -> Value {
        self.post("/v1/rooms")
            .json(json!({"name": name}))
            .send()
            .expect(201)
    }

    /// Mints a token; `role` may be empty for none.
    pub fn token(&self, room: &str, identity: &str, role: &str) -> String {
        let mut body = json!({"room": room, "identity": identity});
        if !role.is_empty() {
            body["role"] = json!(role);
        }
        let token = self.post("/v1/tokens").json(body).send().expect(201);
        token["token"].as_str().unwrap().to_owned()
    }

    /// Joins a participant through the sandbox and returns the sid.
    pub fn join(&self, room: &str, identity: &str, role: &str) -> String {
        let token = self.token(room, identity, role);
        let joined = self
            .admin("POST", "/sandbox/join")
            .json(json!({"token": token}))
            .send()
            .expect(201);
        joined["sid"].as_str().unwrap().to_owned()
    }

    /// Makes a participant leave, or lose its connection if not `clean`.
    pub fn leave(&self, sid: &str, clean: bool) {
        let path = format!("/sandbox/participants/{sid}/leave");
        self.admin("POST", &path)
            .json(json!({"clean": clean}))
            .send()
            .expect_empty(204);
    }

    /// Publishes a track and returns its sid.
    pub fn publish(&self, sid: &str, kind: &str, source: &str) -> String {
        let path = format!("/sandbox/participants/{sid}/tracks");
        let track = self
            .admin("POST", &path)
            .json(json!({"kind": kind, "source": source}))
            .send()
            .expect(201);
        track["sid"].as_str().unwrap().to_owned()
    }

    /// Registers a webhook endpoint and returns it, including its secret.
    pub fn endpoint(&self, url: &str) -> Value {
        self.post("/v1/webhook-endpoints")
            .json(json!({"url": url}))
            .send()
            .expect(201)
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.halt();
    }
}

fn serve(options: ServerOptions, started: &mpsc::Sender<Ready>, stopped: oneshot::Receiver<()>) {
    let run = run_in_system(async {
        let server = Box::pin(Server::start(options)).await?;
        let dev = server.dev.as_ref().expect("a development server has a key");
        let ready = Ready {
            api: server.api_url.clone(),
            admin: format!("http://{}", server.admin),
            rtmp: server.rtmp(),
            redirect: server.redirect,
            key: dev.api_key.reveal().to_owned(),
            project: dev.project_id.to_string(),
        };
        started.send(ready).expect("the test waits");
        tokio::select! {
            _ = stopped => {}
            failure = server.failed() => println!("the server ends: {failure}"),
        }
        server.stop().await;
        Ok(())
    });
    run.expect("the app runs");
}

/// Waits until `holds`, for [`WAIT_LIMIT`] at most.
#[track_caller]
pub fn eventually(mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < WAIT_LIMIT, "waited in vain");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
