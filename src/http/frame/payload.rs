//! Request bodies: at most 65536 bytes, JSON or empty, within a deadline.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::{Bytes, BytesMut};
use conclave_model::{ErrorCode, Problem};
use futures_util::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::listener::connections::record_body_read;

/// Maximum body size in bytes.
pub const LIMIT: usize = 65_536;

/// `Retry-After` if there is no memory for a body.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Reader for bodies, with a deadline for each and a memory limit for all together.
#[derive(Debug, Clone)]
pub struct BodyReader {
    timeout: Duration,
    /// Free bytes.
    memory: Arc<Semaphore>,
}

/// Failure to read a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// Longer than this many bytes.
    TooLarge(usize),
    /// Not complete within this time.
    Late(Duration),
    /// Ended early.
    Incomplete,
    /// Other bodies use all memory.
    NoMemory,
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(limit) => Self::new(
                ErrorCode::PayloadTooLarge,
                format!("the body exceeds {limit} bytes"),
            ),
            BodyError::Late(timeout) => {
                let message = format!(
                    "the body did not arrive within {}",
                    humantime::format_duration(timeout)
                );
                Self::new(ErrorCode::RequestTimeout, message)
            }
            BodyError::Incomplete => Self::new(
                ErrorCode::InvalidRequest,
                "the body could not be read to its end",
            ),
            BodyError::NoMemory => Self::new(
                ErrorCode::RateLimited,
                "too many bodies are being received; see Retry-After",
            )
            .after(RETRY_AFTER),
        }
    }
}

/// Body with its share of memory.
struct BufferedBody {
    body: BufferedBytes,
    memory: OwnedSemaphorePermit,
}

enum BufferedBytes {
    /// One chunk, not copied. It keeps the buffer that it was read into, as its request's headers do anyway.
    Received(Bytes),
    /// Several chunks.
    Joined(BytesMut),
}

impl AsRef<[u8]> for BufferedBody {
    fn as_ref(&self) -> &[u8] {
        match &self.body {
            BufferedBytes::Received(chunk) => chunk,
            BufferedBytes::Joined(body) => body,
        }
    }
}

impl BodyReader {
    /// Creates a reader for bodies with `memory` bytes in total; each must arrive within `timeout`.
    pub fn new(timeout: Duration, memory: usize) -> Self {
        Self {
            timeout,
            memory: Arc::new(Semaphore::new(memory)),
        }
    }

    /// Collects an API request's body.
    ///
    /// # Errors
    /// 408 if it does not arrive in time, 413 above the limit, 415 for a media type other than JSON, 400 if it ends early, 429 while
    /// there is no memory for it.
    pub async fn collect<E>(
        &self,
        request: &HttpRequest,
        payload: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Bytes, Problem> {
        let body = self.within(LIMIT, request, payload).await?;
        // An empty body needs no media type.
        if !body.is_empty() && !is_json(request) {
            let message = "the body must be sent as application/json";
            return Err(Problem::new(ErrorCode::UnsupportedMediaType, message));
        }
        Ok(body)
    }

    /// Collects a body of at most `limit` bytes and any media type. It occupies its memory until it is dropped.
    ///
    /// # Errors
    /// The body is too large, late or incomplete, or there is no memory for it.
    pub async fn within<E>(
        &self,
        limit: usize,
        request: &HttpRequest,
        payload: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Bytes, BodyError> {
        let announced = request
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        // Refused before reading anything, so that the client need not send it.
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(BodyError::TooLarge(limit));
        }
        let read = timeout(self.timeout, self.read(limit, payload)).await;
        let body = read.unwrap_or(Err(BodyError::Late(self.timeout)))?;
        // From now on, the connection counts as idle after the request, not as late with a body.
        record_body_read(request);
        Ok(body)
    }

    async fn read<E>(
        &self,
        limit: usize,
        mut payload: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Bytes, BodyError> {
        let mut buffered: Option<BufferedBody> = None;
        while let Some(chunk) = payload.next().await {
            // The client has disconnected, or its framing is invalid.
            let chunk = chunk.map_err(|_| BodyError::Incomplete)?;
            if buffered.as_ref().map_or(0, BufferedBody::len) + chunk.len() > limit {
                return Err(BodyError::TooLarge(limit));
            }
            // Reserved per chunk rather than by `Content-Length`: a client could announce much and send nothing.
            let memory = self.reserve(chunk.len())?;
            match &mut buffered {
                Some(buffered) => buffered.append(&chunk, memory),
                None => {
                    buffered = Some(BufferedBody {
                        body: BufferedBytes::Received(chunk),
                        memory,
                    });
                }
            }
        }
        Ok(buffered.map_or_else(Bytes::new, Bytes::from_owner))
    }

    fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        // The limit was checked, and is far below 4 GiB, so this cannot fail.
        let bytes = u32::try_from(bytes).map_err(|_| BodyError::NoMemory)?;
        Arc::clone(&self.memory)
            // Not queued: waiting bodies would occupy their connections' buffers.
            .try_acquire_many_owned(bytes)
            .map_err(|_| BodyError::NoMemory)
    }
}

impl BufferedBody {
    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn append(&mut self, chunk: &[u8], memory: OwnedSemaphorePermit) {
        match &mut self.body {
            // Most bodies are one chunk and never get here.
            BufferedBytes::Received(first) => {
                let mut body = BytesMut::from(mem::take(first));
                body.extend_from_slice(chunk);
                self.body = BufferedBytes::Joined(body);
            }
            BufferedBytes::Joined(body) => body.extend_from_slice(chunk),
        }
        self.memory.merge(memory);
    }
}

fn is_json(request: &HttpRequest) -> bool {
    let value = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    // RFC 9110, section 8.3.1: type and subtype are case-insensitive.
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use futures_util::stream::{self, pending};

    use super::*;

    type Chunk = Result<Bytes, ()>;

    fn chunk(length: usize) -> Chunk {
        Ok(vec![b'x'; length].into())
    }

    async fn read(reader: &BodyReader, chunks: &[usize]) -> Result<Bytes, BodyError> {
        let chunks = stream::iter(
            chunks
                .iter()
                .map(|length| chunk(*length))
                .collect::<Vec<_>>(),
        );
        reader
            .within(100, &TestRequest::default().to_http_request(), chunks)
            .await
    }

    #[tokio::test]
    async fn a_body_holds_memory_while_it_is_read_and_until_it_is_dropped() {
        let reader = BodyReader::new(Duration::from_secs(5), 100);
        let first = read(&reader, &[30, 30]).await.unwrap();
        assert_eq!((first.len(), reader.memory.available_permits()), (60, 40));
        assert_eq!(read(&reader, &[20, 21]).await, Err(BodyError::NoMemory));
        assert_eq!(
            reader.memory.available_permits(),
            40,
            "what is not read to its end holds nothing"
        );
        assert_eq!(read(&reader, &[40]).await.unwrap().len(), 40);
        let part = first.slice(..1);
        drop(first);
        assert_eq!(
            reader.memory.available_permits(),
            40,
            "a part keeps the whole in memory"
        );
        drop(part);
        assert_eq!(reader.memory.available_permits(), 100);
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_is_late_and_holds_nothing() {
        let reader = BodyReader::new(Duration::from_millis(10), 100);
        let endless = stream::iter([chunk(30)]).chain(pending());
        let late = reader
            .within(100, &TestRequest::default().to_http_request(), endless)
            .await;
        assert_eq!(late, Err(BodyError::Late(Duration::from_millis(10))));
        assert_eq!(reader.memory.available_permits(), 100);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_or_that_breaks_off_is_refused() {
        let reader = BodyReader::new(Duration::from_secs(5), 1_000);
        assert_eq!(read(&reader, &[100]).await.unwrap().len(), 100);
        assert_eq!(
            read(&reader, &[60, 41]).await,
            Err(BodyError::TooLarge(100))
        );
        let broken = stream::iter([chunk(30), Err(())]);
        let incomplete = reader
            .within(100, &TestRequest::default().to_http_request(), broken)
            .await;
        assert_eq!(incomplete, Err(BodyError::Incomplete));
        assert!(read(&reader, &[]).await.unwrap().is_empty());
    }
}
