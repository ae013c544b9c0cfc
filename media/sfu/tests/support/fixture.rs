//! Workers and their clients in memory, on a clock that the test moves. `network.rs` is the network between them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use conclave_model::NamespacedRoom;
use conclave_sfu::machine::{Instruction, Placement, RingReader, Worker, WorkerId};
use conclave_sfu::{
    Codec, Command, Config, ConnectionMode, Event, FailureReason, LayerInfo, Limits, PeerCommand,
    PeerEvent, PeerSnapshot, QualityReport, Reply, RoomEvent,
};
use str0m::Candidate;
use str0m::format::Codec as RtcCodec;
use str0m::media::{MediaKind, Mid, Rid};
use str0m::net::Protocol;

use super::commands::{new_peer, new_track};
use super::support::{Abilities, Connection, NewSection, Outgoing, RawDescriptor, Received};

/// Minimum time between a server's offers.
pub const BETWEEN_OFFERS: Duration = Duration::from_millis(155);

pub const SERVER: &str = "192.0.2.1:7882";

/// Workers and their clients in memory.
pub struct Fixture {
    pub worker: Worker,
    /// Further workers; usually none.
    pub further: Vec<Worker>,
    /// Queues of the workers, if there are several.
    pub waiting: Vec<Waiting>,
    /// The room's workers.
    placement: Placement,
    /// Worker for joining clients; `None` for round robin.
    pub home: Option<usize>,
    pub now: Instant,
    /// Time at which the test started.
    pub begun: Instant,
    pub clients: Vec<Client>,
    pub room_events: Vec<RoomEvent>,
    pub quality_reports: Vec<QualityReport>,
    pub room: NamespacedRoom,
    /// Events of participants without a client.
    pub others: Vec<(String, PeerEvent)>,
    /// Maximum number of packets that the worker sent at once.
    pub largest_outbox: usize,
    next_port: u16,
    /// Layers that published videos announce.
    pub layers: Vec<LayerInfo>,
    /// Whether joining clients answer offers.
    pub answers: bool,
    /// Abilities of joining clients.
    pub abilities: Abilities,
    /// Decides which packets are lost. Called with whether the packet goes to the server, its bytes and the time.
    pub loses: Box<dyn FnMut(bool, usize, Instant) -> bool>,
}

/// A worker's queue.
#[derive(Default)]
pub struct Waiting {
    pub instructions: VecDeque<Instruction>,
    pub ready: VecDeque<RingReader>,
    /// Whether the worker is stopped: it handles no instructions, packets or timeouts.
    pub is_stalled: bool,
}

/// A LiveKit client, as far as it concerns the worker.
pub struct Client {
    pub name: &'static str,
    /// Index of its worker.
    home: usize,
    pub publisher: Connection,
    pub subscriber: Option<Connection>,
    pub events: Vec<PeerEvent>,
    next_offer: u32,
    /// Whether the next offer must wait for an answer.
    is_negotiating: bool,
    /// Sections that the server required while an offer was unanswered.
    required: Option<[u32; 2]>,
    pub is_gone: bool,
    pub last_offer: String,
    /// Whether the client answers offers.
    pub answers: bool,
}

/// Returns a worker's address.
pub fn server_address(index: usize) -> SocketAddr {
    let mut address: SocketAddr = SERVER.parse().unwrap();
    let last = 1 + u8::try_from(index).unwrap();
    address.set_ip(IpAddr::from([192, 0, 2, last]));
    address
}

/// A client's published track.
#[derive(Debug, Clone)]
pub struct Publication {
    pub client: usize,
    pub sid: String,
    pub mid: Mid,
    pub codec: RtcCodec,
    pub sequence: u64,
    pub timestamp: u32,
    pub picture: u16,
    pub is_red: bool,
    /// Layer that [`Fixture::send_part`] sends, if there are several.
    pub rid: Option<&'static str>,
}

impl Publication {
    pub fn new(client: usize, sid: &str, mid: Mid, codec: RtcCodec) -> Self {
        let sid = sid.to_owned();
        Self {
            client,
            sid,
            mid,
            codec,
            sequence: 1000,
            timestamp: 5000,
            picture: 1,
            is_red: false,
            rid: None,
        }
    }

    /// Returns the start of the next VP8 frame: a descriptor with all counters, then the first byte of a key frame or
    /// another frame.
    pub fn next_vp8_header(&mut self, is_key: bool) -> [u8; 7] {
        self.picture += 1;
        let [high, low] = (self.picture | 0x8000).to_be_bytes();
        [0x90, 0xf0, high, low, low, 0, u8::from(!is_key)]
    }
}

/// Creates a room in which Alice and Bob are connected. Returns it with their indices.
pub fn alice_and_bob(mode: ConnectionMode) -> (Fixture, usize, usize) {
    let mut fixture = Fixture::new();
    let (alice, bob) = (
        fixture.join_connected("PA_alice", mode),
        fixture.join_connected("PA_bob", mode),
    );
    (fixture, alice, bob)
}

impl Fixture {
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::with_workers(super::WORKERS, limits)
    }

    /// Creates `count` workers without clients. The room spans the workers that have clients.
    pub fn with_workers(count: usize, limits: Limits) -> Self {
        let now = Instant::now();
        let config = Config {
            limits,
            ..Config::default()
        };
        let worker = |index| {
            let candidate = Candidate::host(server_address(index), "udp").unwrap();
            Worker::new(vec![candidate], &config, now)
        };
        Self {
            worker: worker(0),
            further: (1..count).map(worker).collect(),
            waiting: (0..count).map(|_| Waiting::default()).collect(),
            placement: Placement::default(),
            home: None,
            now,
            begun: now,
            clients: Vec::new(),
            room_events: Vec::new(),
            quality_reports: Vec::new(),
            room: "prj_0123456789ab.room".parse().unwrap(),
            others: Vec::new(),
            largest_outbox: 0,
            next_port: 10_000,
            layers: Vec::new(),
            answers: true,
            abilities: Abilities::default(),
            loses: Box::new(|_, _, _| false),
        }
    }

    pub fn command(&mut self, command: Command) {
        self.put(command);
        self.settle();
    }

    /// Sends a command to the workers, without waiting for its effects.
    pub fn put(&mut self, command: Command) {
        if self.further.is_empty() {
            self.worker.handle_command(&self.room, command, self.now);
            return;
        }
        let home = WorkerId(self.clients.last().map_or(0, |client| client.home));
        let waiting = &mut self.waiting;
        self.placement.route(
            command,
            |_| home,
            |worker, instruction| {
                waiting[worker.0].instructions.push_back(instruction);
            },
        );
    }

    /// Returns a client's worker.
    pub fn worker_of(&self, client: usize) -> &Worker {
        match self.clients[client].home {
            0 => &self.worker,
            home => &self.further[home - 1],
        }
    }

    /// Returns a client's worker, mutably.
    pub fn worker_of_mut(&mut self, client: usize) -> &mut Worker {
        match self.clients[client].home {
            0 => &mut self.worker,
            home => &mut self.further[home - 1],
        }
    }

    /// Adds a client; returns its index.
    pub fn join(&mut self, name: &'static str, mode: ConnectionMode) -> usize {
        let publisher = self.connection();
        let subscriber = (mode == ConnectionMode::Dual).then(|| self.connection());
        let next = self.clients.len() % self.waiting.len();
        self.clients.push(Client {
            name,
            home: self.home.unwrap_or(next),
            publisher,
            subscriber,
            events: Vec::new(),
            next_offer: 0,
            is_negotiating: false,
            required: None,
            is_gone: false,
            answers: self.answers,
            last_offer: String::new(),
        });
        self.command(Command::AddPeer(new_peer(name, mode)));
        let client = self.clients.len() - 1;
        if mode == ConnectionMode::Single {
            self.offer(client, None, [3, 3], false);
        }
        client
    }

    pub fn join_connected(&mut self, name: &'static str, mode: ConnectionMode) -> usize {
        let client = self.join(name, mode);
        self.run_until("the client is connected", |fixture| {
            fixture.clients[client]
                .events
                .contains(&PeerEvent::Connected)
        });
        client
    }

    /// Disconnects or reconnects the network of a client that stays in the room.
    pub fn cut_off(&mut self, client: usize, is_cut_off: bool) {
        self.clients[client].is_gone = is_cut_off;
    }

    fn connection(&mut self) -> Connection {
        self.next_port += 1;
        Connection::new(
            SocketAddr::from(([198, 51, 100, 7], self.next_port)),
            Protocol::Udp,
            self.abilities,
            self.now,
        )
    }

    pub fn leave(&mut self, client: usize) {
        self.clients[client].is_gone = true;
        let peer = self.clients[client].name.parse().unwrap();
        self.command(PeerCommand::Remove.for_peer(peer));
    }

    /// Sends an offer from a client, and completes the exchange.
    pub fn offer(
        &mut self,
        client: usize,
        send: Option<NewSection<'_>>,
        receive: [u32; 2],
        restart: bool,
    ) -> Option<Mid> {
        let now = self.now;
        let client = &mut self.clients[client];
        assert!(
            !std::mem::replace(&mut client.is_negotiating, true),
            "one offer at a time"
        );
        client.next_offer += 1;
        let (sdp, mid) = client.publisher.offer(send, receive, restart);
        client.last_offer.clone_from(&sdp);
        client.publisher.advance(now);
        let (peer, offer_id) = (client.name.parse().unwrap(), client.next_offer);
        self.command(PeerCommand::Offer { offer_id, sdp }.for_peer(peer));
        mid
    }

    pub fn publish(
        &mut self,
        client: usize,
        sid: &str,
        codec: RtcCodec,
        rids: &[&str],
    ) -> Publication {
        let name = self.clients[client].name.parse().unwrap();
        let kind = if codec == RtcCodec::Opus {
            MediaKind::Audio
        } else {
            MediaKind::Video
        };
        let cid = format!("cid-{sid}");
        let mut track = new_track(sid, &cid, kind);
        track.codec = Codec::from_mime_type(&codec.to_string());
        track.layers.clone_from(&self.layers);
        track.uses_red = true;
        self.command(PeerCommand::PublishTrack(track).for_peer(name));
        let mid = self
            .offer(
                client,
                Some(NewSection {
                    kind,
                    cid: &cid,
                    rids,
                }),
                [0, 0],
                false,
            )
            .expect("a section");
        self.run_until("the publisher is connected", |fixture| {
            fixture.clients[client].publisher.is_connected
        });
        Publication::new(client, sid, mid, codec)
    }

    /// Ends a publication as a client does: its section becomes inactive.
    pub fn stop_publishing(&mut self, track: &Publication) {
        let client = &mut self.clients[track.client];
        client.next_offer += 1;
        client.is_negotiating = true;
        let sdp = client.publisher.stop_sending(track.mid);
        let (peer, offer_id) = (client.name.parse().unwrap(), client.next_offer);
        self.command(PeerCommand::Offer { offer_id, sdp }.for_peer(peer));
    }

    pub fn subscribe(&mut self, client: usize, track: &Publication) {
        let peer = self.clients[client].name.parse().unwrap();
        self.command(PeerCommand::Subscribe(track.sid.parse().unwrap()).for_peer(peer));
        self.wait_for_offer(client);
    }

    pub fn unsubscribe(&mut self, client: usize, track: &Publication) {
        let peer = self.clients[client].name.parse().unwrap();
        self.command(PeerCommand::Unsubscribe(track.sid.parse().unwrap()).for_peer(peer));
        self.wait_for_offer(client);
    }

    /// Waits until the server has offered a change to a client in dual mode.
    fn wait_for_offer(&mut self, client: usize) {
        if self.clients[client].subscriber.is_some() {
            self.run(BETWEEN_OFFERS);
        }
    }

    /// Sends a packet with this payload, and delivers it.
    pub fn send(&mut self, track: &mut Publication, rid: Option<&str>, payload: &[u8]) {
        self.write(track, rid, payload);
        self.settle();
    }

    /// Puts a packet with this payload into the outbox of the track's client.
    pub fn write(&mut self, track: &mut Publication, rid: Option<&str>, payload: &[u8]) {
        track.timestamp += if track.codec == RtcCodec::Opus {
            960
        } else {
            3000
        };
        self.write_part(track, rid, payload, (true, None));
    }

    /// Sends another packet of the last packet's frame. `end`: whether it is the frame's last packet, and its
    /// dependency descriptor.
    pub fn send_part(
        &mut self,
        track: &mut Publication,
        payload: &[u8],
        end: (bool, Option<RawDescriptor>),
    ) {
        let rid = track.rid;
        self.write_part(track, rid, payload, end);
        self.settle();
    }

    fn write_part(
        &mut self,
        track: &mut Publication,
        rid: Option<&str>,
        payload: &[u8],
        (is_last, descriptor): (bool, Option<RawDescriptor>),
    ) {
        track.sequence += 1;
        let audio_level = (track.codec == RtcCodec::Opus).then_some(-20);
        let packet = Outgoing {
            mid: track.mid,
            rid: rid.map(Rid::from),
            codec: track.codec,
            sequence: track.sequence,
            timestamp: track.timestamp,
            payload,
            audio_level,
            is_red: track.is_red,
            is_last,
            descriptor,
        };
        self.clients[track.client]
            .publisher
            .send_media(&packet, self.now);
    }

    /// Sends a VP8 frame in one packet: a descriptor with all counters, then a key frame or not.
    pub fn send_vp8(&mut self, track: &mut Publication, rid: Option<&str>, is_key: bool) {
        let frame = [&track.next_vp8_header(is_key)[..], &[0xaa, 0xbb]].concat();
        self.send(track, rid, &frame);
    }

    /// Sends a frame of one of three layers. Higher layers have larger frames; the byte after the frame's header is the
    /// layer.
    pub fn send_layer(&mut self, track: &mut Publication, layer: usize, is_key: bool) {
        const BYTES: [usize; 3] = [300, 900, 1150];
        let mut frame = [
            &track.next_vp8_header(is_key)[..],
            &layer.to_le_bytes()[..1],
        ]
        .concat();
        frame.resize(BYTES[layer], 0);
        self.send(track, Some(["q", "h", "f"][layer]), &frame);
    }

    /// Returns the packets that a client has received from a track.
    pub fn received(&self, client: usize, track: &Publication) -> Vec<Received> {
        let client = &self.clients[client];
        let connection = client.subscriber.as_ref().unwrap_or(&client.publisher);
        connection
            .received
            .iter()
            .filter(|packet| packet.track == track.sid)
            .cloned()
            .collect()
    }

    /// Returns the snapshots of these participants, as far as they are in the room.
    pub fn snapshot(&mut self, peers: &[&str]) -> Vec<PeerSnapshot> {
        let (sender, snapshots) = mpsc::channel();
        let reply = Reply::new(move |snapshot| sender.send(snapshot).unwrap());
        let peers = peers.iter().map(|sid| sid.parse().unwrap()).collect();
        self.command(Command::Snapshot { peers, reply });
        snapshots.recv().unwrap()
    }

    pub fn receiver(&mut self, client: usize) -> &mut Connection {
        let client = &mut self.clients[client];
        client.subscriber.as_mut().unwrap_or(&mut client.publisher)
    }

    /// Returns the failures of a participant without a client.
    pub fn failures(&self, name: &str) -> Vec<FailureReason> {
        let events = self.others.iter().filter(|(of, _)| of == name);
        events
            .filter_map(|(_, event)| {
                if let PeerEvent::Failed(reason) = event {
                    Some(*reason)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Handles the worker's events as signalling and clients do.
    pub fn handle_events(&mut self) -> bool {
        let mut events = self.worker.take_events();
        for worker in &mut self.further {
            events.append(&mut worker.take_events());
        }
        let had_any = !events.is_empty();
        for event in events {
            match event {
                Event::Peer { peer, event, .. } => {
                    match self
                        .clients
                        .iter()
                        .rposition(|client| client.name == peer.as_str())
                    {
                        Some(client) => self.handle_peer_event(client, event),
                        None => self.others.push((peer.to_string(), event)),
                    }
                }
                Event::Room { event, .. } => self.room_events.push(event),
                Event::Quality(report) => self.quality_reports.push(*report),
            }
        }
        had_any
    }

    /// Answers a client's last offer, which it did not answer on arrival.
    pub fn answer_late(&mut self, client: usize) {
        let mut offers = self.clients[client]
            .events
            .iter()
            .filter_map(|event| match event {
                PeerEvent::Offered { offer_id, sdp, .. } => Some((*offer_id, sdp.clone())),
                _ => None,
            });
        let (offer_id, sdp) = offers.next_back().expect("an offer");
        self.answer(client, offer_id, &sdp);
        self.settle();
    }

    fn answer(&mut self, client: usize, offer_id: u32, sdp: &str) {
        let client = &mut self.clients[client];
        let subscriber = client.subscriber.as_mut().expect("a client in dual mode");
        let sdp = subscriber.accept_offer(sdp);
        subscriber.advance(self.now);
        let peer = client.name.parse().unwrap();
        self.put(PeerCommand::Answer { offer_id, sdp }.for_peer(peer));
    }

    fn handle_peer_event(&mut self, index: usize, event: PeerEvent) {
        let now = self.now;
        let client = &mut self.clients[index];
        client.events.push(event.clone());
        match event {
            PeerEvent::Offered { offer_id, sdp, .. } if client.answers => {
                self.answer(index, offer_id, &sdp);
            }
            PeerEvent::Answered { offer_id, sdp, .. } if offer_id == client.next_offer => {
                client.publisher.accept_answer(&sdp);
                client.publisher.advance(now);
                client.is_negotiating = false;
                if let Some(receive) = client.required.take() {
                    self.offer(index, None, receive, false);
                }
            }
            PeerEvent::MediaSectionsRequired {
                num_audios,
                num_videos,
            } => {
                let receive = [num_audios, num_videos];
                if client.is_negotiating {
                    client.required = Some(receive);
                } else {
                    self.offer(index, None, receive, false);
                }
            }
            _ => {}
        }
    }
}
