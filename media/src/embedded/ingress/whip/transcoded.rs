//! A transcoded session's media path: from the intake through ffmpeg to the visible participant. The intake is a
//! private room at a media worker, so that no subscriber receives the encoder's original media.

use std::sync::Arc;
use std::time::Instant;

use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, ProjectId, TrackSid};
use conclave_sfu::{
    Codec, Command, NewRecorder, PacketSink, PeerCommand, PeerEvent, RecordedPacket, RoomHandle,
    SourcePacket, TrackSettings,
};
use tokio::sync::mpsc;

use super::media::TranscodedMedia;
use super::offer::OfferedProfiles;
use crate::embedded::ingress::encoder::EncoderPublisher;
use crate::embedded::ingress::transcoding::TranscodeError;
use crate::embedded::ingress::transcoding::transcoder::Transcoded;
use crate::embedded::plane::core::PlaneCore;
use crate::embedded::room::{Room, RoomDirectory};

/// Media for a session whose video is transcoded.
pub(super) struct TranscodedSession {
    intake: Intake,
    queues: IntakeQueues,
    media: TranscodedMedia,
    project: ProjectId,
    /// The visible participant.
    pub publisher: EncoderPublisher,
    /// Codec profiles in the encoder's offer.
    pub profiles: OfferedProfiles,
}

/// An event in a transcoded session.
pub(super) enum TranscodedWake {
    /// A connection event; `None` if its queue overflowed.
    Event(Option<PeerEvent>),
    /// A packet from the encoder.
    Packet(RecordedPacket),
    /// ffmpeg's output, or its final failure.
    Output(Result<Transcoded, TranscodeError>),
}

impl TranscodedSession {
    /// Opens an intake for a peer, whose media the publisher forwards.
    pub fn open(
        inner: &PlaneCore,
        room: &Room,
        peer: ParticipantSid,
        (publisher, profiles): (EncoderPublisher, OfferedProfiles),
    ) -> Self {
        let (intake, queues) = Intake::open(inner, room.name(), peer);
        Self {
            intake,
            queues,
            media: TranscodedMedia::new(Instant::now()),
            project: room.name().split().0,
            publisher,
            profiles,
        }
    }

    /// Waits for the next event.
    pub async fn next(&mut self) -> TranscodedWake {
        tokio::select! {
            event = self.queues.events.recv() => TranscodedWake::Event(event),
            // Never closed, since the intake itself has a sender.
            Some(packet) = self.queues.packets.recv() => TranscodedWake::Packet(packet),
            output = self.media.next() => TranscodedWake::Output(output),
        }
    }

    /// Sends a command to the intake's media worker.
    pub fn send(&self, command: Command) {
        self.intake.send(command);
    }

    /// Handles a connection event. The participant joins once the encoder is connected.
    pub fn handle_event(&mut self, inner: &Arc<PlaneCore>, room: &Arc<Room>, event: &PeerEvent) {
        match event {
            PeerEvent::Connected => {
                // Only now: an encoder that never connects must not be reported as joined.
                inner.call_in(room, |room_state, _| self.publisher.join(room_state));
            }
            // The visible track is published later, with ffmpeg's first output.
            PeerEvent::TrackPublished { track, .. } => self.intake.record(track.clone()),
            _ => {}
        }
    }

    /// Handles a packet from the encoder.
    ///
    /// # Errors
    /// If the video cannot be transcoded.
    pub async fn push(
        &mut self,
        inner: &Arc<PlaneCore>,
        room: &Arc<Room>,
        packet: RecordedPacket,
    ) -> Result<(), TranscodeError> {
        // The visible participant has no transport from which a media worker could derive the encoder's silence.
        self.publisher.record_data();
        let audio = self.media.push(inner, &self.project, packet).await?;
        self.forward(inner, room, Codec::Opus, audio);
        // After each packet: a gap, a dropped frame or a new size may need a key frame.
        if let Some(track) = self.media.awaited_key_frame(Instant::now()) {
            self.intake.request_key_frame(track);
        }
        Ok(())
    }

    /// Forwards ffmpeg's output.
    pub fn forward_output(
        &mut self,
        inner: &Arc<PlaneCore>,
        room: &Arc<Room>,
        output: &Transcoded,
    ) {
        let packets = self.media.packets(output);
        self.forward(inner, room, Codec::H264, packets);
    }

    fn forward(
        &mut self,
        inner: &Arc<PlaneCore>,
        room: &Arc<Room>,
        codec: Codec,
        packets: Vec<SourcePacket>,
    ) {
        self.publisher.forward_in(inner, room, codec, packets);
    }
}

/// Packet queue capacity: some seconds of video.
const QUEUE: usize = 4_096;
/// Recorder id at the media worker, unique per track.
const RECORDER: &str = "intake";

/// A private room with one encoder's connection. Dropping it closes the connection.
pub(super) struct Intake {
    rooms: Arc<RoomDirectory>,
    name: NamespacedRoom,
    /// Handle to the media worker; `None` without media workers, in which case no offer is answered.
    media: Option<RoomHandle>,
    peer: ParticipantSid,
    packets: Arc<Packets>,
}

/// Queues that an intake fills.
pub(super) struct IntakeQueues {
    /// The connection's events.
    pub events: mpsc::Receiver<PeerEvent>,
    /// The tracks' packets.
    pub packets: mpsc::Receiver<RecordedPacket>,
}

struct Packets(mpsc::Sender<RecordedPacket>);

impl PacketSink for Packets {
    fn try_send(&self, packet: RecordedPacket) -> bool {
        // Never waits: the caller is the media worker's thread. After a lost packet, the worker requests a key frame.
        self.0.try_send(packet).is_ok()
    }
}

impl Intake {
    /// Opens a private room for a peer, in the same project as the encoder's own room.
    pub fn open(
        inner: &PlaneCore,
        publish_room: &NamespacedRoom,
        peer: ParticipantSid,
    ) -> (Self, IntakeQueues) {
        let name = NamespacedRoom::random(&publish_room.split().0);
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
            // The best layer: the output has a single one.
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
