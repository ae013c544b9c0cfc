//! The body of every response, which is given to actix-http in pieces.
//!
//! actix-http copies whole chunks into its buffer, 32 KiB of them and whatever the last one has beyond that. With pieces of the same size,
//! a client that reads slowly has less than 128 KiB waiting, also of a response that was made in one chunk.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use pin_project_lite::pin_project;

use super::activity::Exchange;

/// The longest piece, in bytes: the size of actix-http's buffer.
const PIECE: usize = 32 * 1024;

pin_project! {
    /// A body in pieces.
    pub struct ResponseBody<B> {
        #[pin]
        body: B,
        // What is left of the chunk that was taken last.
        chunk: Bytes,
        // Whether only the length is sent: the request asked for the head.
        is_left_out: bool,
        // Lasts until all was taken.
        _exchange: Option<Exchange>,
    }
}

impl<B: MessageBody> ResponseBody<B> {
    /// Returns the body in pieces, or only its length. Once it was taken, the exchange ends.
    pub fn new(body: B, is_left_out: bool, exchange: Option<Exchange>) -> Self {
        if let Some(exchange) = &exchange {
            exchange.respond();
        }
        Self {
            body,
            chunk: Bytes::new(),
            is_left_out,
            _exchange: exchange,
        }
    }
}

impl<B: MessageBody> MessageBody for ResponseBody<B> {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.project();
        if *this.is_left_out {
            return Poll::Ready(None);
        }
        if this.chunk.is_empty() {
            match ready!(this.body.poll_next(context)) {
                Some(Ok(chunk)) => *this.chunk = chunk,
                other => return Poll::Ready(other.map(|failed| failed.map_err(Into::into))),
            }
        }
        let size = this.chunk.len().min(PIECE);
        Poll::Ready(Some(Ok(this.chunk.split_to(size))))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    async fn pieces(body: ResponseBody<impl MessageBody>) -> Vec<Bytes> {
        let (mut body, mut pieces) = (pin!(body), Vec::new());
        while let Some(piece) = poll_fn(|context| body.as_mut().poll_next(context)).await {
            pieces.push(piece.unwrap());
        }
        pieces
    }

    /// Proves S-9.
    #[tokio::test]
    async fn a_body_is_taken_in_pieces_of_32_kib() {
        let content: Vec<u8> = (0..100_000)
            .map(|number: u32| number.to_le_bytes()[0])
            .collect();
        let body = ResponseBody::new(content.clone(), false, None);
        assert_eq!(body.size(), BodySize::Sized(100_000));
        let pieces = pieces(body).await;
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces.concat(), content);
    }

    #[tokio::test]
    async fn of_a_body_that_is_left_out_the_length_remains() {
        let body = ResponseBody::new("content", true, None);
        assert_eq!(body.size(), BodySize::Sized(7));
        assert!(pieces(body).await.is_empty());
    }
}
