//! Messages to the client about what happens in the room.

use std::sync::Arc;

use livekit_protocol as proto;
use proto::participant_info::State;
use proto::signal_response::Message;

use super::{Context, Session, Signal};
use crate::embedded::effect::{ClientNotice, DisconnectCause};
use crate::embedded::signal::messages;

/// Number of leaves that are kept for a client without websocket; it learns the others from the list of those present.
const MAX_MISSED: usize = 1_000;

impl Session {
    /// Handles a notice of the machine.
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

    fn participants_changed(&mut self, infos: &[Arc<proto::ParticipantInfo>]) {
        // Its own state comes alone.
        let is_for_client =
            |info: &&Arc<proto::ParticipantInfo>| infos.len() == 1 || info.sid != self.sid.as_str();
        let infos: Vec<_> = infos
            .iter()
            .filter(is_for_client)
            .map(|info| proto::ParticipantInfo::clone(info))
            .collect();
        if self.signal == Signal::Attached {
            self.send(messages::update(infos));
            return;
        }
        for info in infos
            .into_iter()
            .filter(|info| info.state == i32::from(State::Disconnected))
        {
            if self.missed_leaves.len() < MAX_MISSED {
                self.missed_leaves.insert(info.sid.clone(), info);
            }
        }
    }

    /// The participant is gone. The client learns why also while it resumes.
    fn disconnected(&mut self, cause: DisconnectCause) {
        if self.signal == Signal::Resuming {
            self.signal = Signal::Attached;
        }
        if let Some(leave) = messages::leave_for(cause) {
            self.send(leave);
        }
        self.closes_socket = true;
        self.is_over = true;
    }
}
