//! API scenarios with WebRTC clients on real transports, next to sandbox participants.

mod backups;
mod client;
#[allow(
    dead_code,
    reason = "the tests of the media workers use what these do not"
)]
#[path = "../../../media/sfu/tests/support/connection.rs"]
mod connection;
mod data;
mod data_tracks;
mod inspection;
mod leaving;
mod metadata;
mod moderation;
mod other_disks;
mod quality;
mod reconnects;
mod recordings;
mod rooms;
mod rtmp;
#[allow(
    dead_code,
    reason = "the tests of the media workers use what these do not"
)]
#[path = "../../../media/sfu/tests/support/socket.rs"]
mod socket;
mod transcoding;
mod turn;
mod upload_answers;
mod uploads;
mod uploads_by_tls;
pub mod whip;

use std::time::{Duration, Instant};

use str0m::media::MediaKind;

use crate::support::{TestApp, WAIT_LIMIT};
use client::{Client, MediaSocket};
use rtmp::RtmpEncoder;
use whip::Encoder;

/// Time without a packet after which a test assumes silence.
const SILENCE: Duration = Duration::from_millis(300);

/// An app, and WebRTC clients that send and receive while a test waits.
struct Call {
    app: TestApp,
    clients: Vec<Client>,
    encoders: Vec<Encoder>,
    rtmp_encoders: Vec<RtmpEncoder>,
}

impl Call {
    /// Starts an app with a room "standup".
    fn start() -> Self {
        let app = TestApp::start_with_webrtc();
        app.room("standup");
        Self::new(app)
    }

    /// Creates a call without clients.
    fn new(app: TestApp) -> Self {
        Self {
            app,
            clients: Vec::new(),
            encoders: Vec::new(),
            rtmp_encoders: Vec::new(),
        }
    }

    /// Joins a client, and waits until it is active. Returns its index.
    #[track_caller]
    fn join(&mut self, identity: &str, role: &str) -> usize {
        let token = self.app.token("standup", identity, role);
        self.join_with(&token)
    }

    /// Joins a client with a token, and waits until it is active. Returns its index.
    #[track_caller]
    fn join_with(&mut self, token: &str) -> usize {
        let client = Client::join(&self.app.api, token).unwrap();
        self.add(client)
    }

    /// Joins a client whose media is relayed by the TURN server over this transport.
    #[track_caller]
    fn join_relayed(&mut self, identity: &str, role: &str, transport: &'static str) -> usize {
        let token = self.app.token("standup", identity, role);
        let media: MediaSocket =
            Box::new(|join| Box::new(turn::relay(&join.ice_servers[0], transport)));
        let client = Client::join_by(&self.app.api, &token, Some(media)).unwrap();
        self.add(client)
    }

    #[track_caller]
    fn add(&mut self, client: Client) -> usize {
        self.clients.push(client);
        let client = self.clients.len() - 1;
        let sid = self.clients[client].sid.clone();
        self.wait("the client is active", |call| {
            let listed = call
                .app
                .get("/v1/rooms/standup/participants")
                .send()
                .expect(200);
            listed["participants"]
                .as_array()
                .unwrap()
                .iter()
                .any(|participant| participant["sid"] == sid)
        });
        client
    }

    /// Publishes a microphone, and returns its sid.
    #[track_caller]
    fn speak(&mut self, client: usize) -> String {
        self.publish(client, MediaKind::Audio)
    }

    #[track_caller]
    fn publish(&mut self, client: usize, medium: MediaKind) -> String {
        let before = self.clients[client].publications.len();
        self.clients[client].announce(medium);
        self.wait("the track is published", |call| {
            call.clients[client].publications.len() > before
        });
        self.clients[client].publications[before].sid.clone()
    }

    /// Drives the clients until something is true.
    #[track_caller]
    fn wait(&mut self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + WAIT_LIMIT;
        while !is_true(self) {
            assert!(
                Instant::now() < end,
                "{what}: {:#?}",
                self.clients
                    .iter()
                    .map(|c| &c.responses)
                    .collect::<Vec<_>>()
            );
            self.drive();
        }
    }

    /// Drives the clients for a time, and reads everything received meanwhile.
    fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.drive();
        }
        self.drive();
    }

    fn drive(&mut self) {
        self.clients.iter_mut().for_each(Client::drive);
        self.encoders.iter_mut().for_each(Encoder::drive);
        self.rtmp_encoders.iter_mut().for_each(RtmpEncoder::drive);
    }

    fn count(&self, client: usize, track: &str) -> usize {
        self.clients[client].received(track).count()
    }

    /// Waits until a client receives a track, from now on.
    #[track_caller]
    fn assert_receives(&mut self, client: usize, track: &str) {
        let before = self.count(client, track);
        self.wait("packets arrive", |call| {
            call.count(client, track) >= before + 5
        });
    }

    /// Checks that a client no longer receives a track. Packets in flight may still arrive.
    #[track_caller]
    fn assert_silent(&mut self, client: usize, track: &str) {
        let end = Instant::now() + WAIT_LIMIT;
        let mut before = None;
        while before != Some(self.count(client, track)) {
            assert!(Instant::now() < end, "packets of {track} still arrive");
            before = Some(self.count(client, track));
            self.run(SILENCE);
        }
    }
}
