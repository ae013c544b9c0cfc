//! The channels between a websocket and a session, and those to the sessions of a room.

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

/// Number of frames from a client that wait for its session: more than a client may send at once, so that reading goes on while
/// the session is busy.
const FRAMES: usize = 4_096;
/// Bytes of a client that wait for its session; more than a message may have.
const FRAME_BYTES: u32 = 4 * 1024 * 1024;
/// Number of frames that wait for a client.
const REPLIES: usize = 1_024;
/// Bytes that wait for a client, besides what it needs first: the list of the participants, which is as large as the room.
const REPLY_BYTES: usize = 2 * 1024 * 1024;

/// A frame of a websocket: a `SignalRequest` of the client, or a `SignalResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalFrame {
    /// In the binary format of protocol buffers.
    Binary(Vec<u8>),
    /// In their JSON format. A client that sends it is answered in it from then on.
    Text(String),
}

impl SignalFrame {
    /// Returns a frame of a client without a request. Its session learns by it that the client is there.
    pub const fn sign_of_life() -> Self {
        Self::Binary(Vec::new())
    }

    /// The number of its bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Binary(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
        }
    }
}

/// A session's side of a websocket, for the one that has the websocket.
#[derive(Debug)]
pub struct SignalConnection {
    /// Takes the client's frames. Dropped when the websocket is closed.
    pub frames: FrameSender,
    /// Gives the frames for the client. After the last one, the websocket is to be closed.
    pub replies: Replies,
}

/// Takes the frames of a client.
#[derive(Debug)]
pub struct FrameSender {
    frames: mpsc::Sender<QueuedFrame>,
    room: Arc<Semaphore>,
}

/// Gives the frames of a client.
#[derive(Debug)]
pub(in crate::embedded) struct FrameReceiver(mpsc::Receiver<QueuedFrame>);

/// A frame of a client, and the room that it takes while it waits.
#[derive(Debug)]
struct QueuedFrame {
    frame: SignalFrame,
    _room: OwnedSemaphorePermit,
}

/// The session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is over")]
pub struct SessionEnded;

/// The frames for a client.
#[derive(Debug)]
pub struct Replies {
    frames: mpsc::Receiver<QueuedReply>,
    shared: Arc<Shared>,
}

/// The other side of a [`SignalConnection`].
#[derive(Debug)]
pub(in crate::embedded) struct Socket {
    /// Gives the client's frames, until the websocket is closed.
    pub frames: FrameReceiver,
    /// Takes the frames for the client. `None` once the websocket is to be closed; what the client has sent until then is read on.
    pub replies: Option<ReplySender>,
}

/// Takes the frames for a client.
#[derive(Debug)]
pub(in crate::embedded) struct ReplySender {
    frames: mpsc::Sender<QueuedReply>,
    shared: Arc<Shared>,
}

/// A frame for a client, and how many of its bytes are counted.
#[derive(Debug)]
struct QueuedReply(SignalFrame, usize);

#[derive(Debug, Default)]
struct Shared {
    /// The bytes that wait for the client.
    bytes: AtomicUsize,
    /// Why the client is disconnected, if it has exceeded what it may send or leave unread.
    excess: OnceLock<Excess>,
}

/// The client does not read.
#[derive(Debug)]
pub(super) struct Unread;

impl FrameSender {
    /// Passes on a frame, once there is room for it.
    ///
    /// # Errors
    /// The session is over.
    pub async fn send(&self, frame: SignalFrame) -> Result<(), SessionEnded> {
        let bytes = u32::try_from(frame.len()).map_or(FRAME_BYTES, |bytes| bytes.min(FRAME_BYTES));
        let room = Arc::clone(&self.room)
            .acquire_many_owned(bytes)
            .await
            .map_err(|_| SessionEnded)?;
        self.frames
            .send(QueuedFrame { frame, _room: room })
            .await
            .map_err(|_| SessionEnded)
    }
}

impl FrameReceiver {
    /// Returns the next frame, once there is one; `None` once the websocket is closed.
    pub async fn recv(&mut self) -> Option<SignalFrame> {
        self.0.recv().await.map(|queued| queued.frame)
    }

    /// Returns the next frame, if there is one.
    pub fn try_recv(&mut self) -> Option<SignalFrame> {
        self.0.try_recv().ok().map(|queued| queued.frame)
    }
}

impl Replies {
    /// Returns the next frame, once there is one; `None` after the last one.
    pub async fn recv(&mut self) -> Option<SignalFrame> {
        let reply = self.frames.recv().await?;
        Some(self.take(reply))
    }

    /// Returns the next frame, if there is one.
    pub fn try_recv(&mut self) -> Option<SignalFrame> {
        let reply = self.frames.try_recv().ok()?;
        Some(self.take(reply))
    }

    /// Returns why the client is disconnected, if it has exceeded what it may send or leave unread.
    pub fn excess(&self) -> Option<Excess> {
        self.shared.excess.get().copied()
    }

    fn take(&self, QueuedReply(frame, counted): QueuedReply) -> SignalFrame {
        self.shared.bytes.fetch_sub(counted, Ordering::Relaxed);
        frame
    }
}

impl ReplySender {
    /// Queues a frame. Of a snapshot, which comes once for a websocket, the bytes are not counted. A frame for a websocket that
    /// is closed is dropped.
    pub(super) fn send(&self, frame: SignalFrame, is_snapshot: bool) -> Result<(), Unread> {
        let counted = if is_snapshot { 0 } else { frame.len() };
        if self.shared.bytes.fetch_add(counted, Ordering::Relaxed) + counted > REPLY_BYTES {
            return Err(Unread);
        }
        match self.frames.try_send(QueuedReply(frame, counted)) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Unread),
        }
    }

    /// Notes why the client is disconnected.
    pub(super) fn note_excess(&self, excess: Excess) {
        // The first reason counts.
        let _ = self.shared.excess.set(excess);
    }
}

/// Returns both sides of a connection.
pub(super) fn connection() -> (SignalConnection, Socket) {
    let ((frames, from_client), (to_client, replies)) =
        (mpsc::channel(FRAMES), mpsc::channel(REPLIES));
    let shared = Arc::<Shared>::default();
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
        room: Arc::new(Semaphore::new(FRAME_BYTES as usize)),
    };
    (
        SignalConnection { frames, replies },
        Socket {
            frames: FrameReceiver(from_client),
            replies: Some(sender),
        },
    )
}

/// Number of inputs that wait for a session.
const CAPACITY: usize = 4_096;

/// What a session's task has to handle.
#[derive(Debug)]
pub(in crate::embedded) enum Input {
    /// The machine notifies the client.
    Notice(ClientNotice),
    /// The media worker reports an event of the participant's transports.
    Media(PeerEvent),
    /// Participants of the room began or ceased to speak.
    Speakers(Arc<[Speaker]>),
    /// The connections of participants of the room have changed.
    Qualities(Arc<[PeerQuality]>),
    /// What the participant published in the last second, in kilobits.
    PublishRate(u32),
    /// A new websocket, with which the client resumes.
    Attach(Box<(JoinParameters, Socket)>),
    /// The server stops.
    Stop,
}

/// The channels to the sessions of a room. Its lock is held for a look-up and never while another is taken.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Sessions(Mutex<HashMap<ParticipantSid, mpsc::Sender<Input>>>);

impl Sessions {
    /// Adds a session and returns its inputs.
    pub fn add(&self, sid: &ParticipantSid) -> mpsc::Receiver<Input> {
        let (channel, inputs) = mpsc::channel(CAPACITY);
        self.0.lock().insert(sid.clone(), channel);
        inputs
    }

    /// Removes a session that is over.
    pub fn remove(&self, sid: &ParticipantSid) {
        self.0.lock().remove(sid);
    }

    /// Sends an input to a session, and returns whether there is one that takes it. One that does not keep up loses its channel, by
    /// which it ends.
    pub fn send(&self, sid: &ParticipantSid, input: Input) -> bool {
        let mut channels = self.0.lock();
        let sent = channels
            .get(sid)
            .map(|channel| channel.try_send(input).is_ok());
        if sent == Some(false) {
            channels.remove(sid);
        }
        sent.unwrap_or_default()
    }

    /// Sends an input to all sessions.
    pub fn broadcast(&self, input: impl Fn() -> Input) {
        self.0
            .lock()
            .retain(|_, channel| channel.try_send(input()).is_ok());
    }

    /// Passes an event of a media worker to the sessions that it concerns.
    pub fn handle_event(&self, event: Event) {
        match event {
            Event::Peer { peer, event, .. } => {
                self.send(&peer, Input::Media(event));
            }
            Event::Room {
                event: RoomEvent::SpeakersChanged(speakers),
                ..
            } => {
                let speakers: Arc<[_]> = speakers.into();
                self.broadcast(|| Input::Speakers(Arc::clone(&speakers)));
            }
            Event::Room {
                event: RoomEvent::ConnectionQuality(qualities),
                ..
            } => {
                let qualities: Arc<[_]> = qualities.into();
                self.broadcast(|| Input::Qualities(Arc::clone(&qualities)));
            }
            Event::Room {
                event: RoomEvent::PublishRates(rates),
                ..
            } => {
                for rate in rates {
                    self.send(&rate.peer, Input::PublishRate(rate.kbps));
                }
            }
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
