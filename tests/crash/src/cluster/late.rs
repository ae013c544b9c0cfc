//! Requests to a node that cannot know yet that another has taken over.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Concurrent requests.
const REQUESTS: u32 = 4;
/// Response timeout.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Requests that were sent.
pub struct LateRequests(Vec<(String, TcpStream)>);

/// A late request's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateRequest {
    /// The requested room's name.
    pub room: String,
    /// The response's status; `None` without a response.
    pub status: Option<u16>,
}

impl LateRequests {
    /// Sends requests that wait in a stopped node's sockets.
    pub fn send(api: SocketAddr, key: &str, round: u32) -> Self {
        let requests = (0..REQUESTS).map(|number| {
            let room = format!("late-{round}-{number}");
            let body = format!("{{\"name\":\"{room}\"}}");
            let mut stream = TcpStream::connect(api).expect("a socket that listens");
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            let sent = write!(
                stream,
                "POST /v1/rooms HTTP/1.1\r\nHost: {api}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            // The node may be about to end.
            drop(sent);
            (room, stream)
        });
        Self(requests.collect())
    }

    /// Waits for the responses.
    pub fn answers(self) -> Vec<LateRequest> {
        let answer = |(room, mut stream): (String, TcpStream)| {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            LateRequest {
                room,
                status: status(&String::from_utf8_lossy(&answer)),
            }
        };
        self.0.into_iter().map(answer).collect()
    }
}

fn status(answer: &str) -> Option<u16> {
    answer
        .strip_prefix("HTTP/1.1 ")?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn the_status_of_an_answer_is_read_and_none_from_a_connection_that_broke() {
        assert_eq!(
            status("HTTP/1.1 503 Service Unavailable\r\n\r\n"),
            Some(503)
        );
        assert_eq!((status(""), status("HTTP/1.1 5")), (None, Some(5)));
    }
}
