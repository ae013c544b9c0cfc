//! A participant's attacks on the TURN server.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use livekit_protocol::IceServer;
use livekit_protocol::signal_response::Message as Response;
use tungstenite::WebSocket;

use super::attacker::{AttackOptions, Done};
use super::flood;
use super::participant::{join, read_message};
use crate::BenchError;
use crate::media::requests::{Requests, channel_data, code};

/// TURN response timeout.
const ANSWER: Duration = Duration::from_millis(500);
/// The bound channel.
const CHANNEL: u16 = 0x4000;
/// Bytes per write.
const CHUNK: usize = 64 * 1024;
/// Allocations requested per join, and the maximum number of open sockets.
const ALLOCATIONS: usize = 32;
const SOCKETS: usize = 6_000;

/// Addresses from the server: the TURN server, and a media worker.
struct Told {
    server: IceServer,
    worker: SocketAddr,
    /// The participant stays while this is open.
    _websocket: WebSocket<TcpStream>,
}

/// Joins once, and sends short messages over many connections.
pub fn send_messages(options: &AttackOptions, until: Instant) -> Result<Done, BenchError> {
    let api: SocketAddr = options.api.parse()?;
    let told = be_told(api, &options.token)?;
    // Every second connection sends only empty messages.
    let number = Mutex::new(0_usize);
    flood::on_each_connection(&options.api, until, |stream, done| {
        let payload: &[u8] = {
            let mut number = number.lock().map_err(|_| io::ErrorKind::Other)?;
            *number += 1;
            if number.is_multiple_of(2) {
                b""
            } else {
                b"ping"
            }
        };
        bind(stream, &told)?;
        let message = channel_data(CHANNEL, payload);
        let chunk = message.repeat(CHUNK / message.len());
        while Instant::now() < until {
            flood::send(stream, &chunk, done)?;
        }
        Ok(())
    })
}

/// Rejoins repeatedly, and requests as many allocations as possible each time, from many addresses.
pub fn take_allocations(options: &AttackOptions, until: Instant) -> Result<Done, BenchError> {
    let api: SocketAddr = options.api.parse()?;
    let (mut done, mut kept) = (Done::default(), VecDeque::new());
    while Instant::now() < until {
        let Ok(told) = be_told(api, &options.token) else {
            done.closed += 1;
            std::thread::sleep(ANSWER / 10);
            continue;
        };
        for number in 0..ALLOCATIONS {
            done.connections += 1;
            let address = Ipv4Addr::new(
                127,
                2,
                u8::try_from(kept.len() % 250).unwrap_or_default(),
                1 + number as u8,
            );
            match allocate(&told.server, address) {
                Ok((socket, bytes)) => {
                    done.note_sent(bytes);
                    kept.push_back(socket);
                }
                Err(_) => done.closed += 1,
            }
        }
        kept.drain(..kept.len().saturating_sub(SOCKETS));
    }
    Ok(done)
}

fn be_told(api: SocketAddr, token: &str) -> Result<Told, BenchError> {
    let mut websocket = join(api, token)?;
    let (mut server, mut worker) = (None, None);
    while server.is_none() || worker.is_none() {
        match read_message(&mut websocket)? {
            Response::Join(joined) => server = joined.ice_servers.into_iter().next(),
            Response::Offer(offer) => worker = offer.sdp.lines().find_map(udp_candidate),
            _ => {}
        }
    }
    let (server, worker) = server.zip(worker).ok_or("no TURN server")?;
    Ok(Told {
        server,
        worker,
        _websocket: websocket,
    })
}

/// Returns a UDP candidate's address.
fn udp_candidate(line: &str) -> Option<SocketAddr> {
    let mut fields = line.strip_prefix("a=candidate:")?.split(' ').skip(2);
    let (protocol, _, host, port) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    (protocol == "udp").then(|| format!("{host}:{port}").parse().ok())?
}

/// Makes an allocation over a connection, and binds a channel to the media worker.
fn bind(stream: &mut TcpStream, told: &Told) -> io::Result<()> {
    let mut requests = Requests::new(&told.server.username, &told.server.credential);
    let challenge = exchange(stream, &requests.allocate())?;
    requests.take_challenge(&challenge);
    for request in [requests.allocate(), requests.bind(CHANNEL, told.worker)] {
        if code(&exchange(stream, &request)?) != 0 {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
    }
    Ok(())
}

fn exchange(stream: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut response = vec![0; 20];
    io::Read::read_exact(stream, &mut response)?;
    let length = usize::from(u16::from_be_bytes([response[2], response[3]]));
    response.resize(20 + length, 0);
    io::Read::read_exact(stream, &mut response[20..])?;
    Ok(response)
}

/// Makes an allocation over UDP. Returns its socket, and the number of bytes sent.
fn allocate(server: &IceServer, from: Ipv4Addr) -> Result<(UdpSocket, usize), BenchError> {
    let url = server
        .urls
        .iter()
        .find_map(|url| url.strip_suffix("?transport=udp"))
        .ok_or("no TURN server by UDP")?;
    let address: SocketAddr = url.strip_prefix("turn:").ok_or("no address")?.parse()?;
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(ANSWER))?;
    let mut requests = Requests::new(&server.username, &server.credential);
    let ask = |request: Vec<u8>| -> io::Result<(Vec<u8>, usize)> {
        let mut response = vec![0; 1_500];
        socket.send(&request)?;
        let length = socket.recv(&mut response)?;
        response.truncate(length);
        Ok((response, request.len()))
    };
    let (challenge, asked) = ask(requests.allocate())?;
    requests.take_challenge(&challenge);
    let (response, again) = ask(requests.allocate())?;
    match code(&response) {
        0 => Ok((socket, asked + again)),
        code => Err(format!("refused with {code}").into()),
    }
}
