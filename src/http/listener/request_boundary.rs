//! Finds where each request on a connection ends, so that one request is read at a time.
//!
//! actix-http decodes everything that it has read: 128 KiB of pipelined requests become thousands of parsed requests, several
//! megabytes, while the client reads no response. [`ClientStream`](super::client_stream::ClientStream) therefore passes it the bytes
//! of one request only, and the next request's bytes after the response was sent.
//!
//! A head ends with its first empty line, which is found here. The kind of body is taken from the request as parsed by actix-http
//! ([`Body::from_request`]): two parsers of the same headers could differ, which is how request smuggling works. Bytes that actix-http refuses
//! close the connection, so they need no care here.

use actix_web::http::Method;
use actix_web::http::header::{CONTENT_LENGTH, UPGRADE};
use actix_web::{HttpMessage, HttpRequest};

/// Request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No body.
    Absent,
    /// Length in bytes.
    Length(u64),
    /// Chunks, up to an empty chunk and the trailers.
    Chunked,
    /// Everything that follows, as for a WebSocket.
    Rest,
}

impl Body {
    /// Returns the body that actix-http reads after a request's head.
    pub fn from_request(request: &HttpRequest) -> Self {
        let length = || {
            request
                .headers()
                .get(CONTENT_LENGTH)?
                .to_str()
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        // `Transfer-Encoding` overrides `Content-Length` (RFC 9112, section 6.3).
        if request.chunked().unwrap_or(false) {
            return Self::Chunked;
        }
        if opens_websocket(request) {
            return Self::Rest;
        }
        match length() {
            Some(length) if length > 0 => Self::Length(length),
            // Tunnel data follows a CONNECT (RFC 9110, section 9.3.6). No route accepts one, but its bytes must not count as a request.
            _ if request.method() == Method::CONNECT => Self::Rest,
            _ => Self::Absent,
        }
    }
}

/// Returns whether a request opens a WebSocket. Then everything that follows is its body.
pub fn opens_websocket(request: &HttpRequest) -> bool {
    let mut protocols = request
        .headers()
        .get_all(UPGRADE)
        .filter_map(|value| value.to_str().ok());
    protocols.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
}

/// Next part to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Empty lines before a head, which are ignored (RFC 9112, section 2.2).
    Start,
    /// Head; whether its current line is empty so far.
    Head { is_empty_line: bool },
    /// Unknown until the head was parsed, see [`RequestBoundary::start_body`].
    Unknown,
    /// Body: number of bytes that are left.
    Length(u64),
    /// Chunked body.
    Chunked(Chunked),
    /// Everything that follows.
    Rest,
    /// Nothing: the request is complete.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunked {
    /// Chunk size digits.
    Size(u64),
    /// Chunk extensions, up to the end of the line with the size.
    Extension(u64),
    /// Chunk bytes.
    Data(u64),
    /// Line end after a chunk.
    DataEnd,
    /// Trailers; whether the current line is empty so far.
    Trailer { is_empty_line: bool },
}

/// Finds the end of each request in a client's bytes.
#[derive(Debug, Clone, Copy)]
pub struct RequestBoundary(Part);

impl Default for RequestBoundary {
    fn default() -> Self {
        Self(Part::Start)
    }
}

impl RequestBoundary {
    /// Returns whether the next bytes belong to the current request.
    pub fn is_open(self) -> bool {
        !matches!(self.0, Part::Unknown | Part::End)
    }

    /// Returns whether the request was read completely.
    pub fn is_end(self) -> bool {
        self.0 == Part::End
    }

    /// Sets the body after the head was parsed. Has no effect at any other time.
    pub fn start_body(&mut self, body: Body) {
        if self.0 == Part::Unknown {
            self.0 = match body {
                Body::Absent => Part::End,
                Body::Length(length) => Part::Length(length),
                Body::Chunked => Part::Chunked(Chunked::Size(0)),
                Body::Rest => Part::Rest,
            };
        }
    }

    /// Starts the next request.
    pub fn start_next(&mut self) {
        self.0 = Part::Start;
    }

    /// Returns how many of these bytes belong to the current request, and advances by them.
    pub fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.is_open() {
            at += match self.0 {
                // Never ends: nothing after a WebSocket's opening is another request.
                Part::Rest => bytes.len() - at,
                Part::Length(left) => {
                    let taken = at_most(bytes.len() - at, left);
                    let left = left - taken as u64;
                    self.0 = if left == 0 {
                        Part::End
                    } else {
                        Part::Length(left)
                    };
                    taken
                }
                Part::Chunked(Chunked::Data(left)) => {
                    let taken = at_most(bytes.len() - at, left);
                    let left = left - taken as u64;
                    self.0 = Part::Chunked(if left == 0 {
                        Chunked::DataEnd
                    } else {
                        Chunked::Data(left)
                    });
                    taken
                }
                // Lines of a head are scanned at once: most bytes of a request are in them.
                Part::Head { is_empty_line } => self.advance_line(is_empty_line, &bytes[at..]),
                part => {
                    self.0 = after(part, bytes[at]);
                    1
                }
            };
        }
        at
    }

    /// Advances in a line of a head, and returns how many of the bytes belong to it.
    fn advance_line(&mut self, is_empty_line: bool, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let content = &bytes[..end.unwrap_or(bytes.len())];
        // A line feed alone ends a line, too (RFC 9112, section 2.2), so a carriage return does not count as content.
        let is_empty_line = is_empty_line && content.iter().all(|byte| *byte == b'\r');
        self.0 = match end {
            Some(_) if is_empty_line => Part::Unknown,
            Some(_) => Part::Head {
                is_empty_line: true,
            },
            None => Part::Head { is_empty_line },
        };
        content.len() + usize::from(end.is_some())
    }
}

fn at_most(available: usize, left: u64) -> usize {
    // Only on a 32-bit machine: a length above its memory leaves all available bytes to the body.
    usize::try_from(left).map_or(available, |left| left.min(available))
}

/// Returns the part after the first byte of a head, or after a framing byte of a chunked body.
fn after(part: Part, byte: u8) -> Part {
    match (part, byte) {
        (Part::Start, b'\r' | b'\n') => Part::Start,
        (Part::Start, _) => Part::Head {
            is_empty_line: false,
        },
        (Part::Chunked(chunked), byte) => after_chunked(chunked, byte),
        (part, _) => part,
    }
}

fn after_chunked(chunked: Chunked, byte: u8) -> Part {
    let next = match (chunked, byte) {
        // An empty chunk is the last one; trailers follow, up to an empty line (RFC 9112, section 7.1).
        (Chunked::Size(0) | Chunked::Extension(0), b'\n') => Chunked::Trailer {
            is_empty_line: true,
        },
        (Chunked::Size(size) | Chunked::Extension(size), b'\n') => Chunked::Data(size),
        (Chunked::Size(size), byte) => match char::from(byte).to_digit(16) {
            // Saturates: actix-http refuses a size that overflows, and the connection closes.
            Some(digit) => Chunked::Size(size.saturating_mul(16).saturating_add(digit.into())),
            None => Chunked::Extension(size),
        },
        (Chunked::DataEnd, b'\n') => Chunked::Size(0),
        (
            Chunked::Trailer {
                is_empty_line: true,
            },
            b'\n',
        ) => return Part::End,
        (Chunked::Trailer { .. }, b'\n') => Chunked::Trailer {
            is_empty_line: true,
        },
        (
            Chunked::Trailer {
                is_empty_line: true,
            },
            b'\r',
        ) => chunked,
        (Chunked::Trailer { .. }, _) => Chunked::Trailer {
            is_empty_line: false,
        },
        // Extensions and carriage returns change nothing here: actix-http judges them.
        (chunked, _) => chunked,
    };
    Part::Chunked(next)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use proptest::prelude::*;

    use super::*;

    fn request(method: &str, headers: &[(&'static str, &'static str)]) -> HttpRequest {
        let request = TestRequest::with_uri("/").method(method.parse().unwrap());
        headers
            .iter()
            .fold(request, |request, header| request.insert_header(*header))
            .to_http_request()
    }

    #[test]
    fn the_body_is_the_one_that_actix_reads() {
        for (method, headers, expected) in [
            ("GET", &[][..], Body::Absent),
            ("POST", &[("content-length", "0")], Body::Absent),
            ("POST", &[("content-length", " 12 ")], Body::Length(12)),
            ("POST", &[("transfer-encoding", "Chunked")], Body::Chunked),
            (
                "GET",
                &[("upgrade", "websocket"), ("content-length", "5")],
                Body::Rest,
            ),
            (
                "GET",
                &[("upgrade", "websocket"), ("transfer-encoding", "chunked")],
                Body::Chunked,
            ),
            ("CONNECT", &[], Body::Rest),
            ("CONNECT", &[("content-length", "3")], Body::Length(3)),
        ] {
            assert_eq!(
                Body::from_request(&request(method, headers)),
                expected,
                "{method} {headers:?}"
            );
        }
    }

    /// Requests as sent, each with the body that follows its head.
    fn sent() -> impl Strategy<Value = (Vec<u8>, Body)> {
        let end = || prop_oneof![Just("\r\n"), Just("\n")];
        let head = (
            "(\r\n|\n){0,2}",
            "[a-z]{1,9}",
            prop::collection::vec("[A-Za-z]{1,5}: [ -~]{0,9}", 0..4),
            end(),
        )
            .prop_map(|(before, line, headers, end)| {
                format!(
                    "{before}{line}{end}{}{end}",
                    headers
                        .iter()
                        .map(|line| format!("{line}{end}"))
                        .collect::<String>()
                )
            });
        let chunks = prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..40), "(;[a-z]{0,3})?"),
            0..4,
        );
        let chunked = (
            chunks,
            prop::collection::vec("[a-z]{1,4}: [a-z\r]{0,4}", 0..3),
        )
            .prop_map(|(chunks, trailers)| {
                let mut body: Vec<u8> = Vec::new();
                for (data, extension) in chunks {
                    body.extend(format!("{:x}{extension}\r\n", data.len()).as_bytes());
                    body.extend(data);
                    body.extend(b"\r\n");
                }
                let trailers: String = trailers.iter().map(|line| format!("{line}\r\n")).collect();
                body.extend(format!("0\r\n{trailers}\r\n").as_bytes());
                (body, Body::Chunked)
            });
        let plain = prop::collection::vec(any::<u8>(), 1..50).prop_map(|body| {
            let length = Body::Length(body.len() as u64);
            (body, length)
        });
        let body = prop_oneof![Just((Vec::new(), Body::Absent)), plain, chunked];
        (head, body).prop_map(|(head, (bytes, body))| ([head.into_bytes(), bytes].concat(), body))
    }

    proptest! {
        /// Proves S-9.
        #[test]
        fn each_request_ends_where_it_was_written_to_end(
            requests in prop::collection::vec(sent(), 1..5),
            size in 1_usize..60,
        ) {
            let all: Vec<u8> = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            let (mut boundary, mut at) = (RequestBoundary::default(), 0);
            for (bytes, body) in &requests {
                let mut read = 0;
                while !boundary.is_end() {
                    let part = &all[at..(at + size).min(all.len())];
                    let taken = boundary.advance(part);
                    prop_assert!(taken > 0 || !boundary.is_open(), "it waits for more than there is");
                    (at, read) = (at + taken, read + taken);
                    if !boundary.is_open() {
                        boundary.start_body(*body);
                    }
                }
                prop_assert_eq!(read, bytes.len());
                boundary.start_next();
            }
        }
    }
}
