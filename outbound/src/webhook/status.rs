//! Status of a response whose headers ureq rejects: more than 128 of them, or an invalid or
//! repeated `Content-Length`. The status alone decides whether a delivery was accepted.
//!
//! A transport around ureq's waits for a response's whole head and records its status for the
//! sending thread.

use std::cell::Cell;
use std::time::Instant;

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// Maximum number of response headers.
const MAX_HEADERS: usize = 256;

thread_local! {
    /// Status of this thread's current response, once its head is complete.
    static STATUS: Cell<Option<u16>> = const { Cell::new(None) };
}

/// Clears the status of this thread's last response.
pub(super) fn clear() {
    STATUS.set(None);
}

/// Returns the status of this thread's current response, once its head is complete.
pub(super) fn received() -> Option<u16> {
    STATUS.get()
}

/// Records the status of each response on a connection, which the connectors before it in the chain
/// open.
#[derive(Debug)]
pub(super) struct StatusRecorder;

impl<T: Transport> Connector<T> for StatusRecorder {
    type Out = StatusRecordingTransport<T>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        connection: Option<T>,
    ) -> Result<Option<StatusRecordingTransport<T>>, Error> {
        Ok(connection.map(StatusRecordingTransport))
    }
}

/// Connection whose responses' status is recorded.
#[derive(Debug)]
pub(super) struct StatusRecordingTransport<T>(T);

impl<T: Transport> Transport for StatusRecordingTransport<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.0.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.0.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let start = Instant::now();
        let mut left = timeout;
        loop {
            let is_more = self.0.await_input(left)?;
            // The head was complete before; this is the body.
            if STATUS.get().is_some() {
                return Ok(is_more);
            }
            STATUS.set(status(self.0.buffers().input()));
            // ureq would reject an incomplete head that has too many headers already.
            let is_full = self.0.buffers().input_append_buf().is_empty();
            if !is_more || is_full || STATUS.get().is_some() || is_whole(self.0.buffers().input()) {
                return Ok(is_more);
            }
            left = NextTimeout {
                after: timeout.after.saturating_sub(start.elapsed()).into(),
                ..timeout
            };
            // The inner transport starts its timeout anew with each read, so a slow head would
            // never end.
            if left.after.is_zero() {
                return Err(Error::Timeout(timeout.reason));
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn is_tls(&self) -> bool {
        self.0.is_tls()
    }
}

/// Splits the input after its first complete head.
fn split_head(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some((&input[..end], &input[end + 4..]))
}

/// Returns whether a final response's head is complete, well-formed or not.
fn is_whole(input: &[u8]) -> bool {
    match split_head(input) {
        // 1xx responses precede the final one.
        Some((head, rest)) if head.starts_with(b"HTTP/1.1 1") => is_whole(rest),
        found => found.is_some(),
    }
}

/// Returns the status of the first final response, if its head is complete and well-formed.
fn status(input: &[u8]) -> Option<u16> {
    let (head, rest) = split_head(input)?;
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (b"HTTP/1.0 " | b"HTTP/1.1 ", status) = lines.next()?.split_at_checked(9)? else {
        return None;
    };
    let code: u16 = std::str::from_utf8(status.get(..3)?).ok()?.parse().ok()?;
    let is_status = (100..=999).contains(&code) && matches!(status.get(3), None | Some(b' '));
    let headers = lines.by_ref().take(MAX_HEADERS).all(is_header);
    // A line left over is one header too many.
    if !is_status || !headers || lines.next().is_some() {
        return None;
    }
    if code < 200 {
        self::status(rest)
    } else {
        Some(code)
    }
}

fn is_header(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.len() < line.len() && name.iter().all(is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_of_the_first_final_response_whose_head_is_whole() {
        let many = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
        for (input, expected) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nbody",
                Some(200),
            ),
            ("HTTP/1.0 299\r\n\r\n", Some(299)),
            (
                "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 503 No\r\n\r\n",
                Some(503),
            ),
            ("HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n", None),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("HTTP/1.1 +20 OK\r\n\r\n", None),
            ("HTTP/2.0 200 OK\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nno header\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", None),
            ("220 mail ESMTP\r\n\r\n", None),
            (&many(256), Some(200)),
            (&many(257), None),
        ] {
            assert_eq!(status(input.as_bytes()), expected, "{input}");
        }
    }
}
