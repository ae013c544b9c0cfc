//! Attacks by a participant with a room token.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use livekit_protocol::signal_request::Message as Request;
use livekit_protocol::signal_response::Message as Response;
use livekit_protocol::{LeaveRequest, SignalRequest, SignalResponse};
use prost::Message as _;
use tungstenite::{Bytes, Message, WebSocket};

use super::attacker::{AttackOptions, Done};
use super::messages::{message, preparation};
use super::{Attack, data};
use crate::BenchError;
use crate::media::signalling::open;

/// Time after which a stalled connection is dropped.
const STALLED: Duration = Duration::from_millis(500);
/// Time limit for a response that the attack needs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Messages prepared before the attack, then sent cyclically.
const MESSAGES: u64 = 64;
/// Pause before the attacker rejoins.
const REJOIN: Duration = Duration::from_millis(20);

/// Joins and sends messages as fast as it can, and rejoins whenever it is disconnected.
pub fn attack(options: &AttackOptions, attack: Attack, until: Instant) -> Result<Done, BenchError> {
    let server: SocketAddr = options.api.parse()?;
    let mut done = Done::default();
    while Instant::now() < until {
        if let Ok(socket) = join(server, &options.token) {
            done.connections += 1;
            let ended = match attack {
                Attack::DataChannels | Attack::NamedSenders => {
                    data::attack(socket, attack, until, &mut done)
                }
                _ => send_all(socket, attack, until, &mut done),
            };
            done.closed += u64::from(ended.is_err());
        }
        std::thread::sleep(REJOIN);
    }
    Ok(done)
}

/// Joins with a token.
pub fn join(server: SocketAddr, token: &str) -> Result<WebSocket<TcpStream>, BenchError> {
    let socket = open(server, token, [127, 0, 0, 1].into())?;
    socket.get_ref().set_write_timeout(Some(STALLED))?;
    socket.get_ref().set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends messages until the end, or until the server disconnects.
fn send_all(
    mut socket: WebSocket<TcpStream>,
    attack: Attack,
    until: Instant,
    done: &mut Done,
) -> Result<(), BenchError> {
    let track = prepare(&mut socket, attack)?;
    let made = |number| encode(message(attack, number, &track));
    let rejoins = attack == Attack::Rejoins;
    let messages: Vec<Bytes> = (0..if rejoins { 1 } else { MESSAGES }).map(made).collect();
    socket.get_ref().set_nonblocking(false)?;
    for message in messages.iter().cycle() {
        if Instant::now() > until {
            break;
        }
        socket.send(Message::Binary(message.clone()))?;
        done.note_sent(message.len());
        if rejoins {
            socket.send(Message::Binary(encode(Request::Leave(
                LeaveRequest::default(),
            ))))?;
            break;
        }
        if attack != Attack::Unread {
            read_what_is_there(&mut socket)?;
        }
    }
    Ok(())
}

/// Announces the attack's track. Returns its sid.
fn prepare(socket: &mut WebSocket<TcpStream>, attack: Attack) -> Result<String, BenchError> {
    let Some(preparation) = preparation(attack) else {
        return Ok(String::new());
    };
    socket.send(Message::Binary(encode(preparation)))?;
    loop {
        if let Response::TrackPublished(published) = read_message(socket)? {
            return Ok(published.track.unwrap_or_default().sid);
        }
    }
}

/// Waits for the server's next message.
pub fn read_message(socket: &mut WebSocket<TcpStream>) -> Result<Response, BenchError> {
    loop {
        if let Message::Binary(bytes) = socket.read()?
            && let Some(message) = SignalResponse::decode(&*bytes)?.message
        {
            return Ok(message);
        }
    }
}

fn read_what_is_there(socket: &mut WebSocket<TcpStream>) -> Result<(), BenchError> {
    socket.get_ref().set_nonblocking(true)?;
    let read = loop {
        match socket.read() {
            Ok(_) => {}
            Err(tungstenite::Error::Io(error))
                if error.kind() == std::io::ErrorKind::WouldBlock =>
            {
                break Ok(());
            }
            Err(error) => break Err(error),
        }
    };
    socket.get_ref().set_nonblocking(false)?;
    Ok(read?)
}

/// Writes a request.
pub fn encode(message: Request) -> Bytes {
    SignalRequest {
        message: Some(message),
    }
    .encode_to_vec()
    .into()
}
