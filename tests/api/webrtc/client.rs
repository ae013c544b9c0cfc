//! A WebRTC client for LiveKit's protocol: a WebSocket, and one peer connection over UDP.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::mem;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use str0m::format::Codec;
use str0m::media::{MediaKind, Mid};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Error, Message, WebSocket};

use super::connection::{Abilities, NewSection, Outgoing, Received};
use super::socket::{ESTIMATES, PacketSocket, SocketClient};

/// Packet interval of the microphone.
const INTERVAL: Duration = Duration::from_millis(20);

/// Size of a video frame, at the same interval: 80 kbit/s.
const VIDEO_BYTES: usize = 200;

/// First bytes of a 640x360 VP8 key frame.
const VP8_KEY_FRAME: [u8; 10] = [0x10, 2, 0, 0x9d, 1, 0x2a, 0x80, 0x02, 0x68, 0x01];
/// First payload descriptor byte of a VP9 key frame with one layer and one packet.
pub const VP9_KEY_FRAME: u8 = 0x8c;

/// Creates the media socket from the join response.
pub type MediaSocket = Box<dyn FnOnce(&proto::JoinResponse) -> Box<dyn PacketSocket> + Send>;

/// A WebRTC client with one peer connection.
pub struct Client {
    pub sid: String,
    /// The server's messages, in order.
    pub responses: Vec<Response>,
    /// Whether the server has closed the WebSocket.
    pub is_closed: bool,
    pub transport: SocketClient,
    /// Creates the media socket from the join response.
    media: Option<MediaSocket>,
    pub publications: Vec<Publication>,
    url: String,
    token: String,
    websocket: WebSocket<MaybeTlsStream<TcpStream>>,
    has_left: bool,
    offers: u32,
    is_negotiating: bool,
    /// Receiving sections that the server requested while an offer was unanswered.
    required: Option<[u32; 2]>,
    /// Admitted tracks that are not yet in an offer.
    admitted: VecDeque<proto::TrackPublishedResponse>,
}

/// A published track. It is sent even while muted: this client ignores the server's mutes.
pub struct Publication {
    pub sid: String,
    mid: Mid,
    codec: Codec,
    sequence: u64,
    next: Instant,
}

impl Client {
    /// Joins with a token. Returns after the server's response; media connects while the client is driven.
    pub fn join(api: &str, token: &str) -> Result<Self, Box<Error>> {
        Self::join_by(api, token, None)
    }

    /// Like [`Self::join`]. If `media` is given, it creates the media socket from the response.
    pub fn join_by(api: &str, token: &str, media: Option<MediaSocket>) -> Result<Self, Box<Error>> {
        Self::start(api, token, media, SocketClient::udp())
    }

    /// Like [`Self::join`], with VP9 and other codecs besides VP8 and H.264.
    pub fn join_with_all_codecs(api: &str, token: &str) -> Result<Self, Box<Error>> {
        let abilities = Abilities {
            all_codecs: true,
            ..ESTIMATES
        };
        Self::start(api, token, None, SocketClient::udp_with(abilities))
    }

    fn start(
        api: &str,
        token: &str,
        media: Option<MediaSocket>,
        mut transport: SocketClient,
    ) -> Result<Self, Box<Error>> {
        let (sdp, _) = transport.connection.offer(None, [3, 3], false);
        let offer = proto::SessionDescription {
            r#type: "offer".into(),
            sdp,
            id: 1,
            ..Default::default()
        };
        let request = proto::JoinRequest {
            publisher_offer: Some(offer),
            ..join_request()
        };
        let url = api.replacen("http", "ws", 1);
        let mut client = Self {
            sid: String::new(),
            responses: Vec::new(),
            is_closed: false,
            transport,
            media,
            publications: Vec::new(),
            websocket: open(&url, token, &request)?,
            url,
            token: token.to_owned(),
            has_left: false,
            offers: 1,
            is_negotiating: true,
            required: None,
            admitted: VecDeque::new(),
        };
        while client.sid.is_empty() {
            client.drive();
        }
        Ok(client)
    }

    /// Opens another WebSocket for the same join, as a client does after a network change.
    pub fn resume(&mut self) {
        let request = proto::JoinRequest {
            reconnect: true,
            participant_sid: self.sid.clone(),
            ..join_request()
        };
        self.websocket = open(&self.url, &self.token, &request).unwrap();
        self.is_closed = false;
    }

    /// Drops the WebSocket.
    pub fn lose_signalling(&mut self) {
        self.tcp().shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Leaves, and closes its transport.
    pub fn leave(&mut self) {
        self.request(Request::Leave(proto::LeaveRequest::default()));
        self.has_left = true;
    }

    pub fn request(&mut self, message: Request) {
        let frame = proto::SignalRequest {
            message: Some(message),
        }
        .encode_to_vec();
        self.websocket.send(Message::binary(frame)).unwrap();
    }

    /// Writes a request, which is buffered until [`Client::flush`].
    pub fn write(&mut self, message: Request) {
        let frame = proto::SignalRequest {
            message: Some(message),
        }
        .encode_to_vec();
        self.websocket.write(Message::binary(frame)).unwrap();
    }

    pub fn flush(&mut self) {
        self.websocket.flush().unwrap();
    }

    /// Writes a Close frame and all buffered requests.
    pub fn write_close(&mut self) {
        self.websocket.close(None).unwrap();
    }

    /// Returns the WebSocket's connection.
    pub fn tcp(&self) -> &TcpStream {
        match self.websocket.get_ref() {
            MaybeTlsStream::Plain(stream) => stream,
            _ => panic!("the tests have no TLS"),
        }
    }

    /// Sends an unsolicited pong, which also counts as a sign of life.
    pub fn pong(&mut self) {
        self.websocket
            .send(Message::Pong(Vec::new().into()))
            .unwrap();
    }

    /// Announces a track. It is sent once the server has responded.
    pub fn announce(&mut self, medium: MediaKind) {
        self.announce_with(medium, proto::encryption::Type::None);
    }

    /// Announces a track with this end-to-end encryption, or without.
    pub fn announce_with(&mut self, medium: MediaKind, encryption: proto::encryption::Type) {
        let (kind, source) = match medium {
            MediaKind::Audio => (proto::TrackType::Audio, proto::TrackSource::Microphone),
            MediaKind::Video => (proto::TrackType::Video, proto::TrackSource::Camera),
        };
        let cid = format!("cid-{}-{}", medium, self.offers);
        let (r#type, source, encryption) = (kind.into(), source.into(), encryption.into());
        let announced = proto::AddTrackRequest {
            cid,
            r#type,
            source,
            encryption,
            ..Default::default()
        };
        self.request(Request::AddTrack(announced));
    }

    /// Sends and receives everything available.
    pub fn drive(&mut self) {
        while let Some(response) = self.read() {
            self.handle(&response);
            self.responses.push(response);
        }
        if self.has_left {
            return;
        }
        let now = Instant::now();
        for publication in &mut self.publications {
            publication.send(&mut self.transport, now);
        }
        // The server closes a removed participant's connection.
        if !self.transport.connection.is_closed {
            self.transport.exchange();
        }
    }

    fn read(&mut self) -> Option<Response> {
        while !self.is_closed {
            match self.websocket.read() {
                Ok(Message::Binary(frame)) => {
                    return proto::SignalResponse::decode(frame).unwrap().message;
                }
                Ok(Message::Close(_)) => self.is_closed = true,
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => self.is_closed = true,
            }
        }
        None
    }

    fn handle(&mut self, response: &Response) {
        match response {
            Response::Join(join) => {
                self.sid.clone_from(&join.participant.as_ref().unwrap().sid);
                if let Some(make) = self.media.take() {
                    self.transport.go_by(make(join));
                }
            }
            Response::RefreshToken(token) => self.token.clone_from(token),
            Response::Answer(answer) if answer.id == self.offers => {
                self.transport.connection.accept_answer(&answer.sdp);
                self.is_negotiating = false;
            }
            Response::MediaSectionsRequirement(required) => {
                self.required = Some([required.num_audios, required.num_videos]);
            }
            Response::TrackPublished(published) => self.admitted.push_back(published.clone()),
            _ => {}
        }
        self.negotiate();
    }

    /// Makes the next offer, once the last one is answered.
    fn negotiate(&mut self) {
        if self.is_negotiating {
            return;
        }
        if let Some(receive) = self.required.take() {
            self.offer(None, receive);
        } else if let Some(published) = self.admitted.pop_front() {
            self.publish(&published);
        }
    }

    fn publish(&mut self, published: &proto::TrackPublishedResponse) {
        let track = published.track.as_ref().unwrap();
        let named = track
            .codecs
            .iter()
            .find(|codec| codec.cid == published.cid)
            .map(|codec| codec.mime_type.as_str());
        let (kind, codec) = match track.r#type() {
            proto::TrackType::Audio => (MediaKind::Audio, Codec::Opus),
            _ if named == Some("video/VP9") => (MediaKind::Video, Codec::Vp9),
            _ => (MediaKind::Video, Codec::Vp8),
        };
        let mid = self
            .offer(
                Some(NewSection {
                    kind,
                    cid: &published.cid,
                    rids: &[],
                }),
                [0, 0],
            )
            .unwrap();
        self.publications
            .push(Publication::new(track.sid.clone(), mid, codec));
    }

    fn offer(&mut self, send: Option<NewSection<'_>>, receive: [u32; 2]) -> Option<Mid> {
        let (sdp, mid) = self.transport.connection.offer(send, receive, false);
        self.send_offer(sdp);
        mid
    }

    /// Stops sending a publication and deactivates its section.
    pub fn unpublish(&mut self, index: usize) {
        let mid = self.publications.remove(index).mid;
        let sdp = self.transport.connection.stop_sending(mid);
        self.send_offer(sdp);
    }

    fn send_offer(&mut self, sdp: String) {
        self.is_negotiating = true;
        self.offers += 1;
        let id = self.offers;
        self.request(Request::Offer(proto::SessionDescription {
            r#type: "offer".into(),
            sdp,
            id,
            ..Default::default()
        }));
    }

    /// Returns a track's received packets.
    pub fn received<'a>(&'a self, track: &'a str) -> impl Iterator<Item = &'a Received> {
        self.transport
            .connection
            .received
            .iter()
            .filter(move |packet| packet.track == track)
    }

    /// Sends a data message to everyone, or to some participants.
    pub fn send_data(&mut self, text: &str, to: &[&str]) {
        let user = proto::UserPacket {
            payload: text.into(),
            topic: Some("chat".into()),
            ..Default::default()
        };
        let packet = proto::DataPacket {
            value: Some(proto::data_packet::Value::User(user)),
            destination_identities: to.iter().map(|to| (*to).to_owned()).collect(),
            ..Default::default()
        };
        self.send_packet(&packet);
    }

    /// Returns whether the channel for reliable data is open, which is the last step of connecting.
    pub fn has_channel(&self) -> bool {
        self.transport.connection.channels.contains_key("_reliable")
    }

    /// Sends a data packet.
    pub fn send_packet(&mut self, packet: &proto::DataPacket) {
        let sent = self.transport.connection.send_message(
            "_reliable",
            &packet.encode_to_vec(),
            Instant::now(),
        );
        assert!(sent, "the channel is open");
    }

    /// Returns the texts of the received data messages, with their senders.
    pub fn messages(&self) -> Vec<(String, String)> {
        let packets = self.transport.connection.messages.iter();
        let packets =
            packets.map(|(_, bytes)| proto::DataPacket::decode(bytes.as_slice()).unwrap());
        let texts = packets.filter_map(|packet| match packet.value {
            Some(proto::data_packet::Value::User(user)) => Some((
                packet.participant_identity,
                String::from_utf8(user.payload).unwrap(),
            )),
            _ => None,
        });
        texts.collect()
    }

    /// Returns the client's latest information about a participant.
    pub fn seen(&self, identity: &str) -> Option<&proto::ParticipantInfo> {
        let infos = self.responses.iter().flat_map(|response| match response {
            Response::Join(join) => join.other_participants.as_slice(),
            Response::Update(update) => update.participants.as_slice(),
            _ => &[],
        });
        infos.rev().find(|info| info.identity == identity)
    }

    /// Returns why the server ended the participant's session, if it did.
    pub fn left(&self) -> Option<proto::DisconnectReason> {
        self.responses.iter().rev().find_map(|response| {
            if let Response::Leave(leave) = response {
                Some(leave.reason())
            } else {
                None
            }
        })
    }

    pub fn forget_responses(&mut self) {
        mem::take(&mut self.responses);
    }
}

impl Publication {
    pub fn new(sid: String, mid: Mid, codec: Codec) -> Self {
        Self {
            sid,
            mid,
            codec,
            sequence: 1_000,
            next: Instant::now(),
        }
    }

    pub fn send(&mut self, transport: &mut SocketClient, now: Instant) {
        if now < self.next || transport.connection.is_closed {
            return;
        }
        (self.next, self.sequence) = (now + INTERVAL, self.sequence + 1);
        let is_video = self.codec != Codec::Opus;
        let [high, low] = (u16::try_from(self.sequence & 0x7fff).unwrap() | 0x8000).to_be_bytes();
        // A 640x360 VP8 key frame with its counters, a VP9 key frame, or a little audio.
        let mut frame = match self.codec {
            Codec::Vp9 => vec![VP9_KEY_FRAME, high, low],
            _ => [&[0x90, 0xf0, high, low, low, 0][..], &VP8_KEY_FRAME].concat(),
        };
        frame.resize(VIDEO_BYTES, 0xaa);
        let payload = if is_video {
            frame.as_slice()
        } else {
            &[1, 2, 3]
        };
        let packet = Outgoing {
            mid: self.mid,
            rid: None,
            codec: self.codec,
            sequence: self.sequence,
            timestamp: u32::try_from(self.sequence).unwrap() * if is_video { 1_800 } else { 960 },
            payload,
            audio_level: (!is_video).then_some(-20),
            is_red: false,
            is_last: true,
            descriptor: None,
        };
        transport.connection.send_media(&packet, now);
    }
}

fn join_request() -> proto::JoinRequest {
    let client = proto::ClientInfo {
        protocol: 17,
        ..Default::default()
    };
    let settings = proto::ConnectionSettings {
        auto_subscribe: true,
        ..Default::default()
    };
    proto::JoinRequest {
        client_info: Some(client),
        connection_settings: Some(settings),
        ..Default::default()
    }
}

/// Opens a non-blocking WebSocket.
fn open(
    url: &str,
    token: &str,
    request: &proto::JoinRequest,
) -> Result<WebSocket<MaybeTlsStream<TcpStream>>, Box<Error>> {
    let wrapped = proto::WrappedJoinRequest {
        join_request: request.encode_to_vec(),
        ..Default::default()
    };
    let text = URL_SAFE.encode(wrapped.encode_to_vec()).replace('=', "%3D");
    let (websocket, _) = tungstenite::connect(format!(
        "{url}/rtc/v1?access_token={token}&join_request={text}"
    ))?;
    if let MaybeTlsStream::Plain(stream) = websocket.get_ref() {
        stream.set_nonblocking(true).unwrap();
    }
    Ok(websocket)
}
