//! What people, encoders and workers do, as a test says it.

use livekit_protocol as proto;
use proto::participant_info::{Kind, State as Progress};

use crate::clients::may_publish;
use crate::methods::nanos;
use crate::{Double, LiveRoom, State};

/// Who joins.
#[derive(Debug, Clone)]
pub struct Joining<'a> {
    /// The identity.
    pub identity: &'a str,
    /// The display name.
    pub name: &'a str,
    /// The metadata.
    pub metadata: &'a str,
    /// What its token's attributes say.
    pub attributes: &'a [(&'a str, &'a str)],
    /// What it is.
    pub kind: Kind,
    /// What it may do.
    pub permission: proto::ParticipantPermission,
}

impl<'a> Joining<'a> {
    /// A person without a role.
    #[must_use]
    pub fn person(identity: &'a str) -> Self {
        let permission = proto::ParticipantPermission { can_publish: true, can_subscribe: true, ..Default::default() };
        Self { identity, name: identity, metadata: "", attributes: &[], kind: Kind::Standard, permission }
    }
}

impl Double {
    /// Somebody joins, as `participant_joined` reports; whoever has the identity already leaves first. The sid.
    pub fn join(&self, room: &str, who: &Joining<'_>) -> String {
        let mut state = self.lock();
        state.open(room, self);
        state.depart(room, who.identity, proto::DisconnectReason::DuplicateIdentity, self);
        let person = proto::ParticipantInfo {
            sid: state.id("PA_"),
            identity: who.identity.to_owned(),
            name: who.name.to_owned(),
            metadata: who.metadata.to_owned(),
            state: Progress::Active as i32,
            kind: who.kind as i32,
            joined_at: nanos() / 1_000_000_000,
            joined_at_ms: nanos() / 1_000_000,
            attributes: who.attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            permission: Some(who.permission.clone()),
            ..Default::default()
        };
        let sid = person.sid.clone();
        state.enter(room, person.clone());
        state.report(room, "participant_joined", Some(person), None, self);
        sid
    }

    /// Somebody publishes a track. The sid.
    pub fn publish(&self, room: &str, identity: &str, kind: proto::TrackType, source: proto::TrackSource) -> String {
        let mut state = self.lock();
        let track = proto::TrackInfo {
            sid: state.id("TR_"),
            r#type: kind as i32,
            source: source as i32,
            mime_type: if kind == proto::TrackType::Audio { "audio/opus" } else { "video/VP8" }.into(),
            ..Default::default()
        };
        let person = state.person_mut(room, identity).expect("somebody who publishes is there");
        person.tracks.push(track.clone());
        person.is_publisher = true;
        let short = short(person);
        state.report(room, "track_published", Some(short), Some(track.clone()), self);
        track.sid
    }

    /// Somebody goes, for a reason.
    pub fn leave(&self, room: &str, identity: &str, reason: proto::DisconnectReason) {
        self.lock().depart(room, identity, reason, self);
    }

    /// Somebody's node dies, and they do not come back: they stay listed, and no node answers for them.
    pub fn strand(&self, room: &str, identity: &str) {
        let mut state = self.lock();
        let room = state.rooms.get_mut(room).expect("a room that is live");
        room.stranded.insert(identity.to_owned());
        room.count();
    }

    /// A room's node dies, and nobody comes back: it stays listed with everybody in it, and cannot be deleted until it has
    /// been made again.
    pub fn lose_node(&self, room: &str) {
        let mut state = self.lock();
        let room = state.rooms.get_mut(room).expect("a room that is live");
        room.lost = true;
        room.stranded = room.people.keys().cloned().collect();
    }

    /// A job stands differently; `egress_updated` or `egress_ended` says so.
    pub fn egress_is(&self, id: &str, status: proto::EgressStatus, error: &str) {
        let mut state = self.lock();
        let info = state.egresses.get_mut(id).expect("a job that was started");
        info.status = status as i32;
        info.error = error.to_owned();
        let ended = status as i32 > proto::EgressStatus::EgressEnding as i32;
        info.ended_at = if ended { nanos() } else { 0 };
        let info = info.clone();
        state.report_egress(if ended { "egress_ended" } else { "egress_updated" }, info, self);
    }

    /// LiveKit forgets a job, as after the loss of its Redis.
    pub fn forget_egress(&self, id: &str) {
        self.lock().egresses.remove(id);
    }

    /// An endpoint stands differently; `ingress_started` or `ingress_ended` says so.
    pub fn ingress_is(&self, id: &str, status: proto::ingress_state::Status, error: &str) {
        let mut state = self.lock();
        let info = state.ingresses.get_mut(id).expect("an endpoint that was made");
        info.state = Some(proto::IngressState { status: status as i32, error: error.to_owned(), ..Default::default() });
        let info = info.clone();
        let started = status == proto::ingress_state::Status::EndpointPublishing;
        let event = proto::WebhookEvent {
            event: if started { "ingress_started" } else { "ingress_ended" }.into(),
            room: Some(proto::Room { name: info.room_name.clone(), ..Default::default() }),
            ingress_info: Some(info),
            ..Default::default()
        };
        state.queue(event, self);
    }
}

/// Completes a job that has not ended.
fn completed(info: &mut proto::EgressInfo) -> Option<proto::EgressInfo> {
    if info.status > proto::EgressStatus::EgressEnding as i32 {
        return None;
    }
    info.status = proto::EgressStatus::EgressComplete as i32;
    info.ended_at = nanos();
    Some(info.clone())
}

/// Somebody as track events name them.
fn short(person: &proto::ParticipantInfo) -> proto::ParticipantInfo {
    proto::ParticipantInfo { sid: person.sid.clone(), identity: person.identity.clone(), ..Default::default() }
}

impl LiveRoom {
    /// Counts whom its node has.
    pub(crate) fn count(&mut self) {
        self.info.num_participants = u32::try_from(self.people.len() - self.stranded.len()).unwrap_or(u32::MAX);
    }
}

impl State {
    pub(crate) fn person_mut(&mut self, room: &str, identity: &str) -> Option<&mut proto::ParticipantInfo> {
        self.rooms.get_mut(room)?.people.get_mut(identity)
    }

    pub(crate) fn enter(&mut self, room: &str, person: proto::ParticipantInfo) {
        if let Some(room) = self.rooms.get_mut(room) {
            room.stranded.remove(&person.identity);
            room.people.insert(person.identity.clone(), person);
            room.count();
        }
    }

    /// Takes somebody out, tracks first.
    pub(crate) fn depart(&mut self, name: &str, identity: &str, reason: proto::DisconnectReason, double: &Double) {
        let Some(room) = self.rooms.get_mut(name) else { return };
        let Some(mut person) = room.people.remove(identity) else { return };
        room.stranded.remove(identity);
        room.count();
        for track in std::mem::take(&mut person.tracks) {
            self.report(name, "track_unpublished", Some(short(&person)), Some(track), double);
        }
        let was_active = person.state == Progress::Active as i32;
        person.state = Progress::Disconnected as i32;
        person.disconnect_reason = reason as i32;
        let event = if was_active { "participant_left" } else { "participant_connection_aborted" };
        self.report(name, event, Some(person), None, double);
    }

    /// Ends the tracks that a new permission does not cover.
    pub(crate) fn stop_forbidden(
        &mut self,
        room: &str,
        identity: &str,
        permission: &proto::ParticipantPermission,
        double: &Double,
    ) {
        let Some(person) = self.person_mut(room, identity) else { return };
        let (allowed, forbidden): (Vec<_>, _) =
            std::mem::take(&mut person.tracks).into_iter().partition(|track| may_publish(permission, track.source));
        person.tracks = allowed;
        let short = short(person);
        for track in forbidden {
            self.report(room, "track_unpublished", Some(short.clone()), Some(track), double);
        }
    }

    /// Reports how a job stands.
    pub(crate) fn report_egress(&mut self, event: &str, info: proto::EgressInfo, double: &Double) {
        let room = Some(proto::Room { name: info.room_name.clone(), ..Default::default() });
        let event = proto::WebhookEvent { event: event.into(), room, egress_info: Some(info), ..Default::default() };
        self.queue(event, double);
    }

    /// Closes a room with everybody in it; its recorders notice.
    pub(crate) fn close(&mut self, name: &str, double: &Double) {
        let people: Vec<_> = self.rooms.get(name).map(|room| room.people.keys().cloned().collect()).unwrap_or_default();
        for identity in people {
            self.depart(name, &identity, proto::DisconnectReason::RoomDeleted, double);
        }
        self.report(name, "room_finished", None, None, double);
        self.rooms.remove(name);
        let running: Vec<_> = self.egresses.values_mut().filter(|info| info.room_name == name).collect();
        let ended: Vec<_> = running.into_iter().filter_map(completed).collect();
        ended.into_iter().for_each(|info| self.report_egress("egress_ended", info, double));
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
        self.queue(proto::WebhookEvent { event: event.into(), room, participant, track, ..Default::default() }, double);
    }
}
