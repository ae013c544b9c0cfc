//! Channels between a WebSocket and a session, and from a room to its sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use conclave_model::ParticipantSid;
use conclave_sfu::{Event, PeerEvent, PeerQuality, RoomEvent, Speaker};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::budget::Excess;
use super::connect_request::JoinParameters;
use crate::embedded::effect::ClientNotice;

/// Maximum buffered frames from a client. More than its message burst, so that frames are read while the
/// session is busy.
const FRAMES: usize = 4_096;
/// Maximum buffered bytes from a client. More than the largest message.
const FRAME_BYTES: u32 = 4 * 1024 * 1024;
/// Maximum buffered frames for a client.
const REPLIES: usize = 1_024;
/// Maximum buffered bytes for a client, without participant snapshots, which grow with the room.
const REPLY_BYTES: usize = 2 * 1024 * 1024;

/// A WebSocket frame: a `SignalRequest` from the client, or a `SignalResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalFrame {
    /// Protocol Buffers in binary.
    Binary(Vec<u8>),
    /// Protocol Buffers as JSON. A client that sends text receives text from then on.
    Text(String),
}

impl SignalFrame {
    /// Creates a client's frame without a request. It only proves to the session that the client is alive.
    pub const fn sign_of_life() -> Self {
        Self::Binary(Vec::new())
    }

    /// Returns the size in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Binary(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
        }
    }
}

/// The WebSocket owner's side in a connection with a session.
#[derive(Debug)]
pub struct SignalConnection {
    /// Sender for the client's frames. Dropped when the WebSocket is closed.
    pub frames: FrameSender,
    /// Frames for the client. The WebSocket must be closed after the last one.
    pub replies: Replies,
}

/// Sender for a client's frames.
#[derive(Debug)]
pub struct FrameSender {
    frames: mpsc::Sender<QueuedFrame>,
    capacity: Arc<Semaphore>,
}

/// Receiver for a client's frames.
#[derive(Debug)]
pub(in crate::embedded) struct FrameReceiver(mpsc::Receiver<QueuedFrame>);

/// A client's frame, with the permit for its bytes while it is buffered.
#[derive(Debug)]
struct QueuedFrame {
    frame: SignalFrame,
    _permit: OwnedSemaphorePermit,
}

/// The session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is over")]
pub struct SessionEnded;

/// Receiver for the frames to a client.
#[derive(Debug)]
pub struct Replies {
    frames: mpsc::Receiver<QueuedReply>,
    shared: Arc<ReplyState>,
}

/// The session's side of a [`SignalConnection`].
#[derive(Debug)]
pub(in crate::embedded) struct Socket {
    /// The client's frames, until the WebSocket is closed.
    pub frames: FrameReceiver,
    /// Sender for the client. `None` once the WebSocket must be closed; the client's earlier frames are still read.
    pub replies: Option<ReplySender>,
}

/// Sender for the frames to a client.
#[derive(Debug)]
pub(in crate::embedded) struct ReplySender {
    frames: mpsc::Sender<QueuedReply>,
    shared: Arc<ReplyState>,
}

/// A frame for a client, and its size as counted.
#[derive(Debug)]
struct QueuedReply(SignalFrame, usize);

#[derive(Debug, Default)]
struct ReplyState {
    /// Buffered bytes for the client.
    bytes: AtomicUsize,
    /// The limit that the client exceeded, as the reason for its disconnection.
    excess: OnceLock<Excess>,
}

/// The client does not read its messages.
#[derive(Debug)]
pub(super) struct Unread;

impl FrameSender {
    /// Forwards a frame, once its bytes fit.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn send(&self, frame: SignalFrame) -> Result<(), SessionEnded> {
        // A frame above the limit takes all permits, and is rejected by its size later. More than all would never be
        // granted.
        let bytes = u32::try_from(frame.len()).map_or(FRAME_BYTES, |bytes| bytes.min(FRAME_BYTES));
        let permit = Arc::clone(&self.capacity)
            .acquire_many_owned(bytes)
            .await
            .map_err(|_| SessionEnded)?;
        self.frames
            .send(QueuedFrame {
                frame,
                _permit: permit,
            })
            .await
            .map_err(|_| SessionEnded)
    }
}

impl FrameReceiver {
    /// Waits for the next frame; `None` once the WebSocket is closed.
    pub async fn recv(&mut self) -> Option<SignalFrame> {
        self.0.recv().await.map(|queued| queued.frame)
    }

    /// Returns the next frame, if there is one.
    pub fn try_recv(&mut self) -> Option<SignalFrame> {
        self.0.try_recv().ok().map(|queued| queued.frame)
    }
}

impl Replies {
    /// Waits for the next frame; `None` after the last one.
    pub async fn recv(&mut self) -> Option<SignalFrame> {
        let reply = self.frames.recv().await?;
        Some(self.take(reply))
    }

    /// Returns the next frame, if there is one.
    pub fn try_recv(&mut self) -> Option<SignalFrame> {
        let reply = self.frames.try_recv().ok()?;
        Some(self.take(reply))
    }

    /// Returns the limit that the client exceeded, as the reason for its disconnection.
    pub fn excess(&self) -> Option<Excess> {
        self.shared.excess.get().copied()
    }

    fn take(&self, QueuedReply(frame, counted): QueuedReply) -> SignalFrame {
        // Relaxed: the counter is a limit and orders nothing.
        self.shared.bytes.fetch_sub(counted, Ordering::Relaxed);
        frame
    }
}

impl ReplySender {
    /// Queues a frame. A snapshot's bytes are not counted, since it is sent once per WebSocket. A frame for a closed
    /// WebSocket is dropped.
    pub(super) fn send(&self, frame: SignalFrame, is_snapshot: bool) -> Result<(), Unread> {
        let counted = if is_snapshot { 0 } else { frame.len() };
        // Nothing is subtracted again on failure: the connection is closed then.
        if self.shared.bytes.fetch_add(counted, Ordering::Relaxed) + counted > REPLY_BYTES {
            return Err(Unread);
        }
        match self.frames.try_send(QueuedReply(frame, counted)) {
            // The session notices a closed WebSocket when its frames end.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Unread),
        }
    }

    /// Records the reason for the disconnection.
    pub(super) fn record_excess_reason(&self, excess: Excess) {
        // The first reason counts.
        let _ = self.shared.excess.set(excess);
    }
}

/// Creates a connection's two sides.
pub(super) fn connection() -> (SignalConnection, Socket) {
    let ((frames, from_client), (to_client, replies)) =
        (mpsc::channel(FRAMES), mpsc::channel(REPLIES));
    // The session's side adds a frame's bytes, the WebSocket's side subtracts them.
    let shared = Arc::<ReplyState>::default();
    let replies = Replies {
        frames: replies,
        shared: Arc::clone(&shared),
    };
    let sender = ReplySender {
        frames: to_client,
        shared,
    };
    let frames = FrameSender {
        frames,
        capacity: Arc::new(Semaphore::new(FRAME_BYTES as usize)),
    };
    (
        SignalConnection { frames, replies },
        Socket {
            frames: FrameReceiver(from_client),
            replies: Some(sender),
        },
    )
}

/// Maximum buffered inputs for a session.
const CAPACITY: usize = 4_096;

/// An input for a session's task.
#[derive(Debug)]
pub(in crate::embedded) enum SessionInput {
    /// A notice from the room state.
    Notice(ClientNotice),
    /// A media worker's event about the participant's transports.
    Media(PeerEvent),
    /// Changed speakers in the room.
    Speakers(Arc<[Speaker]>),
    /// Changed connection qualities in the room.
    Qualities(Arc<[PeerQuality]>),
    /// The participant's published kilobits in the last second.
    PublishRate(u32),
    /// A resuming client's new WebSocket.
    Attach(Box<(JoinParameters, Socket)>),
    /// The server is stopping.
    Stop,
}

/// Channels to a room's sessions. No other lock is taken while its lock is held.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Sessions(Mutex<HashMap<ParticipantSid, mpsc::Sender<SessionInput>>>);

impl Sessions {
    /// Adds a session and returns its inputs.
    pub fn add(&self, sid: &ParticipantSid) -> mpsc::Receiver<SessionInput> {
        let (channel, inputs) = mpsc::channel(CAPACITY);
        self.0.lock().insert(sid.clone(), channel);
        inputs
    }

    /// Removes a finished session.
    pub fn remove(&self, sid: &ParticipantSid) {
        self.0.lock().remove(sid);
    }

    /// Sends an input to a session, and returns whether it was accepted. A session that does not keep up loses its
    /// channel, which ends it.
    pub fn send(&self, sid: &ParticipantSid, input: SessionInput) -> bool {
        // Never waits: the callers are media workers' threads and calls under a room's lock.
        let mut channels = self.0.lock();
        let sent = channels
            .get(sid)
            .map(|channel| channel.try_send(input).is_ok());
        // Dropping notices instead would leave the client with an outdated room.
        if sent == Some(false) {
            channels.remove(sid);
        }
        sent.unwrap_or_default()
    }

    /// Sends an input to all sessions.
    pub fn broadcast(&self, input: impl Fn() -> SessionInput) {
        self.0
            .lock()
            .retain(|_, channel| channel.try_send(input()).is_ok());
    }

    /// Sends a media worker's event to the sessions that it concerns.
    pub fn handle_event(&self, event: Event) {
        match event {
            Event::Peer { peer, event, .. } => {
                self.send(&peer, SessionInput::Media(event));
            }
            Event::Room {
                event: RoomEvent::SpeakersChanged(speakers),
                ..
            } => {
                // Shared: a room with 1,000 clients gets one list, not 1,000 copies.
                let speakers: Arc<[_]> = speakers.into();
                self.broadcast(|| SessionInput::Speakers(Arc::clone(&speakers)));
            }
            Event::Room {
                event: RoomEvent::ConnectionQuality(qualities),
                ..
            } => {
                let qualities: Arc<[_]> = qualities.into();
                self.broadcast(|| SessionInput::Qualities(Arc::clone(&qualities)));
            }
            Event::Room {
                event: RoomEvent::PublishRates(rates),
                ..
            } => {
                // Only to the publisher's own session, which compares the rate with its limit.
                for rate in rates {
                    self.send(&rate.peer, SessionInput::PublishRate(rate.kbps));
                }
            }
            // For the store, not for clients.
            Event::Quality(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> SignalFrame {
        SignalFrame::Binary(vec![0; bytes])
    }

    /// Proves S-52.
    #[test]
    fn the_bytes_that_wait_for_a_client_are_bounded_besides_the_list_of_the_participants() {
        let (mut connection, socket) = connection();
        let replies = socket.replies.unwrap();
        replies.send(frame(8 * REPLY_BYTES), true).unwrap();
        replies.send(frame(REPLY_BYTES / 2), false).unwrap();
        replies.send(frame(REPLY_BYTES / 2), false).unwrap();
        assert!(replies.send(frame(1), false).is_err());
        let received =
            std::iter::from_fn(|| connection.replies.try_recv()).map(|frame| frame.len());
        assert_eq!(
            received.collect::<Vec<_>>(),
            [8 * REPLY_BYTES, REPLY_BYTES / 2, REPLY_BYTES / 2]
        );
    }

    #[tokio::test]
    async fn the_bytes_that_wait_for_a_session_are_bounded() {
        let (connection, mut socket) = connection();
        let mebibyte = || frame(1024 * 1024);
        for _ in 0..4 {
            connection.frames.send(mebibyte()).await.unwrap();
        }
        let mut waiting = std::pin::pin!(connection.frames.send(mebibyte()));
        let is_waiting = std::future::poll_fn(|context| {
            std::task::Poll::Ready(
                std::future::Future::poll(waiting.as_mut(), context).is_pending(),
            )
        });
        assert!(is_waiting.await);
        assert!(socket.frames.try_recv().is_some());
        waiting.await.unwrap();
        drop(socket);
        assert_eq!(connection.frames.send(mebibyte()).await, Err(SessionEnded));
    }

    #[test]
    fn frames_that_are_read_make_room() {
        let (mut connection, socket) = connection();
        let replies = socket.replies.unwrap();
        for _ in 0..10 {
            replies.send(frame(REPLY_BYTES), false).unwrap();
            assert!(connection.replies.try_recv().is_some());
        }
        for _ in 0..REPLIES {
            replies.send(frame(1), false).unwrap();
        }
        assert!(
            replies.send(frame(1), false).is_err(),
            "their number is bounded, too"
        );
    }
}
