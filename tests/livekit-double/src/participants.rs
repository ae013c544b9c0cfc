//! Actions of participants, egress workers and encoders, controlled by the test.

use livekit_protocol as proto;
use proto::participant_info::{Kind, State as Progress};

use crate::clients::may_publish;
use crate::methods::nanos;
use crate::{Double, LiveRoom, State};

/// A joining participant.
#[derive(Debug, Clone)]
pub struct Joining<'a> {
    /// The identity.
    pub identity: &'a str,
    /// The display name.
    pub name: &'a str,
    /// The metadata.
    pub metadata: &'a str,
    /// Attributes in its token.
    pub attributes: &'a [(&'a str, &'a str)],
    /// The kind: a client, an encoder, a recorder.
    pub kind: Kind,
    /// Permission in its token.
    pub permission: proto::ParticipantPermission,
}

impl<'a> Joining<'a> {
    /// Creates a client without a role.
    #[must_use]
    pub fn participant(identity: &'a str) -> Self {
        let permission = proto::ParticipantPermission {
            can_publish: true,
            can_subscribe: true,
            ..Default::default()
        };
        Self {
            identity,
            name: identity,
            metadata: "",
            attributes: &[],
            kind: Kind::Standard,
            permission,
        }
    }
}

impl Double {
    /// Joins a participant and reports `participant_joined`. A participant with the same identity leaves first. Returns the sid.
    pub fn join(&self, room: &str, who: &Joining<'_>) -> String {
        let mut state = self.lock();
        state.open(room, self);
        state.remove_participant(
            room,
            who.identity,
            proto::DisconnectReason::DuplicateIdentity,
            self,
        );
        let participant = proto::ParticipantInfo {
            sid: state.id("PA_"),
            identity: who.identity.to_owned(),
            name: who.name.to_owned(),
            metadata: who.metadata.to_owned(),
            state: Progress::Active as i32,
            kind: who.kind as i32,
            joined_at: nanos() / 1_000_000_000,
            joined_at_ms: nanos() / 1_000_000,
            attributes: who
                .attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            permission: Some(who.permission.clone()),
            ..Default::default()
        };
        let sid = participant.sid.clone();
        state.add_participant(room, participant.clone());
        state.report(room, "participant_joined", Some(participant), None, self);
        sid
    }

    /// Publishes a participant's track. Returns the sid.
    pub fn publish(
        &self,
        room: &str,
        identity: &str,
        kind: proto::TrackType,
        source: proto::TrackSource,
    ) -> String {
        self.lock()
            .publish(room, identity, kind, source, self)
            .expect("a participant of the room")
    }

    /// Disconnects a participant.
    pub fn leave(&self, room: &str, identity: &str, reason: proto::DisconnectReason) {
        self.lock().remove_participant(room, identity, reason, self);
    }

    /// Fails a participant's node, and the participant does not rejoin: it stays listed without a live node.
    pub fn make_ghost(&self, room: &str, identity: &str) {
        let mut state = self.lock();
        let room = state.rooms.get_mut(room).expect("a room that is live");
        room.ghosts.insert(identity.to_owned());
        room.count();
    }

    /// Fails a room's node, and no participant rejoins: the room stays listed with its participants, and cannot be deleted until it has
    /// been created again.
    pub fn lose_node(&self, room: &str) {
        let mut state = self.lock();
        let room = state.rooms.get_mut(room).expect("a room that is live");
        room.node_is_dead = true;
        room.ghosts = room.participants.keys().cloned().collect();
    }

    /// Sets an egress' status and reports `egress_updated` or `egress_ended`.
    pub fn set_egress_status(&self, id: &str, status: proto::EgressStatus, error: &str) {
        let mut state = self.lock();
        let info = state
            .egresses
            .get_mut(id)
            .expect("an egress that was started");
        info.status = status as i32;
        info.error = error.to_owned();
        let ended = status as i32 > proto::EgressStatus::EgressEnding as i32;
        info.ended_at = if ended { nanos() } else { 0 };
        let info = info.clone();
        state.report_egress(
            if ended {
                "egress_ended"
            } else {
                "egress_updated"
            },
            info,
            self,
        );
    }

    /// Removes an egress, as LiveKit does after the loss of its Redis.
    pub fn forget_egress(&self, id: &str) {
        self.lock().egresses.remove(id);
    }

    /// Sets an ingress' status and reports `ingress_started` or `ingress_ended`.
    pub fn set_ingress_status(&self, id: &str, status: proto::ingress_state::Status, error: &str) {
        let mut state = self.lock();
        let info = state
            .ingresses
            .get_mut(id)
            .expect("an endpoint that was made");
        info.state = Some(proto::IngressState {
            status: status as i32,
            error: error.to_owned(),
            ..Default::default()
        });
        let info = info.clone();
        let started = status == proto::ingress_state::Status::EndpointPublishing;
        let event = proto::WebhookEvent {
            event: if started {
                "ingress_started"
            } else {
                "ingress_ended"
            }
            .into(),
            room: Some(proto::Room {
                name: info.room_name.clone(),
                ..Default::default()
            }),
            ingress_info: Some(info),
            ..Default::default()
        };
        state.queue(event, self);
    }
}

/// Completes an egress that has not ended.
fn completed(info: &mut proto::EgressInfo) -> Option<proto::EgressInfo> {
    if info.status > proto::EgressStatus::EgressEnding as i32 {
        return None;
    }
    info.status = proto::EgressStatus::EgressComplete as i32;
    info.ended_at = nanos();
    Some(info.clone())
}

/// Returns a participant in track events: sid and identity only.
fn short(participant: &proto::ParticipantInfo) -> proto::ParticipantInfo {
    proto::ParticipantInfo {
        sid: participant.sid.clone(),
        identity: participant.identity.clone(),
        ..Default::default()
    }
}

impl LiveRoom {
    /// Updates the number of participants, without ghosts.
    pub(crate) fn count(&mut self) {
        self.info.num_participants =
            u32::try_from(self.participants.len() - self.ghosts.len()).unwrap_or(u32::MAX);
    }
}

impl State {
    /// Publishes a track. Returns its sid; `None` if there is no such participant.
    pub(crate) fn publish(
        &mut self,
        room: &str,
        identity: &str,
        kind: proto::TrackType,
        source: proto::TrackSource,
        double: &Double,
    ) -> Option<String> {
        let track = proto::TrackInfo {
            sid: self.id("TR_"),
            r#type: kind as i32,
            source: source as i32,
            mime_type: if kind == proto::TrackType::Audio {
                "audio/opus"
            } else {
                "video/VP8"
            }
            .into(),
            ..Default::default()
        };
        let participant = self.participant_mut(room, identity)?;
        participant.tracks.push(track.clone());
        participant.is_publisher = true;
        let short = short(participant);
        self.report(
            room,
            "track_published",
            Some(short),
            Some(track.clone()),
            double,
        );
        Some(track.sid)
    }

    pub(crate) fn participant_mut(
        &mut self,
        room: &str,
        identity: &str,
    ) -> Option<&mut proto::ParticipantInfo> {
        self.rooms.get_mut(room)?.participants.get_mut(identity)
    }

    pub(crate) fn add_participant(&mut self, room: &str, participant: proto::ParticipantInfo) {
        if let Some(room) = self.rooms.get_mut(room) {
            room.ghosts.remove(&participant.identity);
            room.participants
                .insert(participant.identity.clone(), participant);
            room.count();
        }
    }

    /// Removes a participant, after its tracks.
    pub(crate) fn remove_participant(
        &mut self,
        name: &str,
        identity: &str,
        reason: proto::DisconnectReason,
        double: &Double,
    ) {
        let Some(room) = self.rooms.get_mut(name) else {
            return;
        };
        let Some(mut participant) = room.participants.remove(identity) else {
            return;
        };
        room.ghosts.remove(identity);
        room.count();
        for track in std::mem::take(&mut participant.tracks) {
            self.report(
                name,
                "track_unpublished",
                Some(short(&participant)),
                Some(track),
                double,
            );
        }
        let was_active = participant.state == Progress::Active as i32;
        participant.state = Progress::Disconnected as i32;
        participant.disconnect_reason = reason as i32;
        let event = if was_active {
            "participant_left"
        } else {
            "participant_connection_aborted"
        };
        self.report(name, event, Some(participant), None, double);
    }

    /// Ends the tracks that a new permission does not cover.
    pub(crate) fn stop_forbidden(
        &mut self,
        room: &str,
        identity: &str,
        permission: &proto::ParticipantPermission,
        double: &Double,
    ) {
        let Some(participant) = self.participant_mut(room, identity) else {
            return;
        };
        let (allowed, forbidden): (Vec<_>, _) = std::mem::take(&mut participant.tracks)
            .into_iter()
            .partition(|track| may_publish(permission, track.source));
        participant.tracks = allowed;
        let short = short(participant);
        for track in forbidden {
            self.report(
                room,
                "track_unpublished",
                Some(short.clone()),
                Some(track),
                double,
            );
        }
    }

    /// Reports an egress' state.
    pub(crate) fn report_egress(&mut self, event: &str, info: proto::EgressInfo, double: &Double) {
        let room = Some(proto::Room {
            name: info.room_name.clone(),
            ..Default::default()
        });
        let event = proto::WebhookEvent {
            event: event.into(),
            room,
            egress_info: Some(info),
            ..Default::default()
        };
        self.queue(event, double);
    }

    /// Closes a room: its participants leave, and its egresses complete.
    pub(crate) fn close(&mut self, name: &str, double: &Double) {
        let participants: Vec<_> = self
            .rooms
            .get(name)
            .map(|room| room.participants.keys().cloned().collect())
            .unwrap_or_default();
        for identity in participants {
            self.remove_participant(
                name,
                &identity,
                proto::DisconnectReason::RoomDeleted,
                double,
            );
        }
        self.report(name, "room_finished", None, None, double);
        self.rooms.remove(name);
        let running: Vec<_> = self
            .egresses
            .values_mut()
            .filter(|info| info.room_name == name)
            .collect();
        let ended: Vec<_> = running.into_iter().filter_map(completed).collect();
        ended
            .into_iter()
            .for_each(|info| self.report_egress("egress_ended", info, double));
    }

    fn report(
        &mut self,
        room: &str,
        event: &str,
        participant: Option<proto::ParticipantInfo>,
        track: Option<proto::TrackInfo>,
        double: &Double,
    ) {
        let room = self.rooms.get(room).map(|room| room.info.clone());
        self.queue(
            proto::WebhookEvent {
                event: event.into(),
                room,
                participant,
                track,
                ..Default::default()
            },
            double,
        );
    }
}
