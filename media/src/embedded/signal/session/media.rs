//! What the media worker reports.

use conclave_model::event::Departure;
use conclave_sfu::{FailureReason, PeerEvent, PeerQuality, Speaker};
use livekit_protocol as proto;
use proto::DisconnectReason;
use proto::leave_request::Action;
use proto::signal_response::Message;

use super::{Context, RESUME_TIMEOUT, Session, Signal};
use crate::embedded::announcement::MediaSection;
use crate::embedded::signal::messages;

impl Session {
    /// Handles an event of the participant's transports. Returns whether the join was reported by it, so that the answer to the
    /// report has to be awaited.
    pub fn handle_media(&mut self, context: &mut Context<'_>, event: PeerEvent) -> bool {
        match event {
            PeerEvent::Connected => return context.machine.connected(&self.sid, context.now),
            PeerEvent::Answered {
                offer_id,
                sdp,
                mid_to_track_id,
            } => {
                self.send(Message::Answer(messages::description(
                    "answer",
                    offer_id,
                    sdp,
                    mid_to_track_id,
                )));
            }
            PeerEvent::Offered {
                offer_id,
                sdp,
                mid_to_track_id,
            } => {
                self.send(Message::Offer(messages::description(
                    "offer",
                    offer_id,
                    sdp,
                    mid_to_track_id,
                )));
            }
            PeerEvent::MediaSectionsRequired {
                num_audios,
                num_videos,
            } => {
                let required = proto::MediaSectionsRequirement {
                    num_audios,
                    num_videos,
                };
                self.send(Message::MediaSectionsRequirement(required));
            }
            PeerEvent::TrackPublished {
                track,
                mid,
                codec,
                layers,
            } => {
                let section = MediaSection { mid, codec, layers };
                context
                    .machine
                    .track_negotiated(&self.sid, &track, section, context.now);
            }
            PeerEvent::BackupPublished {
                track,
                mid,
                codec,
                layers,
            } => {
                context.machine.backup_negotiated(
                    &self.sid,
                    &track,
                    MediaSection { mid, codec, layers },
                );
            }
            PeerEvent::BackupEnded { track, codec } => {
                context.machine.backup_ended(&self.sid, &track, codec);
            }
            PeerEvent::TrackEnded(track) => {
                context.machine.track_ended(&self.sid, &track, context.now);
            }
            PeerEvent::TrackRefused(track) => {
                context
                    .machine
                    .track_refused(&self.sid, &track, context.now);
            }
            PeerEvent::TrackSubscribed(track) => {
                self.send(Message::TrackSubscribed(proto::TrackSubscribed {
                    track_sid: track.to_string(),
                }));
            }
            PeerEvent::CodecUnsupported(track) => {
                self.send(messages::codec_unsupported(&track));
            }
            PeerEvent::SubscribedQuality { track, codecs } => {
                self.send(messages::subscribed_quality(&track, &codecs));
            }
            PeerEvent::StreamStateChanged {
                publisher,
                track,
                is_paused,
            } => {
                self.send(messages::stream_state(&publisher, &track, is_paused));
            }
            PeerEvent::MessageSent(message) => {
                context
                    .machine
                    .message_sent(&self.sid, &message, context.now);
            }
            PeerEvent::Resumed { last_message_seq } => self.resumed(context, last_message_seq),
            PeerEvent::Recovered => self.resume_until = None,
            PeerEvent::Failed(reason) => self.media_failed(context, reason),
            // The client notices an interruption by itself, and resumes. First frames are counted.
            PeerEvent::Interrupted | PeerEvent::FirstFrame { .. } => {}
        }
        false
    }

    /// Tells the client who began or ceased to speak, of those that it receives and itself.
    pub fn handle_speakers(&mut self, context: &Context<'_>, speakers: &[Speaker]) {
        let concerned = speakers
            .iter()
            .filter(|speaker| context.machine.follows(&self.sid, &speaker.peer));
        messages::speakers(concerned)
            .into_iter()
            .for_each(|message| self.send(message));
    }

    /// Tells the client how well itself and those that it receives are connected.
    pub fn handle_qualities(&mut self, context: &Context<'_>, qualities: &[PeerQuality]) {
        let concerned = qualities
            .iter()
            .filter(|quality| context.machine.follows(&self.sid, &quality.peer));
        messages::qualities(concerned)
            .into_iter()
            .for_each(|message| self.send(message));
    }

    /// The media is dead. Without signalling the participant is gone. Otherwise the client may resume if its transports are
    /// still there, or has to join anew.
    fn media_failed(&mut self, context: &mut Context<'_>, reason: FailureReason) {
        if self.signal == Signal::Lost {
            self.end(context, Departure::Lost);
            return;
        }
        match reason {
            FailureReason::Silent => {
                self.send(messages::leave(
                    DisconnectReason::ConnectionTimeout,
                    Action::Resume,
                ));
                self.closes_socket = true;
                self.resume_until = Some(context.machine.reading() + RESUME_TIMEOUT);
            }
            // A client that leaves closes its transports too; its `leave` may come behind.
            FailureReason::Closed => {
                self.has_closed_media = true;
                self.resume_until = Some(context.machine.reading() + RESUME_TIMEOUT);
            }
            FailureReason::Negotiation
            | FailureReason::AnswerTimeout
            | FailureReason::Capacity
            | FailureReason::TooManyCommands => self.reconnect(context),
            FailureReason::Channels => self.exclude(context),
        }
    }
}
