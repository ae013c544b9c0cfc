//! A participant's attacks over data channels: it has a media connection, and no media.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use livekit_protocol::data_packet::Value;
use livekit_protocol::signal_request::Message as Request;
use livekit_protocol::signal_response::Message as Response;
use livekit_protocol::{
    DataChannelReceiveState, DataPacket, SessionDescription, SyncState, UserPacket,
};
use prost::Message as _;
use str0m::change::SdpAnswer;
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};
use tungstenite::{Message, WebSocket};

use super::Attack;
use super::attacker::Done;
use super::participant::{encode, read_message};
use crate::BenchError;

/// Time limit for the connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Length of a channel's name in bytes, the most that fit into one packet.
const NAME: usize = 1_400;
/// Number and size of the messages that the attacker makes its room keep.
const KEPT: u32 = 64;
const KEPT_BYTES: usize = 15_000;
/// Repetitions of these messages' sender in one state.
const NAMED: usize = 900;
/// Maximum datagram size.
const DATAGRAM: usize = 2_048;

/// A participant's connection with data channels.
struct DataConnection {
    websocket: WebSocket<TcpStream>,
    rtc: Rtc,
    socket: UdpSocket,
    address: SocketAddr,
    sid: String,
    reliable: Option<ChannelId>,
}

/// Opens channels or requests messages until the end, or until the server disconnects.
pub fn attack(
    websocket: WebSocket<TcpStream>,
    attack: Attack,
    until: Instant,
    done: &mut Done,
) -> Result<(), BenchError> {
    let mut connection = DataConnection::connect(websocket)?;
    match attack {
        Attack::DataChannels => connection.open_channels(until, done),
        _ => connection.ask_for_messages(until, done),
    }
}

impl DataConnection {
    fn connect(mut websocket: WebSocket<TcpStream>) -> Result<Self, BenchError> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        let mut rtc = Rtc::new(Instant::now());
        rtc.add_local_candidate(Candidate::host(address, "udp")?);
        let mut api = rtc.sdp_api();
        api.add_channel("_reliable".to_owned());
        let (offer, pending) = api.apply().ok_or("nothing to offer")?;
        let sdp = offer.to_sdp_string();
        let offer = SessionDescription {
            r#type: "offer".to_owned(),
            sdp,
            id: 1,
            ..Default::default()
        };
        websocket.send(Message::Binary(encode(Request::Offer(offer))))?;
        let (mut sid, mut early) = (String::new(), Vec::new());
        let answer = loop {
            match read_message(&mut websocket)? {
                Response::Join(joined) => sid = joined.participant.unwrap_or_default().sid,
                Response::Trickle(trickle) => {
                    let candidate: serde_json::Value =
                        serde_json::from_str(&trickle.candidate_init)?;
                    early.extend(
                        candidate["candidate"]
                            .as_str()
                            .and_then(|text| Candidate::from_sdp_string(text).ok()),
                    );
                }
                Response::Answer(answer) => break answer.sdp,
                _ => {}
            }
        };
        rtc.sdp_api()
            .accept_answer(pending, SdpAnswer::from_sdp_string(&answer)?)?;
        early
            .into_iter()
            .for_each(|candidate| rtc.add_remote_candidate(candidate));
        websocket.get_ref().set_nonblocking(true)?;
        let mut connection = Self {
            websocket,
            rtc,
            socket,
            address,
            sid,
            reliable: None,
        };
        let end = Instant::now() + CONNECT;
        while connection.reliable.is_none() {
            if Instant::now() > end {
                return Err("the data channel does not open".into());
            }
            connection.drive()?;
        }
        Ok(connection)
    }

    /// Performs the connection's due work, and waits a moment for packets.
    fn drive(&mut self) -> Result<(), BenchError> {
        self.drain()?;
        self.socket
            .set_read_timeout(Some(Duration::from_millis(1)))?;
        let mut buffer = [0; DATAGRAM];
        while let Ok((length, source)) = self.socket.recv_from(&mut buffer) {
            let contents = buffer.get(..length).unwrap_or_default();
            if let Ok(packet) = Receive::new(Protocol::Udp, source, self.address, contents) {
                self.rtc
                    .handle_input(Input::Receive(Instant::now(), packet))?;
                self.drain()?;
            }
        }
        self.rtc.handle_input(Input::Timeout(Instant::now()))?;
        self.drain()?;
        // The participant ends with its WebSocket.
        match self.websocket.read() {
            Err(tungstenite::Error::Io(error))
                if error.kind() == std::io::ErrorKind::WouldBlock =>
            {
                Ok(())
            }
            read => Ok(read.map(|_| ())?),
        }
    }

    fn drain(&mut self) -> Result<(), BenchError> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(_) => return Ok(()),
                // A full buffer loses the packet, as a network would.
                Output::Transmit(packet) => {
                    drop(self.socket.send_to(&packet.contents, packet.destination));
                }
                Output::Event(Event::ChannelOpen(id, label)) if label == "_reliable" => {
                    self.reliable = Some(id);
                }
                Output::Event(_) => {}
            }
        }
    }

    fn open_channels(&mut self, until: Instant, done: &mut Done) -> Result<(), BenchError> {
        let mut number = 0_u64;
        while Instant::now() < until {
            let label = format!("{number:0>NAME$}");
            self.rtc.direct_api().create_data_channel(ChannelConfig {
                label,
                ..ChannelConfig::default()
            });
            done.note_sent(NAME);
            number += 1;
            self.drive()?;
        }
        Ok(())
    }

    fn ask_for_messages(&mut self, until: Instant, done: &mut Done) -> Result<(), BenchError> {
        let id = self.reliable.ok_or("no channel")?;
        for sequence in 1..=KEPT {
            let user = UserPacket {
                payload: vec![0; KEPT_BYTES],
                ..Default::default()
            };
            let packet = DataPacket {
                sequence,
                value: Some(Value::User(user)),
                ..Default::default()
            }
            .encode_to_vec();
            while !self
                .rtc
                .channel(id)
                .ok_or("no channel")?
                .write(true, &packet)?
            {
                self.drive()?;
            }
            self.drive()?;
        }
        let named = DataChannelReceiveState {
            publisher_sid: self.sid.clone(),
            last_seq: 0,
        };
        let state = SyncState {
            datachannel_receive_states: vec![named; NAMED],
            ..SyncState::default()
        };
        let state = encode(Request::SyncState(state));
        while Instant::now() < until {
            match self.websocket.send(Message::Binary(state.clone())) {
                Err(tungstenite::Error::Io(error))
                    if error.kind() == std::io::ErrorKind::WouldBlock => {}
                sent => {
                    sent?;
                    done.note_sent(state.len());
                }
            }
            self.drive()?;
        }
        Ok(())
    }
}
