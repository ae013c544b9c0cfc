//! The websocket of a client that was admitted: frames from it to its session, and back.
//!
//! No frame that has arrived is lost, whatever ends the websocket: the last one may be the client's `leave`.

use std::time::Duration;

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use actix_ws::{CloseCode, CloseReason, Closed, Message, MessageStream, ProtocolError, Session};
use conclave_media::embedded::{FrameSender, Replies, SignalConnection, SignalFrame};
use futures_util::FutureExt;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::fragments::{FragmentError, Fragments};
use crate::http::listener::activity::Handling;

/// The largest frame and message of a client, in bytes.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;
/// How often a client is pinged, so that a dead connection is noticed. That it answers is all that some clients do to show that
/// they are there: LiveKit's SDK for Go sends no pings of its own.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Time that a client has to make room for a frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the websocket, whose frames are passed on in a task.
pub fn open(request: &HttpRequest, payload: Payload, connection: SignalConnection) -> HttpResponse {
    let (response, session, stream) = match actix_ws::handle(request, payload) {
        Ok(opened) => opened,
        // The connection is dropped, by which the participant has lost its signalling.
        Err(error) => return error.error_response(),
    };
    let stream = stream.max_frame_size(MAX_MESSAGE);
    // As long as the websocket is open, the client does not keep the server waiting.
    let handling = Handling::begin(request);
    actix_web::rt::spawn(async move {
        let _handling = handling;
        pass_on(connection, session, stream).await;
    });
    response
}

/// Passes frames on until one side ends, and closes the websocket. All frames for the client have been sent then, unless it has
/// closed the websocket.
async fn pass_on(connection: SignalConnection, mut session: Session, mut stream: MessageStream) {
    let SignalConnection {
        frames,
        mut replies,
    } = connection;
    let mut incoming = Incoming {
        frames,
        fragments: Fragments::new(MAX_MESSAGE),
    };
    let end = pass_until_end(&mut incoming, &mut replies, &mut session, &mut stream).await;
    if end != End::Closed {
        pass_buffered(&mut incoming, &mut stream).await;
    }
    // The session may have ended; what it sent last is still in the channel.
    while let Some(reply) = replies.try_recv() {
        if write(&mut session, reply).await.is_err() {
            break;
        }
    }
    let _ = timeout(
        WRITE_TIMEOUT,
        session.close(Some(close_reason(end, &replies))),
    )
    .await;
}

/// What has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has closed the websocket: nothing follows.
    Closed,
    /// A frame or message that is larger than a client may send.
    TooLarge,
    /// The session, the connection, or a client that does not keep up.
    Other,
}

impl From<FragmentError> for End {
    fn from(error: FragmentError) -> Self {
        match error {
            FragmentError::TooLarge => Self::TooLarge,
            FragmentError::NotUtf8 => Self::Other,
        }
    }
}

async fn pass_until_end(
    incoming: &mut Incoming,
    replies: &mut Replies,
    session: &mut Session,
    stream: &mut MessageStream,
) -> End {
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let passed = tokio::select! {
            reply = replies.recv() => match reply {
                Some(reply) => write(session, reply).await,
                None => Err(End::Other),
            },
            message = stream.recv() => match message {
                Some(Ok(message)) => {
                    let pong = if let Message::Ping(data) = &message { in_time(session.pong(data)).await } else { Ok(()) };
                    incoming.pass(message).await.and(pong)
                }
                Some(Err(ProtocolError::Overflow)) => Err(End::TooLarge),
                Some(Err(_)) | None => Err(End::Other),
            },
            _ = pings.tick() => in_time(session.ping(b"")).await,
        };
        if let Err(end) = passed {
            return end;
        }
    }
}

/// Passes on the frames that have arrived, without waiting for more. After the error of a connection that is broken, its stream
/// gives what had arrived before.
async fn pass_buffered(incoming: &mut Incoming, stream: &mut MessageStream) {
    let mut is_broken = false;
    loop {
        match stream.recv().now_or_never().flatten() {
            Some(Ok(message)) => {
                if incoming.pass(message).await.is_err() {
                    return;
                }
            }
            Some(Err(ProtocolError::Io(_))) if !is_broken => is_broken = true,
            Some(Err(_)) | None => return,
        }
    }
}

/// What comes from the client, on its way to the session.
struct Incoming {
    frames: FrameSender,
    fragments: Fragments,
}

impl Incoming {
    /// Passes on a frame. The session learns of each one, also of those without a request: all count for what a client may send.
    async fn pass(&mut self, message: Message) -> Result<(), End> {
        let frame = match message {
            Message::Binary(frame) => SignalFrame::Binary(frame.to_vec()),
            Message::Text(frame) => SignalFrame::Text(frame.to_string()),
            Message::Continuation(item) => self
                .fragments
                .add(item)
                .map_err(End::from)?
                .unwrap_or_else(SignalFrame::sign_of_life),
            Message::Pong(_) | Message::Ping(_) | Message::Nop => SignalFrame::sign_of_life(),
            Message::Close(_) => return Err(End::Closed),
        };
        self.frames.send(frame).await.map_err(|_| End::Other)
    }
}

fn close_reason(end: End, replies: &Replies) -> CloseReason {
    match replies.excess() {
        Some(excess) => CloseReason {
            code: CloseCode::Policy,
            description: Some(excess.to_string()),
        },
        None if end == End::TooLarge => CloseReason::from(CloseCode::Size),
        None => CloseReason::from(CloseCode::Normal),
    }
}

async fn write(session: &mut Session, frame: SignalFrame) -> Result<(), End> {
    match frame {
        SignalFrame::Binary(bytes) => in_time(session.binary(bytes)).await,
        SignalFrame::Text(text) => in_time(session.text(text)).await,
    }
}

async fn in_time(written: impl Future<Output = Result<(), Closed>>) -> Result<(), End> {
    timeout(WRITE_TIMEOUT, written)
        .await
        .map_err(|_| End::Other)?
        .map_err(|_| End::Other)
}
