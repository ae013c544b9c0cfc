//! A real webhook receiver on a free port, which answers as it is told and hands what came to the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::PATIENCE;

/// A receiver.
pub struct Receiver {
    pub url: String,
    status: Arc<AtomicU16>,
    received: mpsc::Receiver<Received>,
}

/// A request that came.
#[derive(Debug)]
pub struct Received {
    /// The method and the path.
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Receiver {
    /// A receiver that answers 204.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let status = Arc::new(AtomicU16::new(204));
        let (tell, received) = mpsc::channel();
        let answer = Arc::clone(&status);
        let tell = Mutex::new(tell);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The test has the request before its sender has the answer: a delivery that is written down as
                // delivered has been seen.
                let tell = |request| tell.lock().unwrap().send(request).is_ok();
                let _ = serve(stream, answer.load(Ordering::SeqCst), tell);
            }
        });
        Self { url, status, received }
    }

    /// From now on answers with this status.
    pub fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// The next request, waited for.
    #[track_caller]
    pub fn next(&self) -> Received {
        self.received.recv_timeout(PATIENCE).expect("a delivery")
    }

    /// The types of the next `count` events.
    #[track_caller]
    pub fn types(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().json()["type"].as_str().unwrap().to_owned()).collect()
    }

    /// What has come by now and was not looked at.
    pub fn drain(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }
}

impl Received {
    /// Reads a request off a connection.
    pub fn read(stream: &TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let request = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut received = Self { line: request, headers, body: Vec::new() };
        received.body = vec![0; received.header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut received.body).ok()?;
        Some(received)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Whether the contract's signature is right for this secret.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(&self.body);
        let hex = hex::encode(mac.finalize().into_bytes());
        self.header("x-svc-signature") == format!("sha256={hex}")
    }
}

fn serve(mut stream: TcpStream, status: u16, tell: impl FnOnce(Received) -> bool) -> Option<()> {
    let received = Received::read(&stream)?;
    let answer = format!("HTTP/1.1 {status} Answer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    if !tell(received) {
        return None;
    }
    stream.write_all(answer.as_bytes()).ok()
}
