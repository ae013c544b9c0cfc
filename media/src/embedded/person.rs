//! Somebody on the media plane: what others may know, what its token granted, and what it has received.

use conclave_model::event::{ParticipantRef, TrackSummary};
use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, Participant, ParticipantState, ROLE_ATTRIBUTE, Track};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, RoleName, Timestamp, TrackSid};

use super::inbox::Inbox;
use super::meter::Meter;
use super::publish::{MachineError, permit};
use crate::port::RoleGrant;
use crate::token::{Claims, Grants, RoomConfig};

/// One join of somebody.
#[derive(Debug)]
pub(super) struct Person {
    /// In which room.
    pub room: NamespacedRoom,
    /// What it may do.
    pub grants: Grants,
    /// What it has received.
    pub inbox: Inbox,
    /// How much it publishes.
    pub meter: Meter,
    participant: Participant,
    role: Option<RoleName>,
    room_config: Option<RoomConfig>,
    expires_at: Timestamp,
}

impl Person {
    /// Somebody who asks to be let in.
    pub fn joining(sid: ParticipantSid, claims: Claims, now: Timestamp) -> Self {
        Self {
            role: claims.role(),
            participant: Participant {
                sid,
                identity: claims.identity,
                name: claims.name,
                state: ParticipantState::Joining,
                kind: claims.kind,
                metadata: claims.metadata,
                attributes: claims.attributes,
                is_publisher: false,
                joined_at: Some(now),
                tracks: Vec::new(),
            },
            room: claims.room,
            grants: claims.grants,
            inbox: Inbox::default(),
            meter: Meter::default(),
            room_config: claims.room_config,
            expires_at: claims.expires_at,
        }
    }

    /// The join's sid.
    pub fn sid(&self) -> &ParticipantSid {
        &self.participant.sid
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.participant.identity
    }

    /// What it looks like.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    /// The role it holds.
    pub fn role(&self) -> Option<&RoleName> {
        self.role.as_ref()
    }

    /// How a report names it.
    pub fn who(&self) -> ParticipantRef {
        ParticipantRef {
            identity: self.participant.identity.clone(),
            sid: self.participant.sid.clone(),
            role: self.role.clone(),
        }
    }

    /// What it will look like once it is let in.
    pub fn once_active(&self) -> Participant {
        Participant { state: ParticipantState::Active, ..self.participant.clone() }
    }

    /// Whether it is let in.
    pub fn is_active(&self) -> bool {
        self.participant.state == ParticipantState::Active
    }

    /// Lets it in.
    pub fn activate(&mut self) {
        self.participant.state = ParticipantState::Active;
    }

    /// Marks it as gone, and gives what it published until then.
    pub fn depart(&mut self) -> Vec<Track> {
        self.participant.state = ParticipantState::Disconnected;
        self.participant.is_publisher = false;
        std::mem::take(&mut self.participant.tracks)
    }

    /// The ceiling over everything it publishes, in kilobits a second.
    pub fn max_kbps(&self) -> Option<u32> {
        self.participant.attributes.get(MAX_KBPS_ATTRIBUTE).and_then(|kbps| kbps.parse().ok())
    }

    /// The one track it publishes, when there is exactly one.
    pub fn only_track(&self) -> Option<TrackSid> {
        match self.participant.tracks.as_slice() {
            [track] => Some(track.sid.clone()),
            _ => None,
        }
    }

    /// Adds a track.
    pub fn add_track(&mut self, track: Track) -> TrackSummary {
        let facts = TrackSummary::from(&track);
        self.participant.tracks.push(track);
        self.participant.is_publisher = true;
        facts
    }

    /// Takes a track away.
    pub fn take_track(&mut self, sid: &TrackSid) -> Result<Track, MachineError> {
        let tracks = &mut self.participant.tracks;
        let at = tracks.iter().position(|track| track.sid == *sid).ok_or(MachineError::NoSuchTrack)?;
        let track = tracks.remove(at);
        self.participant.is_publisher = !tracks.is_empty();
        Ok(track)
    }

    /// Gives it another role, in place of what its token said.
    pub fn set_role(&mut self, grant: RoleGrant) {
        let attributes = &mut self.participant.attributes;
        attributes.insert(ROLE_ATTRIBUTE.to_owned(), grant.role.to_string());
        match grant.max_kbps {
            Some(kbps) => attributes.insert(MAX_KBPS_ATTRIBUTE.to_owned(), kbps.to_string()),
            None => attributes.remove(MAX_KBPS_ATTRIBUTE),
        };
        self.role = Some(grant.role);
        self.grants = grant.grants;
    }

    /// Takes away the tracks that its grants do not allow.
    pub fn take_forbidden_tracks(&mut self) -> Vec<Track> {
        let grants = &self.grants;
        let tracks = &mut self.participant.tracks;
        let taken = tracks.extract_if(.., |track| permit(grants, track.kind, track.source).is_err()).collect();
        self.participant.is_publisher = !tracks.is_empty();
        taken
    }

    /// A track, to change it.
    pub fn track_mut(&mut self, sid: &TrackSid) -> Result<&mut Track, MachineError> {
        self.participant.tracks.iter_mut().find(|track| track.sid == *sid).ok_or(MachineError::NoSuchTrack)
    }

    /// What its token would say now.
    pub fn claims(&self) -> Claims {
        let participant = &self.participant;
        Claims {
            room: self.room.clone(),
            identity: participant.identity.clone(),
            name: participant.name.clone(),
            metadata: participant.metadata.clone(),
            attributes: participant.attributes.clone(),
            kind: participant.kind,
            grants: self.grants.clone(),
            room_config: self.room_config,
            expires_at: self.expires_at,
        }
    }
}
