//! A client for the event stream at `/debug/events`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use serde_json::Value;

use super::{TestApp, WAIT_LIMIT};

/// A server-sent event stream.
pub struct Watcher {
    head: String,
    lines: mpsc::Receiver<String>,
}

/// One event from the stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Watched {
    pub id: i64,
    pub event: String,
    pub data: String,
}

impl Watcher {
    /// Opens the stream; events committed after this returns are received.
    #[track_caller]
    pub fn start(app: &TestApp, query: &str) -> Self {
        Self::open(&app.admin, query)
    }

    /// Like [`Self::start`], at an admin listener's address.
    #[track_caller]
    pub fn open(admin: &str, query: &str) -> Self {
        let address = admin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET /debug/events{query} HTTP/1.1\r\nHost: {address}\r\n\r\n"
        )
        .unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || read(BufReader::new(stream), &sender));
        let mut watcher = Self {
            head: String::new(),
            lines,
        };
        while let Some(line) = Some(watcher.line()).filter(|line| !line.is_empty()) {
            watcher.head.push_str(&line.to_lowercase());
            watcher.head.push('\n');
        }
        // The comment that opens the stream.
        watcher.line();
        watcher.line();
        watcher
    }

    /// Returns the response head, in lower case.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Waits for the next event.
    #[track_caller]
    pub fn next(&self) -> Watched {
        let field = |name: &str| {
            let line = self.line();
            let value = line
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(": "));
            value
                .unwrap_or_else(|| panic!("no {name} in {line:?}"))
                .to_owned()
        };
        let watched = Watched {
            id: field("id").parse().expect("a number"),
            event: field("event"),
            data: field("data"),
        };
        assert_eq!(self.line(), "", "an event ends with an empty line");
        watched
    }

    /// Removes the lines received since the last call and returns their number.
    pub fn seen(&self) -> usize {
        self.lines.try_iter().count()
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines
            .recv_timeout(WAIT_LIMIT)
            .expect("a line of the stream")
    }
}

impl Watched {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// Sends the lines in the head, then the lines in the body's chunks, until the stream or the test ends.
fn read(mut stream: BufReader<TcpStream>, lines: &mpsc::Sender<String>) -> Option<()> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream
            .read_line(&mut line)
            .ok()
            .filter(|length| *length > 0)?;
        lines.send(line.trim_end().to_owned()).ok()?;
    }
    loop {
        let mut size = String::new();
        stream.read_line(&mut size).ok()?;
        let mut chunk = vec![0; usize::from_str_radix(size.trim_end(), 16).ok()? + 2];
        stream.read_exact(&mut chunk).ok()?;
        if chunk.starts_with(b": alive\n") {
            continue;
        }
        for line in String::from_utf8_lossy(&chunk[..chunk.len() - 2]).lines() {
            lines.send(line.to_owned()).ok()?;
        }
    }
}
