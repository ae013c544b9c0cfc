//! One RTMP encoder's connection: socket, protocol and participant.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::event::Departure;
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::{ClientAddress, ProjectId};
use conclave_sfu::{Codec, PeerEvent, SourcePacket};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{self, timeout};

use super::feed::FlvFeed;
use super::session::{RtmpError, RtmpEvent, RtmpSession};
use super::stream::{MediaAction, MediaStream, Unplayable};
use crate::embedded::ingress::admission;
use crate::embedded::ingress::encoder::EncoderPublisher;
use crate::embedded::ingress::refusal::EncoderRefusal;
use crate::embedded::ingress::transcoding::flv::Medium;
use crate::embedded::ingress::transcoding::packets::{self, VideoPackets};
use crate::embedded::ingress::transcoding::timeline::MediaTime;
use crate::embedded::ingress::transcoding::transcoder::Transcoded;
use crate::embedded::ingress::transcoding::{TranscodeError, Transcoding};
use crate::embedded::join::phases;
use crate::embedded::plane::core::PlaneCore;
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::rtc_metrics::JoinOutcome;
use crate::embedded::signal::channels::SessionInput;

/// Time limit from the connection to the stream key.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit without data while publishing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the encoder to read the server's output.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of audio messages, about two seconds, after which a stream without video counts as audio only.
const AUDIO_WITHOUT_VIDEO: u32 = 100;
/// Size of the read buffer, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// Reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
enum ConnectionEnd {
    /// The encoder ended its stream, or the plane disconnected it.
    #[error("the stream ended")]
    Done,
    /// The encoder closed the connection without ending its stream, or the connection broke.
    #[error("the connection was lost")]
    Lost,
    /// The encoder sent nothing for too long.
    #[error("the encoder sent nothing in time")]
    Silent,
    /// The encoder was refused.
    #[error("{0}")]
    Refused(#[from] EncoderRefusal),
    /// The encoder violated the protocol.
    #[error("{0}")]
    Protocol(#[from] RtmpError),
    /// Receivers cannot play the stream.
    #[error("{0}")]
    Unplayable(String),
}

impl From<io::Error> for ConnectionEnd {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

/// Byte stream from an encoder, with or without TLS.
pub trait EncoderStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> EncoderStream for T {}

/// One RTMP encoder's connection.
pub(super) struct Connection {
    plane: Arc<PlaneCore>,
    stream: Box<dyn EncoderStream>,
    /// The encoder's address.
    address: ClientAddress,
    session: RtmpSession,
    media: MediaStream,
    publisher: Option<AdmittedEncoder>,
    audio: Transcoding,
    audio_feed: FlvFeed,
    video: Transcoding,
    video_feed: FlvFeed,
    /// Packetizer for transcoded video.
    video_packets: VideoPackets,
    /// Reason why the stream continues without audio.
    audio_error: Option<TranscodeError>,
    /// Number of discarded audio messages.
    lost_audio: u32,
    /// Whether the join was reported.
    was_connected: bool,
}

/// An admitted encoder's participant, its room, and its inputs.
struct AdmittedEncoder {
    room: Arc<Room>,
    publisher: EncoderPublisher,
    inputs: mpsc::Receiver<SessionInput>,
}

/// Reason for a connection's wake-up.
enum Wake {
    Read(io::Result<usize>),
    Audio(Result<Transcoded, TranscodeError>),
    Video(Result<Transcoded, TranscodeError>),
    Input(Option<SessionInput>),
    Deadline,
}

impl Connection {
    /// Creates the state of an accepted connection.
    pub fn new(
        plane: Arc<PlaneCore>,
        stream: Box<dyn EncoderStream>,
        address: ClientAddress,
    ) -> Self {
        Self {
            plane,
            stream,
            address,
            session: RtmpSession::new(),
            media: MediaStream::new(),
            publisher: None,
            audio: Transcoding::new(Medium::Audio),
            audio_feed: FlvFeed::new(Medium::Audio),
            video: Transcoding::new(Medium::Video),
            video_feed: FlvFeed::new(Medium::Video),
            video_packets: VideoPackets::default(),
            audio_error: None,
            lost_audio: 0,
            was_connected: false,
        }
    }

    /// Serves the encoder until its connection ends.
    pub async fn run(mut self) {
        let Err(end) = self.serve().await;
        let Some(AdmittedEncoder {
            room, publisher, ..
        }) = &self.publisher
        else {
            log::debug!("RTMP connection ended before the stream started: {end}");
            return;
        };
        let (sid, inner) = (publisher.sid().clone(), &self.plane);
        log::info!(participant = sid.as_str(); "RTMP encoder disconnected: {end}");
        inner.call_in(room, |room_state, now| match &end {
            ConnectionEnd::Done => publisher.end(room_state, Departure::Left, now),
            ConnectionEnd::Lost | ConnectionEnd::Silent | ConnectionEnd::Refused(_) => {
                publisher.end(room_state, Departure::Lost, now);
            }
            // The endpoint keeps the reason, since the encoder's operator sees only a closed connection.
            ConnectionEnd::Protocol(_) | ConnectionEnd::Unplayable(_) => {
                room_state.fail_encoder(&sid, end.to_string(), now);
            }
        });
        room.sessions.remove(&sid);
        if !self.was_connected {
            inner.record(|metrics| metrics.record_join(JoinOutcome::NotConnected));
        }
    }

    async fn serve(&mut self) -> Result<std::convert::Infallible, ConnectionEnd> {
        let mut buffer = vec![0; READ_BYTES];
        let mut heard_at = time::Instant::now();
        loop {
            let patience = if self.publisher.is_some() {
                IDLE_TIMEOUT
            } else {
                HANDSHAKE_TIMEOUT
            };
            let wake = tokio::select! {
                input = next_input(&mut self.publisher) => Wake::Input(input),
                read = self.stream.read(&mut buffer) => Wake::Read(read),
                output = self.audio.next() => Wake::Audio(output),
                output = self.video.next() => Wake::Video(output),
                () = time::sleep_until(heard_at + patience) => Wake::Deadline,
            };
            match wake {
                Wake::Read(read) => {
                    let bytes = read?;
                    // The end of the connection without the end of the stream.
                    if bytes == 0 {
                        return Err(ConnectionEnd::Lost);
                    }
                    // Before an encoder publishes, its time limit runs from the connection, so that single bytes do not
                    // extend it.
                    if let Some(AdmittedEncoder { publisher, .. }) = &self.publisher {
                        heard_at = time::Instant::now();
                        publisher.record_data();
                    }
                    self.receive(buffer.get(..bytes).unwrap_or_default())
                        .await?;
                }
                // The channel is closed if this connection did not keep up with its inputs.
                Wake::Input(input) => self.handle_input(input.ok_or(ConnectionEnd::Lost)?)?,
                Wake::Audio(Ok(output)) | Wake::Video(Ok(output)) => self.forward_output(output),
                // The video continues: losing the audio is better than losing the stream.
                Wake::Audio(Err(error)) => self.give_up_audio(error),
                Wake::Video(Err(error)) => return Err(self.unplayable(&error)),
                Wake::Deadline => return Err(ConnectionEnd::Silent),
            }
        }
    }

    async fn receive(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        let received = self.session.receive(bytes);
        // Before the error is returned: the output may contain the reason for it.
        self.flush().await?;
        received?;
        while let Some(event) = self.session.next_event() {
            match event {
                RtmpEvent::Publish(key) => self.publish(key).await?,
                RtmpEvent::Video(timestamp, body) => {
                    let actions = self.media.video(timestamp, body, Instant::now());
                    self.handle_actions(actions).await?;
                }
                RtmpEvent::Audio(timestamp, body) => {
                    let actions = self.media.audio(timestamp, body, Instant::now());
                    self.handle_actions(actions).await?;
                }
                RtmpEvent::Finished => return Err(ConnectionEnd::Done),
            }
        }
        Ok(())
    }

    /// Admits the encoder if the control plane accepts it.
    async fn publish(&mut self, key: StreamKeyHash) -> Result<(), ConnectionEnd> {
        match admit(&self.plane, &key, self.address).await {
            Ok(admitted) => {
                if admitted.publisher.is_transcoded() {
                    self.media.transcode_video();
                }
                self.publisher = Some(admitted);
                // After the admission: encoders start sending media as soon as they are accepted.
                self.session.accept()?;
                self.flush().await
            }
            Err(refusal) => {
                self.plane
                    .record(|metrics| metrics.record_join(JoinOutcome::Refused));
                self.session.refuse(&refusal.to_string());
                self.flush().await?;
                Err(refusal.into())
            }
        }
    }

    async fn flush(&mut self) -> Result<(), ConnectionEnd> {
        let output = self.session.take_output();
        timeout(WRITE_TIMEOUT, self.stream.write_all(&output))
            .await
            .map_err(|_| ConnectionEnd::Lost)?
            .map_err(ConnectionEnd::from)
    }

    async fn handle_actions(&mut self, actions: Vec<MediaAction>) -> Result<(), ConnectionEnd> {
        // `None` only before the admission, when the session raises no media events.
        let Some(project) = self
            .publisher
            .as_ref()
            .map(|admitted| admitted.room.name().split().0)
        else {
            return Ok(());
        };
        for action in actions {
            match action {
                MediaAction::Send(packets) => self.forward(Codec::H264, packets),
                // Not retried: ffmpeg is missing, or has failed too often.
                MediaAction::Transcode(Medium::Audio, ..) if self.audio_error.is_some() => {
                    self.require_video()?;
                }
                MediaAction::Transcode(medium, time, body) => {
                    self.transcode(&project, medium, time, body).await?;
                }
            }
        }
        Ok(())
    }

    /// Forwards a message to its medium's transcoder.
    async fn transcode(
        &mut self,
        project: &ProjectId,
        medium: Medium,
        time: MediaTime,
        body: Vec<u8>,
    ) -> Result<(), ConnectionEnd> {
        let (transcoding, feed) = match medium {
            Medium::Audio => (&mut self.audio, &mut self.audio_feed),
            Medium::Video => (&mut self.video, &mut self.video_feed),
        };
        let pushed = match feed.message(time, body) {
            Ok(message) => transcoding.push(&self.plane, project, &message).await,
            Err(error) => Err(error),
        };
        match (pushed, medium) {
            (Ok(()), _) => Ok(()),
            (Err(error), Medium::Audio) => {
                self.give_up_audio(error);
                Ok(())
            }
            (Err(error), Medium::Video) => Err(self.unplayable(&error)),
        }
    }

    /// Continues without audio.
    fn give_up_audio(&mut self, error: TranscodeError) {
        if let Some(AdmittedEncoder { publisher, .. }) = &self.publisher {
            log::warn!(participant = publisher.sid().as_str(); "RTMP stream continues without audio: {error}");
        }
        self.audio_error = Some(error);
    }

    /// Ends a stream that has only audio, if that cannot be transcoded.
    fn require_video(&mut self) -> Result<(), ConnectionEnd> {
        // Video may start later than audio.
        self.lost_audio += 1;
        match &self.audio_error {
            Some(error) if self.lost_audio >= AUDIO_WITHOUT_VIDEO && !self.media.has_video() => {
                Err(ConnectionEnd::Unplayable(format!(
                    "the stream has only audio, which cannot be transcoded: {error}"
                )))
            }
            _ => Ok(()),
        }
    }

    fn unplayable(&self, error: &TranscodeError) -> ConnectionEnd {
        let reason = match self.media.unplayable() {
            // The operator can change the encoder's settings, so the reason names the cure.
            Some(Unplayable::BFrames) => {
                "the video has B-frames, which must be transcoded or turned off"
            }
            Some(Unplayable::Codec) => "the video is not H.264 and must be transcoded",
            None => "the video must be transcoded",
        };
        ConnectionEnd::Unplayable(format!("{reason}: {error}"))
    }

    /// Forwards ffmpeg's output.
    fn forward_output(&mut self, output: Transcoded) {
        let now = Instant::now();
        match output {
            Transcoded::Audio(time, packet) => {
                let time = self.media.timeline().at(time, now);
                self.forward(Codec::Opus, vec![packets::audio_packet(time, packet)]);
            }
            Transcoded::Video(time, body) => {
                // Both media are on the stream's own time line, so they stay in sync although ffmpeg delays them
                // differently.
                let time = self.media.timeline().at(time, now);
                let packets = self.video_packets.read(time, &body);
                self.forward(Codec::H264, packets);
            }
        }
    }

    /// Forwards packets, and first publishes their track if it is new.
    fn forward(&mut self, codec: Codec, packets: Vec<SourcePacket>) {
        if let Some(AdmittedEncoder {
            room, publisher, ..
        }) = &mut self.publisher
        {
            publisher.forward_in(&self.plane, room, codec, packets);
        }
    }

    fn handle_input(&mut self, input: SessionInput) -> Result<(), ConnectionEnd> {
        match input {
            SessionInput::Notice(notice) => {
                if let Some(AdmittedEncoder { publisher, .. }) = &mut self.publisher {
                    publisher.handle_notice(&notice);
                    if publisher.is_over() {
                        return Err(ConnectionEnd::Done);
                    }
                }
            }
            SessionInput::Media(event) => self.handle_media(event),
            SessionInput::PublishRate(kbps) => {
                if let Some(AdmittedEncoder {
                    room, publisher, ..
                }) = &self.publisher
                {
                    let set = |room_state: &mut RoomState, now| {
                        room_state.set_bitrate(publisher.sid(), kbps, now)
                    };
                    // A rate before the join is accepted, or after the leave, is dropped.
                    let _ = &self.plane.call_in(room, set);
                }
            }
            // An encoder receives no media and has no WebSocket. RTMP has no message that requests a new connection.
            SessionInput::Speakers(_)
            | SessionInput::Qualities(_)
            | SessionInput::Attach(_)
            | SessionInput::Stop => {}
        }
        Ok(())
    }

    fn handle_media(&mut self, event: PeerEvent) {
        let Some(AdmittedEncoder {
            room, publisher, ..
        }) = &self.publisher
        else {
            return;
        };
        let inner = &self.plane;
        let (is_joining, answers) = inner.call_in(room, |room_state, now| {
            publisher.handle_media(room_state, event, now)
        });
        if is_joining {
            self.was_connected = true;
            // Not awaited: the encoder's data must be read meanwhile, or its output backs up.
            tokio::spawn(phases::conclude(
                Arc::clone(inner),
                Arc::clone(room),
                publisher.sid().clone(),
                answers,
            ));
        }
    }
}

/// Returns the participant's next input; pending forever without one.
async fn next_input(admitted: &mut Option<AdmittedEncoder>) -> Option<SessionInput> {
    match admitted {
        Some(admitted) => admitted.inputs.recv().await,
        None => std::future::pending().await,
    }
}

/// Admits an encoder with a stream key.
async fn admit(
    inner: &Arc<PlaneCore>,
    key: &StreamKeyHash,
    address: ClientAddress,
) -> Result<AdmittedEncoder, EncoderRefusal> {
    inner
        // Before any other work, since guessing must be slow.
        .stream_key_rates
        .check(address, key)
        .map_err(|retry_after| EncoderRefusal::TooManyTries { retry_after })?;
    let (room, join) = admission::request_encoder(inner, key, InputType::Rtmp).await?;
    // Before the admission, so that the encoder misses no notice.
    let inputs = room.sessions.add(&join.sid);
    let (admitted, _) = inner.call_in(&room, |room_state, now| {
        room_state.admit_encoder(&join.sid, now)
    });
    admitted.inspect_err(|_| room.sessions.remove(&join.sid))?;
    Ok(AdmittedEncoder {
        room,
        publisher: EncoderPublisher::new(join),
        inputs,
    })
}
