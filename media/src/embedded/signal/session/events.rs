//! Messages to the client: the media worker's reports, the room state's notices, and whatever it has missed when it
//! resumes.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::TrackSid;
use conclave_model::event::Departure;
use conclave_sfu::{FailureReason, PeerCommand, PeerEvent, PeerQuality, Speaker};
use livekit_protocol as proto;
use proto::DisconnectReason;
use proto::leave_request::Action;
use proto::participant_info::State;
use proto::signal_response::Message;

use super::link::ClosedResume;
use super::{Context, Session};
use crate::embedded::announcement::MediaSection;
use crate::embedded::data_track::DataHandle;
use crate::embedded::effect::{ClientNotice, DisconnectCause};
use crate::embedded::signal::connect_request::JoinParameters;
use crate::embedded::signal::messages;
use crate::embedded::wire::participant_info;

/// Time for a client with lost media to resume.
pub(super) const RESUME_TIMEOUT: Duration = Duration::from_secs(5);

/// Loss of a client's media, during which it may resume.
#[derive(Debug, Default)]
pub(super) struct MediaLoss {
    /// Until when the client may resume, if its media is lost.
    until: Option<Duration>,
    /// Whether the client has closed its transports, so that nothing is left to resume.
    is_closed: bool,
}

impl MediaLoss {
    fn start(&mut self, reading: Duration) {
        self.until = Some(reading + RESUME_TIMEOUT);
    }

    fn close(&mut self, reading: Duration) {
        self.is_closed = true;
        self.start(reading);
    }

    /// Ends the loss: the media has recovered, or the participant has left.
    pub fn end(&mut self) {
        self.until = None;
    }

    /// Returns the monotonic reading until which the client may resume, if its media is lost.
    pub fn deadline(&self) -> Option<Duration> {
        self.until
    }

    /// Returns whether the client has closed its transports.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

/// Reports from the media worker.
impl Session {
    /// Handles an event of the participant's transports. Returns whether it caused a report of the join, whose answer
    /// the caller must await.
    pub fn handle_media(&mut self, context: &mut Context<'_>, event: PeerEvent) -> bool {
        let now = context.now;
        match event {
            PeerEvent::Connected => return context.room_state.connected(&self.sid, now),
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
            // With one peer connection, only the client can offer: it is asked for an offer with these sections.
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
                    .room_state
                    .track_negotiated(&self.sid, &track, section, now);
            }
            PeerEvent::BackupPublished {
                track,
                mid,
                codec,
                layers,
            } => {
                context.room_state.backup_negotiated(
                    &self.sid,
                    &track,
                    MediaSection { mid, codec, layers },
                );
            }
            PeerEvent::BackupEnded { track, codec } => {
                context.room_state.backup_ended(&self.sid, &track, codec);
            }
            PeerEvent::TrackEnded(track) => {
                context.room_state.track_ended(&self.sid, &track, now);
            }
            PeerEvent::TrackRefused(track) => {
                context.room_state.track_refused(&self.sid, &track, now);
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
                context.room_state.message_sent(&self.sid, &message, now);
            }
            PeerEvent::Resumed { last_message_seq } => self.resumed(context, last_message_seq),
            PeerEvent::Recovered => self.media_loss.end(),
            PeerEvent::Failed(reason) => self.media_failed(context, reason),
            // No message: the client notices an interruption by itself and resumes. First frames are only counted.
            PeerEvent::Interrupted | PeerEvent::FirstFrame { .. } => {}
        }
        false
    }

    /// Sends changed speakers among the participants that the client receives, including itself.
    pub fn handle_speakers(&mut self, context: &Context<'_>, speakers: &[Speaker]) {
        let concerned = speakers
            .iter()
            .filter(|speaker| context.room_state.follows(&self.sid, &speaker.peer));
        messages::speakers(concerned)
            .into_iter()
            .for_each(|message| self.send(message));
    }

    /// Sends changed connection qualities among the participants that the client receives, including its own.
    pub fn handle_qualities(&mut self, context: &Context<'_>, qualities: &[PeerQuality]) {
        let concerned = qualities
            .iter()
            .filter(|quality| context.room_state.follows(&self.sid, &quality.peer));
        messages::qualities(concerned)
            .into_iter()
            .for_each(|message| self.send(message));
    }

    /// Handles lost media. Without signalling, the participant has left. Otherwise the client may resume if its
    /// transports still exist, or has to join again.
    fn media_failed(&mut self, context: &mut Context<'_>, reason: FailureReason) {
        if self.link.is_lost() {
            self.end(context, Departure::Lost);
            return;
        }
        match reason {
            // Packets stopped, for example at a change of the network. The transports can recover by an ICE restart.
            FailureReason::Silent => {
                self.send(messages::leave(
                    DisconnectReason::ConnectionTimeout,
                    Action::Resume,
                ));
                self.link.close();
                self.media_loss.start(context.room_state.reading());
            }
            // A client that leaves closes its transports, too. Its `leave` may arrive later, and must still count as
            // one.
            FailureReason::Closed => {
                self.media_loss.close(context.room_state.reading());
            }
            // The transports' state no longer matches the client's, so only new ones help.
            FailureReason::Negotiation
            | FailureReason::AnswerTimeout
            | FailureReason::Capacity
            | FailureReason::TooManyCommands => self.reconnect(context),
            // Too many data channels: the client would open them again after a reconnect.
            FailureReason::Channels => self.exclude(context),
        }
    }
}

/// Notices from the room state.
impl Session {
    pub fn handle_notice(&mut self, context: &mut Context<'_>, notice: ClientNotice) {
        match notice {
            ClientNotice::ParticipantsChanged(infos) => self.participants_changed(&infos),
            ClientNotice::Muted { track, muted } => {
                self.send(Message::Mute(proto::MuteTrackRequest {
                    sid: track.to_string(),
                    muted,
                }));
            }
            ClientNotice::TrackUnpublished(track) => {
                let track_sid = track.to_string();
                self.send(Message::TrackUnpublished(proto::TrackUnpublishedResponse {
                    track_sid,
                }));
            }
            ClientNotice::MetadataUpdated { request_id } => {
                self.metadata_updated(context, request_id);
            }
            ClientNotice::DataTrackUnpublished(info) => self.data_track_unpublished(info),
            ClientNotice::DataHandlesChanged => self.send_data_handles(context),
            ClientNotice::RoomChanged => self.send_room(context),
            // The token contains the role's permissions.
            ClientNotice::RoleChanged(_) => self.refresh_token(context),
            ClientNotice::SubscriptionPermission {
                publisher,
                track,
                is_allowed,
            } => {
                let update = proto::SubscriptionPermissionUpdate {
                    participant_sid: publisher.to_string(),
                    track_sid: track.to_string(),
                    allowed: is_allowed,
                };
                self.send(Message::SubscriptionPermissionUpdate(update));
            }
            ClientNotice::Disconnected(cause) => self.disconnected(cause),
        }
    }

    fn send_room(&mut self, context: &Context<'_>) {
        self.send(Message::RoomUpdate(proto::RoomUpdate {
            room: Some(messages::room_info(context.room_state)),
        }));
    }

    fn participants_changed(&mut self, infos: &[Arc<proto::ParticipantInfo>]) {
        // Its own state arrives in an update of its own. In a batch about several participants, it would be outdated.
        let is_for_client =
            |info: &&Arc<proto::ParticipantInfo>| infos.len() == 1 || info.sid != self.sid.as_str();
        let infos: Vec<_> = infos
            .iter()
            .filter(is_for_client)
            .map(|info| proto::ParticipantInfo::clone(info))
            .collect();
        if self.link.is_attached() {
            self.send(messages::update(infos));
            return;
        }
        // A resume's snapshot lists the participants in the room, so a leave is all that it cannot contain.
        for info in infos
            .into_iter()
            .filter(|info| info.state == i32::from(State::Disconnected))
        {
            self.link.record_leave(info);
        }
    }

    /// Ends the session: its participant has left. A resuming client receives the reason, too.
    fn disconnected(&mut self, cause: DisconnectCause) {
        self.link.interrupt_resume();
        if let Some(leave) = messages::leave_for(cause) {
            self.send(leave);
        }
        self.link.close();
        self.is_over = true;
    }

    pub(super) fn data_track_unpublished(&mut self, info: proto::DataTrackInfo) {
        self.send(Message::UnpublishDataTrackResponse(
            proto::UnpublishDataTrackResponse { info: Some(info) },
        ));
    }

    /// Sends the handles that mark the packets of each data track that the client receives.
    fn send_data_handles(&mut self, context: &Context<'_>) {
        let handle = |(track, known, identity): (TrackSid, DataHandle, String)| {
            let published = proto::data_track_subscriber_handles::PublishedDataTrack {
                publisher_identity: identity,
                publisher_sid: known.publisher.to_string(),
                track_sid: track.to_string(),
            };
            (u32::from(known.handle), published)
        };
        let sub_handles = context
            .room_state
            .data_handles(&self.sid)
            .into_iter()
            .map(handle)
            .collect();
        self.send(Message::DataTrackSubscriberHandles(
            proto::DataTrackSubscriberHandles { sub_handles },
        ));
    }
}

/// Resumes: a client returns with a new WebSocket, while its transports may still be alive.
impl Session {
    /// Attaches a new WebSocket. No message is sent on it before the media worker has prepared the resume.
    pub fn resume(&mut self, context: &mut Context<'_>, join: JoinParameters) {
        self.link.attach(context.room_state.reading());
        if self.link.closes_resume(ClosedResume::BeforeMessages) {
            return;
        }
        // The transports first: its offer below applies to them.
        if let Some(reason) = join.reconnect_reason {
            self.command(context, PeerCommand::RecordReconnect(reason));
        }
        self.command(context, PeerCommand::Resume);
        if let Some(state) = join.sync_state {
            self.sync(context, state);
        }
        if let Some(offer) = join.offer {
            self.offer(context, offer.id, offer.sdp);
        }
    }

    /// Sends everything that the client may have missed, once the media worker is ready. `reconnect` comes first, since
    /// clients drop messages before it.
    fn resumed(&mut self, context: &mut Context<'_>, last_message_seq: u32) {
        // A second report, or the WebSocket was lost meanwhile.
        if !self.link.finish_resume() {
            return;
        }
        self.media_loss.end();
        let server_info = Some(messages::server_info());
        let reconnect = proto::ReconnectResponse {
            ice_servers: self.ice_servers(context.now),
            server_info,
            last_message_seq,
            ..proto::ReconnectResponse::default()
        };
        self.send(Message::Reconnect(reconnect));
        let left = self.link.take_missed_leaves();
        if !left.is_empty() {
            self.send(messages::update(left));
        }
        // A snapshot, not a difference: the server does not record which messages arrived.
        let own = context.room_state.present(&self.sid).into_iter();
        let present: Vec<_> = own
            .chain(context.room_state.visible_to(&self.sid))
            .map(participant_info)
            .collect();
        self.send(messages::update(present));
        self.send_room(context);
        // Only for clients with data tracks: older ones do not know the message.
        if context.room_state.uses_data_handles(&self.sid) {
            self.send_data_handles(context);
        }
        self.refresh_token(context);
        self.link.closes_resume(ClosedResume::AfterMessages);
    }

    /// Requests a new join, since the client's state and the server's contradict each other. The participant leaves.
    pub(super) fn reconnect(&mut self, context: &mut Context<'_>) {
        self.link.interrupt_resume();
        self.send(messages::leave(
            DisconnectReason::StateMismatch,
            Action::Reconnect,
        ));
        self.link.close();
        self.end(context, Departure::Lost);
    }
}
