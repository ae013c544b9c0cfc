//! A server connection.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::BenchError;

/// A keep-alive connection that sends one request at a time.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response in its connection's buffer.
pub struct Response<'a> {
    pub status: u16,
    pub head: &'a str,
    pub body: &'a [u8],
}

/// Returns a request's bytes.
pub fn request(key: &str, head: &str, body: &str) -> Vec<u8> {
    let content = if body.is_empty() {
        String::new()
    } else {
        format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        )
    };
    format!(
        "{head} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n{content}\r\n{body}"
    )
    .into_bytes()
}

impl Connection {
    pub async fn open(address: &str) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(16 * 1024),
        })
    }

    /// Sends a request with a streaming response, and waits for the response's start.
    pub async fn start(&mut self, request: &[u8]) -> Result<(), BenchError> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        self.stream.read_buf(&mut self.buffer).await?;
        if self.buffer.starts_with(b"HTTP/1.1 200") {
            Ok(())
        } else {
            Err("the response has not begun".into())
        }
    }

    /// Sends a request and returns its response with any status.
    pub async fn send(&mut self, request: &[u8]) -> Result<Response<'_>, BenchError> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let Some(head) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") else {
                continue;
            };
            let text = std::str::from_utf8(&self.buffer[..head])?;
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(Ok(0), str::parse::<usize>)?;
            if self.buffer.len() >= head + 4 + length {
                break (head, length);
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let status = text.get(9..12).ok_or("no status")?.parse()?;
        Ok(Response {
            status,
            head: text,
            body: &self.buffer[head + 4..head + 4 + length],
        })
    }

    /// Sends a request and returns the response body; the status must be 2xx.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], BenchError> {
        let response = self.send(request).await?;
        if response.status / 100 != 2 {
            return Err(format!(
                "refused: {} {}",
                response.head,
                String::from_utf8_lossy(response.body)
            )
            .into());
        }
        Ok(response.body)
    }

    /// Sends a request and returns the response's JSON.
    pub async fn json(&mut self, key: &str, head: &str, body: &Value) -> Result<Value, BenchError> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let body = self.exchange(&request(key, head, &body)).await?;
        Ok(if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body)?
        })
    }
}
