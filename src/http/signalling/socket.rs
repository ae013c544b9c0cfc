//! The websocket of a client that was admitted: frames from it to its session, and back.

use std::time::Duration;

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, Closed, Session};
use conclave_media::embedded::{SignalConnection, SignalFrame};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::http::client_stream::Handling;

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
    let stream = stream.max_frame_size(MAX_MESSAGE).aggregate_continuations().max_continuation_size(MAX_MESSAGE);
    // As long as the websocket is open, the client does not keep the server waiting.
    let handling = Handling::begin(request);
    actix_web::rt::spawn(async move {
        let _handling = handling;
        pass_on(connection, session.clone(), stream).await;
        let _ = timeout(WRITE_TIMEOUT, session.close(Some(CloseReason::from(CloseCode::Normal)))).await;
    });
    response
}

/// Passes frames on until one side ends. All frames for the client have been sent then, unless it has closed the websocket.
async fn pass_on(connection: SignalConnection, mut session: Session, mut stream: AggregatedMessageStream) {
    let SignalConnection { frames, mut replies } = connection;
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let passed = tokio::select! {
            reply = replies.recv() => match reply {
                Some(reply) => write(&mut session, reply).await,
                None => return,
            },
            message = stream.recv() => match message {
                Some(Ok(AggregatedMessage::Binary(frame))) => {
                    frames.send(SignalFrame::Binary(frame.to_vec())).await.map_err(|_| Ended)
                }
                Some(Ok(AggregatedMessage::Text(frame))) => {
                    frames.send(SignalFrame::Text(frame.to_string())).await.map_err(|_| Ended)
                }
                Some(Ok(AggregatedMessage::Ping(data))) => in_time(session.pong(&data)).await,
                Some(Ok(AggregatedMessage::Pong(_))) => {
                    frames.send(SignalFrame::sign_of_life()).await.map_err(|_| Ended)
                }
                Some(Ok(AggregatedMessage::Close(_)) | Err(_)) | None => return,
            },
            _ = pings.tick() => in_time(session.ping(b"")).await,
        };
        if passed.is_err() {
            break;
        }
    }
    // The session may have ended; what it sent last is still in the channel.
    while let Ok(reply) = replies.try_recv() {
        if write(&mut session, reply).await.is_err() {
            break;
        }
    }
}

/// One side has ended, or does not keep up.
struct Ended;

async fn write(session: &mut Session, frame: SignalFrame) -> Result<(), Ended> {
    match frame {
        SignalFrame::Binary(bytes) => in_time(session.binary(bytes)).await,
        SignalFrame::Text(text) => in_time(session.text(text)).await,
    }
}

async fn in_time(written: impl Future<Output = Result<(), Closed>>) -> Result<(), Ended> {
    timeout(WRITE_TIMEOUT, written).await.map_err(|_| Ended)?.map_err(|_| Ended)
}
