//! As much of an HTTP server as one needs who knows its client: a thread a connection, one request each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::Double;
use crate::faults::{Answer, Fault};

/// A request.
#[derive(Default)]
pub(crate) struct Request {
    pub path: String,
    pub authorization: String,
    pub kind: String,
    pub websocket_key: String,
    pub body: Vec<u8>,
}

pub(crate) fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    (listener, address)
}

pub(crate) fn serve(listener: &TcpListener, double: &Double) {
    for stream in listener.incoming().flatten() {
        let double = double.clone();
        thread::spawn(move || exchange(stream, &double));
    }
}

fn exchange(mut stream: TcpStream, double: &Double) -> Option<()> {
    let request = read(&stream)?;
    let (answer, fault) = if request.path.starts_with("/rtc?") {
        (double.signalling(&request, &mut stream).err()?, None)
    } else {
        double.answer(&request)
    };
    match fault {
        Some(Fault::Slow(wait)) => thread::sleep(wait),
        Some(Fault::Dropped) => return None,
        _ => {}
    }
    let Answer { status, kind, body } = answer;
    let head = format!(
        "HTTP/1.1 {status} whatever\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).ok()
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut request = Request { path, ..Request::default() };
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => request.authorization = value.to_owned(),
            "sec-websocket-key" => request.websocket_key = value.to_owned(),
            "content-type" => request.kind = value.to_owned(),
            _ => {}
        }
    }
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
