//! Media workers with real threads and sockets, and clients on the loopback interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/commands.rs"]
mod commands;
#[allow(dead_code, reason = "other tests use what this one does not")]
#[path = "support/connection.rs"]
mod connection;
#[allow(dead_code, reason = "other tests use what this one does not")]
#[path = "support/socket.rs"]
mod socket;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use conclave_model::NamespacedRoom;
use conclave_sfu::{
    Command, Config, ConnectionMode, Event, Limits, PeerCommand, PeerEvent, Reply, RoomHandle,
    WorkerMetrics, Workers,
};
use str0m::format::Codec;
use str0m::media::{MediaKind, Mid};
use str0m::net::Protocol;

use commands::{new_peer, new_track};
use connection::{NewSection, Outgoing};
use socket::SocketClient;

/// Generous, for machines under load; a passing test takes a fraction of it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Participant whose first event ends its worker.
const FATAL: &str = "PA_fatal";

struct Call {
    workers: Workers,
    room: RoomHandle,
    events: mpsc::Receiver<Event>,
    clients: Vec<(&'static str, SocketClient)>,
    happened: Vec<(String, PeerEvent)>,
}

fn start(workers: usize, limits: Limits) -> (Workers, mpsc::Receiver<Event>) {
    let (sender, events) = mpsc::channel();
    let sink = move |event: Event| {
        // Called on the worker's thread, which ends with the panic.
        let is_fatal = matches!(&event, Event::Peer { peer, .. } if peer.as_str() == FATAL);
        assert!(!is_fatal, "the test ends this worker");
        sender.send(event).unwrap_or_default();
    };
    let config = Config {
        udp_ports: 0..=0,
        workers,
        limits,
        addresses: vec!["127.0.0.1".parse().unwrap()],
        ..Config::default()
    };
    (
        Workers::start(&config, Arc::new(sink)).expect("the loopback interface has free ports"),
        events,
    )
}

impl Call {
    fn new() -> Self {
        Self::with_workers(1, Limits::default())
    }

    fn with_workers(workers: usize, limits: Limits) -> Self {
        let (workers, events) = start(workers, limits);
        let room: NamespacedRoom = "prj_0123456789ab.room".parse().unwrap();
        Self {
            room: workers.open_room(&room),
            workers,
            events,
            clients: Vec::new(),
            happened: Vec::new(),
        }
    }

    fn server(&self, is_tcp: bool) -> SocketAddr {
        self.workers
            .addresses()
            .into_iter()
            .find(|(tcp, _)| *tcp == is_tcp)
            .expect("an address")
            .1
    }

    fn join(&mut self, name: &'static str, protocol: Protocol) -> usize {
        let client = match protocol {
            Protocol::Tcp => SocketClient::tcp(self.server(true)),
            _ => SocketClient::udp(),
        };
        self.clients.push((name, client));
        self.room
            .send(Command::AddPeer(new_peer(name, ConnectionMode::Single)));
        let client = self.clients.len() - 1;
        self.offer(client, None, [3, 3]);
        self.run_until(|call| call.has(name, &PeerEvent::Connected));
        client
    }

    fn offer(
        &mut self,
        client: usize,
        send: Option<NewSection<'_>>,
        receive: [u32; 2],
    ) -> Option<Mid> {
        let (name, client) = &mut self.clients[client];
        let (sdp, mid) = client.connection.offer(send, receive, false);
        self.room
            .send(PeerCommand::Offer { offer_id: 1, sdp }.for_peer(name.parse().unwrap()));
        mid
    }

    fn has(&self, name: &str, event: &PeerEvent) -> bool {
        self.happened
            .iter()
            .any(|(of, what)| of == name && what == event)
    }

    fn run_until(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !is_done(self) {
            assert!(Instant::now() < end, "{:?}", self.happened);
            for (_, client) in &mut self.clients {
                client.exchange();
            }
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let Event::Peer { peer, event, .. } = event else {
            return;
        };
        let Some(index) = self
            .clients
            .iter()
            .position(|(name, _)| *name == peer.as_str())
        else {
            return;
        };
        self.happened.push((peer.to_string(), event.clone()));
        match event {
            PeerEvent::Answered { sdp, .. } => self.clients[index].1.connection.accept_answer(&sdp),
            PeerEvent::MediaSectionsRequired {
                num_audios,
                num_videos,
            } => {
                self.offer(index, None, [num_audios, num_videos]);
            }
            _ => {}
        }
    }

    /// Publishes audio from one client, and checks that the other one receives it.
    fn assert_audible(&mut self, from: usize, to: usize) {
        let (publisher, subscriber) = (
            self.clients[from].0.parse().unwrap(),
            self.clients[to].0.parse().unwrap(),
        );
        self.room.send(
            PeerCommand::PublishTrack(new_track("TR_voice", "cid-voice", MediaKind::Audio))
                .for_peer(publisher),
        );
        let section = NewSection {
            kind: MediaKind::Audio,
            cid: "cid-voice",
            rids: &[],
        };
        let mid = self.offer(from, Some(section), [0, 0]).unwrap();
        self.room
            .send(PeerCommand::Subscribe("TR_voice".parse().unwrap()).for_peer(subscriber));
        let (mut sequence, mut next) = (0, Instant::now());
        self.run_until(|call| {
            if Instant::now() >= next {
                (sequence, next) = (sequence + 1, Instant::now() + Duration::from_millis(20));
                let timestamp = u32::try_from(sequence * 960).unwrap();
                let payload = [1, 2, 3];
                let packet = Outgoing {
                    mid,
                    rid: None,
                    codec: Codec::Opus,
                    sequence,
                    timestamp,
                    payload: &payload,
                    audio_level: Some(-30),
                    is_red: false,
                    is_last: true,
                    descriptor: None,
                };
                call.clients[from]
                    .1
                    .connection
                    .send_media(&packet, Instant::now());
            }
            call.clients[to]
                .1
                .connection
                .received
                .iter()
                .filter(|packet| packet.track == "TR_voice")
                .count()
                >= 20
        });
        // Counters are updated once per loop iteration, so they may be behind.
        self.run_until(|call| {
            let metrics = call.workers.metrics();
            let count = |counter: fn(&WorkerMetrics) -> &AtomicU64| {
                let counts = metrics
                    .iter()
                    .map(|metrics| counter(metrics).load(Ordering::Relaxed));
                counts.sum::<u64>()
            };
            count(|metrics| &metrics.forwarded_packets) >= 10
                && count(|metrics| &metrics.sent_packets) >= 10
        });
    }
}

#[test]
fn participants_hear_each_other_over_udp() {
    let mut call = Call::new();
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Udp),
        call.join("PA_bob", Protocol::Udp),
    );
    call.assert_audible(alice, bob);
}

#[test]
fn participants_on_two_workers_hear_each_other() {
    // A full worker accepts no further participants, so each one gets its own worker.
    let limits = Limits {
        peers: 1,
        ..Limits::default()
    };
    let mut call = Call::with_workers(2, limits);
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Udp),
        call.join("PA_bob", Protocol::Udp),
    );
    call.assert_audible(alice, bob);
    call.run_until(|call| {
        let counters = call.workers.metrics().into_iter().map(|metrics| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            (count(&metrics.peers), count(&metrics.mirrored_packets) > 0)
        });
        let mut counters: Vec<_> = counters.collect();
        counters.sort_unstable();
        counters == [(1, false), (1, true)]
    });
}

/// Returns whether a room's first worker runs.
fn runs(room: &RoomHandle) -> bool {
    let (sender, answer) = mpsc::channel();
    // A worker that has ended drops the request with its sender.
    let reply = Reply::new(move |_| sender.send(()).unwrap_or_default());
    let peers = Vec::new();
    room.send(Command::Snapshot { peers, reply });
    answer.recv().is_ok()
}

#[test]
fn participants_come_to_another_worker_when_one_has_ended() {
    let mut call = Call::with_workers(2, Limits::default());
    call.room
        .send(Command::AddPeer(new_peer(FATAL, ConnectionMode::Source)));
    let end = Instant::now() + DEADLINE;
    while runs(&call.room) {
        assert!(Instant::now() < end, "the worker has not ended");
    }
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Udp),
        call.join("PA_bob", Protocol::Udp),
    );
    call.assert_audible(alice, bob);
    // The worker that has ended has fewer participants.
    let other = call
        .workers
        .open_room(&"prj_0123456789ab.other".parse().unwrap());
    let first = std::mem::replace(&mut call.room, other);
    let (carol, dave) = (
        call.join("PA_carol", Protocol::Udp),
        call.join("PA_dave", Protocol::Udp),
    );
    call.assert_audible(carol, dave);
    drop(first);
}

#[test]
fn participants_hear_each_other_over_tcp() {
    let mut call = Call::new();
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Tcp),
        call.join("PA_bob", Protocol::Udp),
    );
    call.assert_audible(alice, bob);
    let mut call = Call::new();
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Udp),
        call.join("PA_bob", Protocol::Tcp),
    );
    call.assert_audible(alice, bob);
}

/// Proves S-28.
#[test]
fn strangers_who_flood_over_tcp_are_closed_and_hold_up_nobody() {
    let mut call = Call::new();
    let server = call.server(true);
    let floods = [&[0, 0][..], &[0, 4, 0, 1, 0, 0], &[0, 1, 22]].map(|packet| {
        let bytes = packet.repeat(2000);
        let mut stream = TcpStream::connect(server).unwrap();
        std::thread::spawn(move || while std::io::Write::write_all(&mut stream, &bytes).is_ok() {})
    });
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Udp),
        call.join("PA_bob", Protocol::Tcp),
    );
    call.assert_audible(alice, bob);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

/// Proves S-38.
#[test]
fn a_participant_who_makes_offers_without_pause_holds_up_no_other_room() {
    let mut call = Call::new();
    let room = Arc::new(
        call.workers
            .open_room(&"prj_0123456789ab.flood".parse().unwrap()),
    );
    let (sdp, _) = SocketClient::udp().connection.offer(None, [50, 50], false);
    let (is_over, floods) = (Arc::new(AtomicBool::new(false)), room.clone());
    room.send(Command::AddPeer(new_peer(
        "PA_mallory",
        ConnectionMode::Single,
    )));
    let flood = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            while !is_over.load(Ordering::Relaxed) {
                let (peer, sdp) = ("PA_mallory".parse().unwrap(), sdp.clone());
                floods.send(PeerCommand::Offer { offer_id: 1, sdp }.for_peer(peer));
            }
        }
    });
    let (alice, bob) = (
        call.join("PA_alice", Protocol::Udp),
        call.join("PA_bob", Protocol::Udp),
    );
    call.assert_audible(alice, bob);
    is_over.store(true, Ordering::Relaxed);
    flood.join().unwrap();
}

/// Proves S-27.
#[test]
fn connections_of_strangers_are_closed_and_limited() {
    let limits = Limits {
        tcp_connections_per_address: 2,
        tcp_unbound: Duration::ZERO,
        ..Limits::default()
    };
    let (workers, _events) = start(1, limits);
    let server = workers
        .addresses()
        .into_iter()
        .find(|(is_tcp, _)| *is_tcp)
        .unwrap()
        .1;
    for _ in 0..5 {
        let mut streams: Vec<_> = (0..4)
            .map(|_| TcpStream::connect(server).unwrap())
            .collect();
        for stream in &mut streams {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            let read = std::io::Read::read(stream, &mut [0]).map_err(|error| error.kind());
            assert!(
                matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)),
                "closed, not timed out: {read:?}"
            );
        }
    }
}
