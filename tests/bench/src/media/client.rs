//! A client with two peer connections, which publishes generated media, or only counts received packets.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use livekit_protocol::signal_request::Message as Request;
use livekit_protocol::signal_response::Message as Response;
use livekit_protocol::{
    AddTrackRequest, ParticipantInfo, Ping, SessionDescription, SignalTarget, SimulcastCodec,
    TrackSource, TrackType, UpdateTrackSettings, VideoLayer,
};

use str0m::format::Codec;

use super::Route;
use super::connection::{Connection, Sections, Settings};
use super::datagrams::Buffer;
use super::received::Received;
use super::relay::Relay;
use super::signalling::Signalling;
use super::source::{Camera, LAYERS, Microphone, is_simulcast, wall_clock};
use crate::BenchError;

/// A client's role in a call.
#[derive(Clone)]
pub struct Participation {
    /// Camera codec, if it publishes camera and microphone.
    pub publishes: Option<Codec>,
    /// Display size of its videos; the best layer if absent.
    pub view: Option<(u32, u32)>,
    pub route: Route,
}

impl Participation {
    /// Publishes in VP8, and sends from its own sockets.
    pub const PUBLISHER: Self = Self {
        publishes: Some(Codec::Vp8),
        view: None,
        route: Route::Direct,
    };
    /// Only receives.
    pub const SUBSCRIBER: Self = Self {
        publishes: None,
        ..Self::PUBLISHER
    };
}

/// Track ids for a client's microphone and camera.
const TRACKS: [&str; 2] = ["microphone", "camera"];
/// Ping interval.
const PING: Duration = Duration::from_secs(5);

/// A client.
pub struct Client {
    pub signalling: Signalling,
    pub publisher: Option<Publisher>,
    pub subscriber: Connection,
    pub received: Received,
    identity: String,
    view: Option<(u32, u32)>,
    /// Videos with a requested size.
    sized: Vec<String>,
    next_ping: Instant,
}

/// A client's sending side.
pub struct Publisher {
    pub connection: Connection,
    codec: Codec,
    camera: Camera,
    microphone: Microphone,
    /// The sections, once offered.
    sections: Option<Sections>,
    /// Tracks that the server has not granted yet.
    awaited: usize,
}

impl Client {
    /// Connects the WebSocket; the rest follows in the calls below.
    pub fn join(
        settings: &Settings,
        server: SocketAddr,
        from: IpAddr,
        token: &str,
        participation: &Participation,
    ) -> Result<Self, BenchError> {
        let now = Instant::now();
        let mut signalling = Signalling::connect(server, token, from)?;
        // The first message contains the data that a client needs for a relay.
        let first = match participation.route {
            Route::Direct => None,
            _ => Some(signalling.wait()?),
        };
        let connect = || {
            let relay = match &first {
                Some(Response::Join(joined)) => Some(Relay::new(
                    &joined.ice_servers,
                    participation.route,
                    server,
                )?),
                _ => None,
            };
            Connection::new(settings, from, relay, now)
        };
        let publish = |codec| Ok::<_, BenchError>(Publisher::new(connect()?, codec, now));
        let mut client = Self {
            publisher: participation.publishes.map(publish).transpose()?,
            subscriber: connect()?,
            signalling,
            received: Received::new(now),
            identity: String::new(),
            view: participation.view,
            sized: Vec::new(),
            next_ping: now + PING,
        };
        if let Some(first) = first {
            client.handle(first)?;
        }
        Ok(client)
    }

    /// Sends `leave`.
    pub fn leave(&mut self) -> Result<(), BenchError> {
        self.signalling
            .send(Request::Leave(livekit_protocol::LeaveRequest::default()))
    }

    /// Returns whether it is connected, and, for a publisher, also for publishing.
    pub fn is_connected(&self) -> bool {
        let publishes = self
            .publisher
            .as_ref()
            .is_none_or(|publisher| publisher.connection.is_connected);
        publishes && self.subscriber.is_connected
    }

    /// Handles the messages available on the WebSocket.
    pub fn receive_messages(&mut self) -> Result<(), BenchError> {
        while let Some(message) = self.signalling.receive()? {
            self.handle(message)?;
        }
        let now = Instant::now();
        self.subscriber.advance(now, &mut self.received)?;
        if let Some(publisher) = &mut self.publisher {
            publisher.connection.advance(now, &mut self.received)?;
        }
        Ok(())
    }

    /// Handles the packets available on a socket.
    pub fn receive_packets(
        &mut self,
        of_publisher: bool,
        buffer: &mut Buffer,
    ) -> Result<(), BenchError> {
        let publisher = self
            .publisher
            .as_mut()
            .filter(|_| of_publisher)
            .map(|publisher| &mut publisher.connection);
        publisher
            .unwrap_or(&mut self.subscriber)
            .receive(buffer, &mut self.received)
    }

    /// Sends due media, at most `allowed` packets, and subtracts them; then advances the time.
    pub fn advance(&mut self, now: Instant, allowed: &mut usize) -> Result<(), BenchError> {
        if let Some(publisher) = &mut self.publisher {
            publisher.connection.receive_relayed(&mut self.received)?;
            publisher.advance(now, &mut self.received, allowed)?;
        }
        self.subscriber.receive_relayed(&mut self.received)?;
        if self.subscriber.timeout <= now {
            self.subscriber.advance(now, &mut self.received)?;
        }
        if self.next_ping <= now {
            self.next_ping = now + PING;
            let timestamp = (wall_clock() / 1_000_000).try_into()?;
            self.signalling
                .send(Request::PingReq(Ping { timestamp, rtt: 0 }))?;
        }
        self.signalling.flush()
    }

    fn handle(&mut self, message: Response) -> Result<(), BenchError> {
        match message {
            Response::Join(joined) => {
                self.identity = joined.participant.ok_or("no participant")?.identity;
                if let Some(publisher) = &self.publisher {
                    let tracks = tracks(publisher.codec).into_iter();
                    tracks
                        .map(Request::AddTrack)
                        .try_for_each(|track| self.signalling.send(track))?;
                }
                self.ask_for_sizes(&joined.other_participants)
            }
            Response::TrackPublished(_) => self.offer_when_granted(),
            Response::Answer(answer) => match &mut self.publisher {
                Some(publisher) => publisher.connection.accept_answer(&answer.sdp),
                None => Ok(()),
            },
            Response::Offer(offer) => {
                let sdp = self.subscriber.accept_offer(&offer.sdp)?;
                let answer = SessionDescription {
                    r#type: "answer".to_owned(),
                    sdp,
                    id: offer.id,
                    ..Default::default()
                };
                self.signalling.send(Request::Answer(answer))
            }
            Response::Trickle(trickle) => {
                let candidate: serde_json::Value = serde_json::from_str(&trickle.candidate_init)?;
                let of_publisher = trickle.target == SignalTarget::Publisher as i32;
                let publisher = self
                    .publisher
                    .as_mut()
                    .filter(|_| of_publisher)
                    .map(|of| &mut of.connection);
                let connection = publisher.or((!of_publisher).then_some(&mut self.subscriber));
                if let (Some(connection), Some(text)) =
                    (connection, candidate["candidate"].as_str())
                {
                    connection.add_candidate(text);
                }
                Ok(())
            }
            Response::Update(update) => self.ask_for_sizes(&update.participants),
            Response::Leave(leave) => {
                Err(format!("the server ends the session: {:?}", leave.reason()).into())
            }
            _ => Ok(()),
        }
    }

    /// Offers the publisher connection once all tracks are granted.
    fn offer_when_granted(&mut self) -> Result<(), BenchError> {
        let Some(publisher) = &mut self.publisher else {
            return Ok(());
        };
        publisher.awaited = publisher.awaited.saturating_sub(1);
        if publisher.awaited > 0 {
            return Ok(());
        }
        let (sdp, sections) = publisher.connection.offer(TRACKS, publisher.codec)?;
        publisher.sections = Some(sections);
        let offer = SessionDescription {
            r#type: "offer".to_owned(),
            sdp,
            id: 1,
            ..Default::default()
        };
        self.signalling.send(Request::Offer(offer))
    }

    /// Requests videos in their display sizes.
    fn ask_for_sizes(&mut self, participants: &[ParticipantInfo]) -> Result<(), BenchError> {
        let Some((width, height)) = self.view else {
            return Ok(());
        };
        let others = participants
            .iter()
            .filter(|participant| participant.identity != self.identity);
        let videos = others.flat_map(|participant| &participant.tracks);
        let videos = videos
            .filter(|track| track.r#type() == TrackType::Video && !self.sized.contains(&track.sid));
        let new: Vec<_> = videos.map(|track| track.sid.clone()).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.sized.extend_from_slice(&new);
        let settings = UpdateTrackSettings {
            track_sids: new,
            width,
            height,
            ..Default::default()
        };
        self.signalling.send(Request::TrackSetting(settings))
    }
}

impl Publisher {
    fn new(connection: Connection, codec: Codec, now: Instant) -> Self {
        Self {
            connection,
            codec,
            camera: Camera::new(codec, now),
            microphone: Microphone::new(now),
            sections: None,
            awaited: TRACKS.len(),
        }
    }

    fn advance(
        &mut self,
        now: Instant,
        received: &mut Received,
        allowed: &mut usize,
    ) -> Result<(), BenchError> {
        for rid in received.key_frame_requests.drain(..) {
            self.camera.request_key_frame(rid);
        }
        let sections = self.sections.filter(|_| self.connection.is_connected);
        if let Some(sections) = sections {
            for packet in self
                .microphone
                .due(now)
                .chain(self.camera.due(now))
                .take(*allowed)
            {
                *allowed -= 1;
                self.connection.send(sections, packet, now);
                self.connection.advance(now, received)?;
            }
        }
        if self.connection.timeout <= now {
            self.connection.advance(now, received)
        } else {
            Ok(())
        }
    }
}

/// Requests to publish a microphone, and a camera with this codec.
fn tracks(codec: Codec) -> [AddTrackRequest; 2] {
    let [microphone, camera] = TRACKS;
    let qualities = 0..;
    let layers: Vec<_> = LAYERS
        .iter()
        .zip(qualities)
        .map(|(layer, quality)| VideoLayer {
            quality,
            width: layer.width,
            height: layer.height,
            bitrate: layer.bitrate,
            spatial_layer: quality,
            rid: if is_simulcast(codec) {
                layer.rid.to_owned()
            } else {
                String::new()
            },
            ..Default::default()
        })
        .collect();
    let best = &LAYERS[LAYERS.len() - 1];
    let codec = SimulcastCodec {
        codec: codec.to_string().to_lowercase(),
        cid: camera.to_owned(),
        layers: layers.clone(),
        ..Default::default()
    };
    [
        AddTrackRequest {
            cid: microphone.to_owned(),
            name: microphone.to_owned(),
            r#type: TrackType::Audio.into(),
            source: TrackSource::Microphone.into(),
            disable_red: true,
            ..Default::default()
        },
        AddTrackRequest {
            cid: camera.to_owned(),
            name: camera.to_owned(),
            r#type: TrackType::Video.into(),
            source: TrackSource::Camera.into(),
            width: best.width,
            height: best.height,
            layers,
            simulcast_codecs: vec![codec],
            ..Default::default()
        },
    ]
}
