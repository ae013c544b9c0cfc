//! Interface between a running egress and the rest of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel as unbounded};
use std::time::{Duration, Instant};

use conclave_model::egress::EgressStatus;
use conclave_model::participant::TrackSource;
use conclave_model::{EgressId, Identity, ParticipantSid, TrackSid};
use conclave_sfu::{Codec, PacketSink, RecordedPacket, TrackSettings};

use crate::progress::{EgressProgress, EgressTotals};

// Packets buffered before video is dropped: about a second in a large room.
const VIDEO_QUEUE: usize = 8_192;
// Packets buffered before audio is dropped: about a minute with 20 microphones. An audio packet
// takes some 300 bytes, so this is 20 MB at most.
const AUDIO_QUEUE: usize = 65_536;

/// Participant recorded by an egress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputParticipant {
    /// Session sid.
    pub sid: ParticipantSid,
    /// Identity in the room.
    pub identity: Identity,
    /// Display name; empty if the participant has none.
    pub name: String,
    /// Tracks sent to the egress.
    pub tracks: Vec<InputTrack>,
}

/// Track sent to an egress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputTrack {
    /// Track sid.
    pub sid: TrackSid,
    /// Source, such as the camera.
    pub source: TrackSource,
    /// Packet codec.
    pub codec: Codec,
    /// Whether the publisher has muted the track.
    pub is_muted: bool,
}

/// Egress state change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressEvent {
    /// Media is being written or sent.
    Active,
    /// The egress ended.
    Ended {
        /// Final status.
        status: EgressStatus,
        /// Failure reason, without URLs, which may contain stream keys.
        error: Option<String>,
    },
}

/// Egress callbacks, called on its thread.
pub trait EgressHost: Send + Sync + 'static {
    /// Handles an event. The last one is [`EgressEvent::Ended`].
    fn handle(&self, egress: &EgressId, event: EgressEvent);

    /// Requests the layer that fits these settings.
    fn set_layer(
        &self,
        egress: &EgressId,
        track: (&ParticipantSid, &TrackSid),
        settings: TrackSettings,
    );

    /// Requests a track's key frame.
    fn request_key_frame(&self, egress: &EgressId, track: (&ParticipantSid, &TrackSid));
}

/// Message to an egress.
#[derive(Debug)]
pub(crate) enum EgressMessage {
    /// New participants and tracks.
    Inputs {
        /// Recorded participants.
        inputs: Vec<InputParticipant>,
        /// Whether the room has no participants at all, recorded or not.
        is_room_empty: bool,
    },
    /// Request to pause or to resume at this moment, even if it is handled later.
    SetPaused(bool, Instant),
    /// Request to stop at this moment, even if it is handled later.
    Stop(Instant),
}

/// Receiving ends for an egress's queues.
pub(crate) struct EgressQueues {
    pub packets: PacketReceiver,
    pub messages: Receiver<EgressMessage>,
    pub progress: Arc<EgressProgress>,
}

/// Packets buffered for an egress.
pub(crate) struct PacketReceiver {
    receiver: Receiver<RecordedPacket>,
    waiting: Arc<AtomicUsize>,
}

impl PacketReceiver {
    /// Returns the next packet, if one is queued.
    pub fn take(&self) -> Option<RecordedPacket> {
        self.receiver
            .try_recv()
            .ok()
            .inspect(|_| self.count_taken())
    }

    /// Waits for the next packet.
    pub fn wait(&self, timeout: Duration) -> Result<RecordedPacket, RecvTimeoutError> {
        self.receiver
            .recv_timeout(timeout)
            .inspect(|_| self.count_taken())
    }

    /// Counts the queued packets.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn count_taken(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

struct PacketQueue {
    packets: Sender<RecordedPacket>,
    waiting: Arc<AtomicUsize>,
    progress: Arc<EgressProgress>,
}

impl PacketSink for PacketQueue {
    fn try_send(&self, packet: RecordedPacket) -> bool {
        // Video continues at the next key frame after a loss, but lost audio is silence for good.
        // So audio may use more of the queue.
        let limit = if packet.codec == Codec::Opus {
            AUDIO_QUEUE
        } else {
            VIDEO_QUEUE
        };
        // Counted before it is sent, so that several media workers cannot exceed the limit
        // together.
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < limit;
        let was_sent = has_room && self.packets.send(packet).is_ok();
        if !was_sent {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.progress
                .dropped_packets
                .fetch_add(1, Ordering::Relaxed);
        }
        was_sent
    }
}

/// Handle to a running egress, which stops on request or when this is dropped.
pub struct EgressHandle {
    messages: Sender<EgressMessage>,
    sink: Arc<PacketQueue>,
    progress: Arc<EgressProgress>,
}

impl EgressHandle {
    /// Returns the sink for packets from media workers.
    pub fn sink(&self) -> Arc<dyn PacketSink> {
        Arc::<PacketQueue>::clone(&self.sink)
    }

    /// Replaces the recorded participants and tracks. `is_room_empty` starts the timeout for empty
    /// rooms.
    pub fn set_inputs(&self, inputs: Vec<InputParticipant>, is_room_empty: bool) {
        // The egress may have ended on its own.
        let _ = self.messages.send(EgressMessage::Inputs {
            inputs,
            is_room_empty,
        });
    }

    /// Pauses or resumes the egress at this moment.
    pub fn set_paused(&self, paused: bool) {
        let _ = self
            .messages
            .send(EgressMessage::SetPaused(paused, Instant::now()));
    }

    /// Stops the egress at this moment.
    pub fn stop(&self) {
        let _ = self.messages.send(EgressMessage::Stop(Instant::now()));
    }

    /// Returns the egress's counters.
    pub fn progress(&self) -> &Arc<EgressProgress> {
        &self.progress
    }
}

/// Creates both ends for an egress's queues. Frames also count in `totals`.
pub(crate) fn egress_queues(totals: Arc<EgressTotals>) -> (EgressHandle, EgressQueues) {
    let ((packets, receiver), (message_sender, messages)) = (unbounded(), unbounded());
    let (waiting, progress) = (
        Arc::<AtomicUsize>::default(),
        Arc::new(EgressProgress::new(totals)),
    );
    let sink = Arc::new(PacketQueue {
        packets,
        waiting: Arc::clone(&waiting),
        progress: Arc::clone(&progress),
    });
    let packets = PacketReceiver { receiver, waiting };
    (
        EgressHandle {
            messages: message_sender,
            sink,
            progress: Arc::clone(&progress),
        },
        EgressQueues {
            packets,
            messages,
            progress,
        },
    )
}
