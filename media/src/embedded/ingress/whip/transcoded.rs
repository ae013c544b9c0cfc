//! Media path of a transcoded session: from the intake through ffmpeg to the visible participant.

use std::sync::Arc;
use std::time::Instant;

use conclave_model::{ParticipantSid, ProjectId};
use conclave_sfu::{Codec, Command, PeerEvent, RecordedPacket, SourcePacket};

use super::intake::{Intake, IntakeQueues};
use super::pictures::TranscodedMedia;
use super::profiles::OfferedProfiles;
use crate::embedded::ingress::encoder::EncoderPublisher;
use crate::embedded::ingress::transcoding::TranscodeError;
use crate::embedded::ingress::transcoding::transcoder::Transcoded;
use crate::embedded::plane::Inner;
use crate::embedded::room::Room;

/// Media of a session whose video is transcoded.
pub(super) struct TranscodedSession {
    intake: Intake,
    queues: IntakeQueues,
    media: TranscodedMedia,
    project: ProjectId,
    /// The visible participant.
    pub publisher: EncoderPublisher,
    /// Codec profiles of the encoder's offer.
    pub profiles: OfferedProfiles,
}

/// Event of a transcoded session.
pub(super) enum TranscodedWake {
    /// An event of the connection; `None` if its queue overflowed.
    Event(Option<PeerEvent>),
    /// A packet of the encoder.
    Packet(RecordedPacket),
    /// Output of ffmpeg, or its final failure.
    Made(Result<Transcoded, TranscodeError>),
}

impl TranscodedSession {
    /// Opens an intake for a peer, whose media the publisher forwards.
    pub fn open(
        inner: &Inner,
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

    /// Returns the next event.
    pub async fn next(&mut self) -> TranscodedWake {
        tokio::select! {
            event = self.queues.events.recv() => TranscodedWake::Event(event),
            Some(packet) = self.queues.packets.recv() => TranscodedWake::Packet(packet),
            made = self.media.next() => TranscodedWake::Made(made),
        }
    }

    /// Sends a command to the intake's media worker.
    pub fn send(&self, command: Command) {
        self.intake.send(command);
    }

    /// Handles an event of the connection. The participant joins once the encoder is connected.
    pub fn handle_event(&mut self, inner: &Arc<Inner>, room: &Arc<Room>, event: &PeerEvent) {
        match event {
            PeerEvent::Connected => {
                inner.call_in(room, |machine, _| self.publisher.join(machine));
            }
            PeerEvent::TrackPublished { track, .. } => self.intake.record(track.clone()),
            _ => {}
        }
    }

    /// Handles a packet of the encoder.
    ///
    /// # Errors
    /// The video cannot be transcoded.
    pub async fn push(
        &mut self,
        inner: &Arc<Inner>,
        room: &Arc<Room>,
        packet: RecordedPacket,
    ) -> Result<(), TranscodeError> {
        self.publisher.note_heard();
        let sound = self.media.push(inner, &self.project, packet).await?;
        self.forward(inner, room, Codec::Opus, sound);
        if let Some(track) = self.media.awaited_key_frame(Instant::now()) {
            self.intake.request_key_frame(track);
        }
        Ok(())
    }

    /// Forwards an output of ffmpeg.
    pub fn forward_made(&mut self, inner: &Arc<Inner>, room: &Arc<Room>, made: &Transcoded) {
        let packets = self.media.packets(made);
        self.forward(inner, room, Codec::H264, packets);
    }

    fn forward(
        &mut self,
        inner: &Arc<Inner>,
        room: &Arc<Room>,
        codec: Codec,
        packets: Vec<SourcePacket>,
    ) {
        self.publisher.forward_in(inner, room, codec, packets);
    }
}
