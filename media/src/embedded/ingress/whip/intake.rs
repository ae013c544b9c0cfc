//! Private rooms of media workers: an encoder whose video is transcoded connects to one, so that no subscriber receives its original
//! media.

use std::sync::Arc;

use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, TrackSid};
use conclave_sfu::{
    Command, NewRecorder, PacketSink, PeerCommand, PeerEvent, RecordedPacket, RoomHandle,
    TrackSettings,
};
use tokio::sync::mpsc;

use crate::embedded::plane::Inner;
use crate::embedded::room::Directory;

/// Capacity of the packet queue: some seconds of video.
const QUEUE: usize = 4_096;
/// Recorder id of the tracks at the media worker, unique per track.
const RECORDER: &str = "intake";

/// A private room with one encoder's connection. Dropping it closes the connection.
pub(super) struct Intake {
    rooms: Arc<Directory>,
    name: NamespacedRoom,
    /// Handle to the media worker; `None` without media workers, in which case no offer is answered.
    media: Option<RoomHandle>,
    peer: ParticipantSid,
    packets: Arc<Packets>,
}

/// Queues that an intake fills.
pub(super) struct IntakeQueues {
    /// The events of the connection.
    pub events: mpsc::Receiver<PeerEvent>,
    /// The packets of the tracks.
    pub packets: mpsc::Receiver<RecordedPacket>,
}

struct Packets(mpsc::Sender<RecordedPacket>);

impl PacketSink for Packets {
    fn try_send(&self, packet: RecordedPacket) -> bool {
        self.0.try_send(packet).is_ok()
    }
}

impl Intake {
    /// Opens a private room for a peer, in the same project as the room that its encoder publishes to.
    pub fn open(
        inner: &Inner,
        beside: &NamespacedRoom,
        peer: ParticipantSid,
    ) -> (Self, IntakeQueues) {
        let name = NamespacedRoom::random(&beside.split().0);
        let (sender, packets) = mpsc::channel(QUEUE);
        let queues = IntakeQueues {
            events: inner.rooms.add_intake(&name),
            packets,
        };
        let intake = Self {
            rooms: Arc::clone(&inner.rooms),
            media: inner
                .workers
                .as_ref()
                .map(|workers| workers.open_room(&name)),
            name,
            peer,
            packets: Arc::new(Packets(sender)),
        };
        (intake, queues)
    }

    /// Sends a command to the media worker.
    pub fn send(&self, command: Command) {
        if let Some(media) = &self.media {
            media.send(command);
        }
    }

    /// Starts receiving packets of a negotiated track, in its best layer.
    pub fn record(&self, track: TrackSid) {
        let Some(egress) = recorder() else { return };
        let recorder = NewRecorder {
            egress,
            settings: TrackSettings::default(),
            sink: Arc::clone(&self.packets) as Arc<dyn PacketSink>,
        };
        self.send(PeerCommand::AttachRecorder { track, recorder }.for_peer(self.peer.clone()));
    }

    /// Requests a key frame from the encoder.
    pub fn request_key_frame(&self, track: TrackSid) {
        let Some(egress) = recorder() else { return };
        self.send(PeerCommand::RequestKeyFrame { track, egress }.for_peer(self.peer.clone()));
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.rooms.remove_intake(&self.name);
    }
}

/// Returns the recorder id, which always parses.
fn recorder() -> Option<EgressId> {
    RECORDER.parse().ok()
}
