//! Tests of the room state, and fixtures for the tests of its parts.

mod clients;
mod egress_inputs;
mod ingress;
mod joins;
mod moderation;
mod properties;
mod tracks;

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::RoleName;
use conclave_model::event::{Departure, PublishLimit};
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::participant::{
    DataKind, ParticipantKind, ParticipantState, TrackKind, TrackSource,
};
use conclave_model::role::RoleSubscribe;

use super::*;
use crate::embedded::inbox::{InboxEntry, Notice};
use crate::embedded::publish::NewTrack;
use crate::port::{IngressRequest, MediaEvent, RoleGrant, ServerData};
use crate::token::{Claims, Grants, RoomConfig};

pub(in crate::embedded) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Returns the monotonic reading for a time of day, on a clock that is never adjusted.
pub(in crate::embedded) fn reading(now: Timestamp) -> Duration {
    now.since(Timestamp::from_millis(0))
}

/// Returns a room state without the sandbox.
impl Default for RoomState {
    fn default() -> Self {
        Self::new(room(), Arc::new(Common::new(100, false)))
    }
}

impl RoomState {
    /// Sets the reading, on a clock that is never adjusted.
    pub fn at(&mut self, now: Timestamp) -> &mut Self {
        self.set_reading(reading(now));
        self
    }

    pub fn tick_at(&mut self, now: Timestamp) {
        self.at(now).tick(now);
    }
}

/// Returns a room state with the sandbox.
pub(in crate::embedded) fn sandbox_room_state() -> RoomState {
    RoomState::new(room(), Arc::new(Common::new(100, true)))
}

pub(in crate::embedded) fn room() -> NamespacedRoom {
    "prj_0123456789ab.stand-up".parse().unwrap()
}

pub(in crate::embedded) fn claims(
    room: &NamespacedRoom,
    identity: &str,
    max_participants: Option<u32>,
) -> Claims {
    Claims {
        room: room.clone(),
        identity: identity.parse().unwrap(),
        name: String::new(),
        metadata: String::new(),
        attributes: BTreeMap::new(),
        kind: ParticipantKind::Standard,
        grants: Grants::default(),
        room_config: Some(RoomConfig {
            empty_timeout_seconds: 330,
            departure_timeout_seconds: 330,
            max_participants,
        }),
        expires_at: NOW.after(Duration::from_secs(60)),
    }
}

/// Returns the rule of a role that receives these roles.
pub(super) fn to_roles(roles: &[RoleName]) -> RoleSubscribe {
    RoleSubscribe {
        to_roles: Some(roles.to_vec()),
        max_kbps: None,
    }
}

fn with(mut claims: Claims, attribute: &str, value: &str) -> Claims {
    claims.attributes.insert(attribute.into(), value.into());
    claims
}

pub(super) fn hidden(mut claims: Claims) -> Claims {
    claims.grants.hidden = true;
    claims
}

fn without_subscribing(mut claims: Claims) -> Claims {
    claims.grants.can_subscribe = false;
    claims
}

/// Creates an ingress endpoint. Returns the hash of its key.
pub(in crate::embedded) fn endpoint(
    room_state: &mut RoomState,
    input_type: InputType,
) -> StreamKeyHash {
    let (_, key) = room_state.create_ingress(IngressRequest {
        room: room(),
        max_participants: None,
        input_type,
        identity: "studio".parse().unwrap(),
        name: None,
        enable_transcoding: None,
        public_url: None,
    });
    StreamKeyHash::from_key(key.reveal())
}

pub(super) fn join(room_state: &mut RoomState, claims: Claims) -> ParticipantSid {
    let sid = room_state.start_join(claims, NOW).unwrap();
    room_state.complete_join(&sid, NOW);
    sid
}

pub(super) fn joined(room_state: &mut RoomState, identity: &str) -> ParticipantSid {
    join(room_state, claims(&room(), identity, None))
}

pub(super) fn camera() -> NewTrack {
    NewTrack {
        kind: TrackKind::Video,
        source: TrackSource::Camera,
        name: None,
        muted: false,
    }
}

pub(super) fn microphone() -> NewTrack {
    NewTrack {
        kind: TrackKind::Audio,
        source: TrackSource::Microphone,
        name: Some("mic".into()),
        muted: true,
    }
}

/// Returns the short name and the participant's sid of each report since the last call.
pub(super) fn take_names(room_state: &mut RoomState) -> Vec<(&'static str, ParticipantSid)> {
    let name = |report: Report| match report.event.clone() {
        MediaEvent::ParticipantJoined(participant) => ("joined", participant.sid.clone()),
        MediaEvent::ParticipantLeft {
            participant,
            departure: Departure::Left,
        } => ("left", participant.sid),
        MediaEvent::ParticipantLeft {
            participant,
            departure: Departure::Lost,
        } => ("aborted", participant.sid),
        MediaEvent::JoinAborted { participant } => ("join aborted", participant.sid),
        MediaEvent::TrackPublished { participant, .. } => ("published", participant.sid),
        MediaEvent::TrackUnpublished { participant, .. } => ("unpublished", participant.sid),
        MediaEvent::TrackMuted { participant, track } => (
            if track.muted { "muted" } else { "unmuted" },
            participant.sid,
        ),
        MediaEvent::PublishLimit { participant, limit } => (
            if limit.exceeded {
                "exceeded"
            } else {
                "cleared"
            },
            participant.sid,
        ),
        MediaEvent::JoinRequested { participant, .. } => ("requested", participant.sid.clone()),
        MediaEvent::InvalidIdentity | MediaEvent::Egress(_) | MediaEvent::Ingress(_) => {
            panic!("not about a participant: {report:?}")
        }
    };
    room_state.take_reports().into_iter().map(name).collect()
}

fn inbox(room_state: &RoomState, sid: &ParticipantSid) -> Vec<InboxEntry> {
    room_state.active_or_left(sid).unwrap().inbox
}
