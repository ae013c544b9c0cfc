//! The interface of a running egress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel as unbounded};
use std::time::{Duration, Instant};

use conclave_model::egress::EgressStatus;
use conclave_model::participant::TrackSource;
use conclave_model::{EgressId, Identity, ParticipantSid, TrackSid};
use conclave_sfu::{Codec, PacketSink, RecordedPacket, TrackSettings};

use crate::progress::{Progress, Totals};

/// Packets of an egress that wait for its thread, before video is dropped: about a second of a large room.
const QUEUE: usize = 8_192;
/// The same, before audio is dropped: about a minute of 20 microphones. A packet of audio takes some 300 bytes.
const AUDIO_QUEUE: usize = 65_536;

/// A participant that an egress may contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attendee {
    /// The sid of the join.
    pub sid: ParticipantSid,
    /// The identity of the participant.
    pub identity: Identity,
    /// The name that is shown; empty if it has none.
    pub name: String,
    /// The tracks that the egress gets.
    pub tracks: Vec<AttendeeTrack>,
}

/// A track that an egress gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttendeeTrack {
    /// The sid of the track.
    pub sid: TrackSid,
    /// The device or screen.
    pub source: TrackSource,
    /// The codec of its packets.
    pub codec: Codec,
    /// Whether nothing of it is sent.
    pub is_muted: bool,
}

/// Something that happened to an egress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// Media is written or sent.
    Active,
    /// It has ended.
    Ended {
        /// The final status.
        status: EgressStatus,
        /// Why it failed, without urls.
        error: Option<String>,
    },
}

/// The server around an egress. Called on the thread of the egress.
pub trait EgressHost: Send + Sync + 'static {
    /// Takes an event of an egress. The last one is [`JobEvent::Ended`].
    fn handle(&self, egress: &EgressId, event: JobEvent);

    /// Chooses the layer of a track that an egress gets.
    fn set_layer(
        &self,
        egress: &EgressId,
        track: (&ParticipantSid, &TrackSid),
        settings: TrackSettings,
    );

    /// Requests a key frame of a track.
    fn request_key_frame(&self, egress: &EgressId, track: (&ParticipantSid, &TrackSid));
}

/// News for an egress.
#[derive(Debug)]
pub(crate) enum News {
    /// The participants and tracks that it contains from now on.
    Attendance {
        /// Those of the room that it may contain.
        attendees: Vec<Attendee>,
        /// Whether the room has no participants at all.
        is_room_empty: bool,
    },
    /// It is to end at this moment, however much later it learns of it.
    Stop(Instant),
}

/// The queues of an egress, at its own end.
pub(crate) struct Inputs {
    pub packets: Packets,
    pub news: Receiver<News>,
    pub progress: Arc<Progress>,
}

/// The packets that wait for an egress.
pub(crate) struct Packets {
    receiver: Receiver<RecordedPacket>,
    waiting: Arc<AtomicUsize>,
}

impl Packets {
    /// Returns the next packet, if one waits.
    pub fn take(&self) -> Option<RecordedPacket> {
        self.receiver
            .try_recv()
            .ok()
            .inspect(|_| self.count_taken())
    }

    /// Returns the next packet, for which it waits so long.
    pub fn wait(&self, timeout: Duration) -> Result<RecordedPacket, RecvTimeoutError> {
        self.receiver
            .recv_timeout(timeout)
            .inspect(|_| self.count_taken())
    }

    /// Returns how many packets wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn count_taken(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Queue {
    packets: Sender<RecordedPacket>,
    waiting: Arc<AtomicUsize>,
    progress: Arc<Progress>,
}

impl PacketSink for Queue {
    fn try_send(&self, packet: RecordedPacket) -> bool {
        // Video that is lost goes on at the next key frame; what is lost of audio is silence.
        let limit = if packet.codec == Codec::Opus {
            AUDIO_QUEUE
        } else {
            QUEUE
        };
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

/// A running egress. It ends when it is stopped or this is dropped.
pub struct JobHandle {
    news: Sender<News>,
    sink: Arc<Queue>,
    progress: Arc<Progress>,
}

impl JobHandle {
    /// Returns where packets go.
    pub fn sink(&self) -> Arc<dyn PacketSink> {
        Arc::<Queue>::clone(&self.sink)
    }

    /// Sets the participants and tracks that it contains from now on, and whether the room has no participants at all.
    pub fn set_attendance(&self, attendees: Vec<Attendee>, is_room_empty: bool) {
        // One that has ended does not care.
        let _ = self.news.send(News::Attendance {
            attendees,
            is_room_empty,
        });
    }

    /// Lets it end.
    pub fn stop(&self) {
        let _ = self.news.send(News::Stop(Instant::now()));
    }

    /// Returns what it has done.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

/// Creates the queues of an egress, whose frames are also counted in `totals`.
pub(crate) fn channel(totals: Arc<Totals>) -> (JobHandle, Inputs) {
    let ((packets, receiver), (news_sender, news)) = (unbounded(), unbounded());
    let (waiting, progress) = (
        Arc::<AtomicUsize>::default(),
        Arc::new(Progress::new(totals)),
    );
    let sink = Arc::new(Queue {
        packets,
        waiting: Arc::clone(&waiting),
        progress: Arc::clone(&progress),
    });
    let packets = Packets { receiver, waiting };
    (
        JobHandle {
            news: news_sender,
            sink,
            progress: Arc::clone(&progress),
        },
        Inputs {
            packets,
            news,
            progress,
        },
    )
}
