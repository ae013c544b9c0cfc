//! Request body that is buffered while it is sent, so that it can be sent again.
//!
//! A body is forwarded to the active node as it arrives. Received chunks are buffered up to the API's body limit, as long as the memory that
//! all requests share suffices. A longer body is sent only once, since the active node rejects it anyway.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_http::body::BodySize;
use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::web::Bytes;
use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::frame::payload::LIMIT;
use crate::http::listener::connections::record_body_read;

/// Reason why a body cannot be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// The client disconnected before the end of the body.
    #[error("the client disconnected before the end of the body")]
    Incomplete,
    /// A later attempt sends the body.
    #[error("a later attempt sends the body")]
    Superseded,
}

/// A forwarded request's body.
pub(super) struct RequestBody {
    source: Rc<RefCell<BodySource>>,
    size: BodySize,
}

struct BodySource {
    /// The client's request; `None` for this node's own.
    request: Option<HttpRequest>,
    payload: Payload,
    memory: Arc<Semaphore>,
    /// Chunks received so far; `None` once buffering has stopped.
    buffered: Option<BufferedChunks>,
    state: BodyState,
    /// Number of the attempt that sends the body.
    attempt: usize,
    /// Whether that attempt has sent the whole body.
    is_sent: bool,
}

#[derive(Default)]
struct BufferedChunks {
    chunks: Vec<Bytes>,
    length: usize,
    memory: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    Open,
    Ended,
    Incomplete,
}

impl RequestBody {
    /// Creates the body of a request that does not open a WebSocket. `memory` counts the free bytes for buffered bodies.
    pub(super) fn new(request: &HttpRequest, payload: Payload, memory: &Arc<Semaphore>) -> Self {
        let announced = request
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        let size = match announced {
            // `Transfer-Encoding` overrides a length (RFC 9112, section 6.3). A request with both was refused before.
            _ if request.headers().contains_key(TRANSFER_ENCODING) => BodySize::Stream,
            Some(length) => BodySize::Sized(length),
            // A request without a length has no body (RFC 9112, section 6.3).
            None => BodySize::None,
        };
        let source = BodySource {
            request: Some(request.clone()),
            payload,
            memory: Arc::clone(memory),
            buffered: Some(BufferedChunks::default()),
            state: BodyState::Open,
            attempt: 0,
            is_sent: false,
        };
        Self {
            source: Rc::new(RefCell::new(source)),
            size,
        }
    }

    /// Returns the body for another attempt. Earlier attempts then fail with [`BodyError::Superseded`].
    pub(super) fn attempt(&self) -> AttemptBody {
        let mut source = self.source.borrow_mut();
        source.attempt += 1;
        source.is_sent = matches!(self.size, BodySize::None | BodySize::Sized(0));
        // Counted per attempt, since repeated chunks come from the buffer and not from the payload.
        let left = if let BodySize::Sized(length) = self.size {
            Some(length)
        } else {
            None
        };
        AttemptBody {
            source: Rc::clone(&self.source),
            attempt: source.attempt,
            next: 0,
            size: self.size,
            left,
        }
    }

    /// Returns whether everything received is still buffered.
    pub(super) fn is_buffered(&self) -> bool {
        self.source.borrow().buffered.is_some()
    }

    /// Returns whether the last attempt has sent the whole body.
    pub(super) fn is_sent(&self) -> bool {
        self.source.borrow().is_sent
    }

    /// Returns whether the client disconnected before the end of the body.
    pub(super) fn is_incomplete(&self) -> bool {
        self.source.borrow().state == BodyState::Incomplete
    }
}

impl BodySource {
    /// Buffers a chunk. Without memory for it, drops the whole buffer: a part of a body cannot be repeated.
    fn buffer(&mut self, chunk: &Bytes) {
        let Some(buffered) = &mut self.buffered else {
            return;
        };
        // Never waits for memory: the chunk is forwarded either way. Above the limit, the active node rejects the body.
        let permit = (buffered.length + chunk.len() <= LIMIT).then(|| {
            let bytes = u32::try_from(chunk.len()).ok()?;
            Arc::clone(&self.memory).try_acquire_many_owned(bytes).ok()
        });
        let Some(permit) = permit.flatten() else {
            self.buffered = None;
            return;
        };
        match &mut buffered.memory {
            Some(memory) => memory.merge(permit),
            None => buffered.memory = Some(permit),
        }
        buffered.length += chunk.len();
        // Copied, since the chunk would keep its larger read buffer alive.
        buffered.chunks.push(Bytes::copy_from_slice(chunk));
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match self.state {
            BodyState::Open => {}
            BodyState::Ended => return Poll::Ready(None),
            BodyState::Incomplete => return Poll::Ready(Some(Err(BodyError::Incomplete))),
        }
        match ready!(Pin::new(&mut self.payload).poll_next(context)) {
            Some(Ok(chunk)) => {
                self.buffer(&chunk);
                Poll::Ready(Some(Ok(chunk)))
            }
            // Repeating would not help: the rest never arrives.
            Some(Err(_)) => {
                self.state = BodyState::Incomplete;
                Poll::Ready(Some(Err(BodyError::Incomplete)))
            }
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn end(&mut self) {
        self.state = BodyState::Ended;
        // The connection no longer counts as a client that keeps the server waiting.
        self.request.iter().for_each(record_body_read);
    }
}

/// Body for one attempt.
pub(super) struct AttemptBody {
    source: Rc<RefCell<BodySource>>,
    attempt: usize,
    /// Index of the next buffered chunk.
    next: usize,
    size: BodySize,
    /// Bytes left, unless the body is chunked.
    left: Option<u64>,
}

impl AttemptBody {
    /// Creates the empty body of this node's own request.
    pub(super) fn empty() -> Self {
        let source = BodySource {
            request: None,
            payload: Payload::None,
            memory: Arc::new(Semaphore::new(0)),
            buffered: None,
            state: BodyState::Ended,
            attempt: 0,
            is_sent: true,
        };
        Self {
            source: Rc::new(RefCell::new(source)),
            attempt: 0,
            next: 0,
            size: BodySize::None,
            left: None,
        }
    }

    /// Returns how the body is framed.
    pub(super) const fn size(&self) -> BodySize {
        self.size
    }

    /// Returns the next chunk; `None` at the end.
    pub(super) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        // Never held across an await: all attempts of a request run on its worker's thread.
        let mut source = self.source.borrow_mut();
        // The previous attempt's connection may still be polled. It must not consume the next attempt's chunks.
        if source.attempt != self.attempt {
            return Poll::Ready(Some(Err(BodyError::Superseded)));
        }
        let buffered = source
            .buffered
            .as_ref()
            .and_then(|buffered| buffered.chunks.get(self.next))
            .cloned();
        let chunk = match buffered {
            Some(chunk) => chunk,
            // All announced bytes have been read. The payload may report its end only later, when this body is no longer polled.
            None if self.left == Some(0) => {
                source.end();
                return Poll::Ready(None);
            }
            None => match ready!(source.poll_chunk(context)) {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    source.is_sent = true;
                    return Poll::Ready(None);
                }
            },
        };
        self.next += 1;
        self.left = self
            .left
            .map(|left| left.saturating_sub(chunk.len() as u64));
        source.is_sent = self.left == Some(0);
        Poll::Ready(Some(Ok(chunk)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use actix_web::test::TestRequest;
    use futures_util::{FutureExt, stream};

    use super::*;

    /// Creates a body with these chunks, whose buffer takes its bytes from `memory`.
    fn body(chunks: &[&'static str], memory: &Arc<Semaphore>) -> RequestBody {
        let length = chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
        let request = TestRequest::default()
            .insert_header((CONTENT_LENGTH, length))
            .to_http_request();
        let chunks: Vec<_> = chunks
            .iter()
            .map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))
            .collect();
        RequestBody::new(
            &request,
            Payload::Stream {
                payload: Box::pin(stream::iter(chunks)),
            },
            memory,
        )
    }

    /// Returns everything that an attempt sends.
    fn sent(body: &RequestBody) -> String {
        let (mut attempt, mut sent) = (body.attempt(), Vec::new());
        while let Some(chunk) = poll_fn(|context| attempt.poll_chunk(context))
            .now_or_never()
            .unwrap()
        {
            sent.extend(chunk.unwrap());
        }
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn bodies_are_kept_while_there_is_memory_which_comes_back_with_each() {
        let memory = Arc::new(Semaphore::new(10));
        let first = body(&["12", "34"], &memory);
        assert_eq!([sent(&first), sent(&first)], ["1234", "1234"]);
        assert_eq!((first.is_buffered(), memory.available_permits()), (true, 6));
        let second = body(&["12345", "67"], &memory);
        assert_eq!(
            sent(&second),
            "1234567",
            "the first attempt needs no buffer"
        );
        assert_eq!(
            (second.is_buffered(), memory.available_permits()),
            (false, 6),
            "the buffer of the second body is dropped"
        );
        drop(first);
        assert_eq!(memory.available_permits(), 10);
    }

    #[test]
    fn an_attempt_that_another_follows_gets_no_more_of_the_body() {
        let body = body(&["1", "2"], &Arc::new(Semaphore::new(10)));
        let mut first = body.attempt();
        let mut next = || {
            poll_fn(|context| first.poll_chunk(context))
                .now_or_never()
                .unwrap()
        };
        assert_eq!(next(), Some(Ok(Bytes::from_static(b"1"))));
        assert_eq!(sent(&body), "12");
        assert_eq!(next(), Some(Err(BodyError::Superseded)));
    }
}
