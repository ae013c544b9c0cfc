//! A participant on the embedded plane.

use std::time::Duration;

use conclave_model::event::{ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, Participant, ParticipantState, Track};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, RoleName, Timestamp, TrackSid};
use conclave_turn::RelayAccess;

use super::bitrate_meter::BitrateMeter;
use super::client::Client;
use super::error::MachineError;
use super::inbox::{Inbox, InboxEntry, Notice};
use super::machine::deadlines::{Deadline, Deadlines};
use super::own_metadata::{OwnMetadata, OwnMetadataError, Texts};
use super::publish::{check_mime_type, check_track};
use crate::port::RoleGrant;
use crate::token::{Claims, Grants, RoomConfig, SignedToken, TokenError, TokenSigner};

/// Least lifetime of a refreshed token.
const REFRESHED_LIFETIME: Duration = Duration::from_secs(600);

/// One join of a participant: what others see of it, what it may do, and what it has received.
#[derive(Debug)]
pub(super) struct LocalParticipant {
    room: NamespacedRoom,
    pub grants: Grants,
    inbox: Inbox,
    meter: BitrateMeter,
    participant: Participant,
    role: Option<RoleName>,
    room_config: Option<RoomConfig>,
    /// When its token expires.
    expires_at: Timestamp,
    /// The texts of its token, once its client has set others.
    texts_of_token: Option<Box<Texts>>,
    /// Grows with every change that clients are notified of.
    version: u32,
    /// Its client; `None` for a participant that the sandbox or an encoder stands for, which sends no packets.
    pub client: Option<Box<Client>>,
    /// Whether its join was reported, so that its leave has to be.
    is_reported: bool,
    /// Its access to the TURN server in this process, which ends when it leaves.
    relay_access: Option<RelayAccess>,
}

impl LocalParticipant {
    /// Creates a participant that is joining.
    pub fn new(sid: ParticipantSid, claims: Claims, now: Timestamp) -> Self {
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
            meter: BitrateMeter::default(),
            room_config: claims.room_config,
            expires_at: claims.expires_at,
            texts_of_token: None,
            version: 0,
            client: None,
            is_reported: false,
            relay_access: None,
        }
    }

    /// Gives the participant a client of its own.
    pub fn with_client(self, client: Client) -> Self {
        Self {
            client: Some(Box::new(client)),
            ..self
        }
    }

    pub fn sid(&self) -> &ParticipantSid {
        &self.participant.sid
    }

    pub fn identity(&self) -> &Identity {
        &self.participant.identity
    }

    /// Returns the participant as others see it.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    pub fn role(&self) -> Option<&RoleName> {
        self.role.as_ref()
    }

    /// Returns the participant as reports name it.
    pub fn to_ref(&self) -> ParticipantRef {
        ParticipantRef {
            identity: self.participant.identity.clone(),
            sid: self.participant.sid.clone(),
            role: self.role.clone(),
        }
    }

    /// Returns the participant as others will see it once its join is complete.
    pub fn as_active(&self) -> Participant {
        Participant {
            state: ParticipantState::Active,
            ..self.participant.clone()
        }
    }

    /// Returns whether its join is complete and it has not left.
    pub fn is_active(&self) -> bool {
        self.participant.state == ParticipantState::Active
    }

    /// Returns whether its client is notified of what happens in the room.
    pub fn is_present(&self) -> bool {
        self.is_active() || self.participant.state == ParticipantState::Joined
    }

    /// Gives it access to the TURN server in this process.
    pub fn set_relay_access(&mut self, access: Option<RelayAccess>) {
        self.relay_access = access;
    }

    /// Returns whether its join was reported, so that its leave has to be.
    pub const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Marks its join as reported. Returns the participant as the report has it.
    pub fn report(&mut self) -> Participant {
        self.is_reported = true;
        self.as_active()
    }

    /// Puts a notice into its inbox.
    pub fn receive(&mut self, now: Timestamp, notice: Notice) {
        self.inbox.push(now, notice);
    }

    /// Marks it as admitted: its media may connect.
    pub fn admit(&mut self) {
        self.participant.state = ParticipantState::Joined;
    }

    /// Returns the number of changes that clients were notified of.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Counts a change that clients are notified of.
    pub fn bump_version(&mut self) {
        self.version += 1;
    }

    /// Completes its join.
    pub fn activate(&mut self) {
        self.participant.state = ParticipantState::Active;
    }

    /// Marks it as disconnected, and returns the tracks that it published until then.
    pub fn disconnect(&mut self) -> Vec<Track> {
        self.relay_access = None;
        self.participant.state = ParticipantState::Disconnected;
        self.participant.is_publisher = false;
        std::mem::take(&mut self.participant.tracks)
    }

    /// Returns the limit of everything it publishes together, in kilobits per second.
    pub fn max_kbps(&self) -> Option<u32> {
        self.participant
            .attributes
            .get(MAX_KBPS_ATTRIBUTE)
            .and_then(|kbps| kbps.parse().ok())
    }

    /// Returns the sid of its track, if it publishes exactly one.
    fn only_track(&self) -> Option<TrackSid> {
        match self.participant.tracks.as_slice() {
            [track] => Some(track.sid.clone()),
            _ => None,
        }
    }

    /// Returns the last measured bitrate of everything it publishes, in kilobits per second.
    pub fn kbps(&self) -> u32 {
        self.meter.kbps()
    }

    /// Compares a bitrate with its current limit, and updates the deadline.
    pub fn measure(&mut self, kbps: u32, deadlines: &mut Deadlines) {
        let before = self.meter.deadline();
        self.meter
            .measure(kbps, self.max_kbps(), deadlines.reading());
        let after = self.meter.deadline();
        if before != after {
            deadlines.set(Deadline::Bitrate(self.sid().clone()), after);
        }
    }

    /// Returns that its bitrate has exceeded its limit, or has fallen back below it, once, if that has lasted long enough.
    pub fn take_limit_change(&mut self, deadlines: &mut Deadlines) -> Option<PublishLimit> {
        let change = self.meter.take_change(deadlines.reading())?;
        deadlines.remove(&Deadline::Bitrate(self.sid().clone()));
        Some(PublishLimit {
            exceeded: change.exceeded,
            kbps: change.kbps,
            max_kbps: change.max_kbps,
            track: self.only_track(),
        })
    }

    pub fn add_track(&mut self, track: Track) {
        self.participant.tracks.push(track);
        self.participant.is_publisher = true;
    }

    pub fn remove_track(&mut self, sid: &TrackSid) -> Result<Track, MachineError> {
        let tracks = &mut self.participant.tracks;
        let at = tracks
            .iter()
            .position(|track| track.sid == *sid)
            .ok_or(MachineError::NoSuchTrack)?;
        let track = tracks.remove(at);
        self.participant.is_publisher = !tracks.is_empty();
        Ok(track)
    }

    /// Replaces its grants, and its attributes for role and bitrate limit. What it said of itself with its join is dropped if that does
    /// not come with this role.
    pub fn set_role(&mut self, grant: RoleGrant) {
        self.participant.set_role(&grant.role, grant.max_kbps);
        self.role = Some(grant.role);
        self.grants = grant.grants;
        let is_joining = self.participant.state == ParticipantState::Joining;
        if is_joining
            && !self.grants.can_update_own_metadata
            && let Some(texts) = self.texts_of_token.take()
        {
            self.set_texts(texts.with_reserved(&self.participant.attributes));
        }
    }

    fn texts(&self) -> Texts {
        let Participant {
            name,
            metadata,
            attributes,
            ..
        } = &self.participant;
        Texts {
            name: name.clone(),
            metadata: metadata.clone(),
            attributes: attributes.clone(),
        }
    }

    fn set_texts(&mut self, texts: Texts) {
        let Texts {
            name,
            metadata,
            attributes,
        } = texts;
        (
            self.participant.name,
            self.participant.metadata,
            self.participant.attributes,
        ) = (name, metadata, attributes);
    }

    /// Sets what its client says of it. Returns whether that is new.
    pub fn set_own_metadata(&mut self, change: OwnMetadata) -> Result<bool, OwnMetadataError> {
        if !self.grants.can_update_own_metadata {
            return Err(OwnMetadataError::NotPermitted);
        }
        let before = self.texts();
        let changed = before.with(change)?;
        if changed == before {
            return Ok(false);
        }
        self.texts_of_token.get_or_insert_with(|| Box::new(before));
        self.set_texts(changed);
        Ok(true)
    }

    /// Returns as how many changes one of it counts that its client causes.
    pub fn change_weight(&self) -> u32 {
        if self.texts_of_token.is_some() {
            self.texts().weight()
        } else {
            1
        }
    }

    /// Removes the tracks that its grants forbid, and returns them.
    pub fn remove_forbidden_tracks(&mut self) -> Vec<Track> {
        let grants = &self.grants;
        let tracks = &mut self.participant.tracks;
        let is_forbidden = |track: &mut Track| {
            check_track(grants, track.kind, track.source).is_err()
                || track
                    .mime_type
                    .as_deref()
                    .is_some_and(|mime_type| check_mime_type(grants, mime_type).is_err())
        };
        let removed = tracks.extract_if(.., is_forbidden).collect();
        self.participant.is_publisher = !tracks.is_empty();
        removed
    }

    pub fn track_mut(&mut self, sid: &TrackSid) -> Result<&mut Track, MachineError> {
        self.participant
            .tracks
            .iter_mut()
            .find(|track| track.sid == *sid)
            .ok_or(MachineError::NoSuchTrack)
    }

    /// Mutes or unmutes a track. Returns the track, and its summary if its state changed.
    pub fn set_muted(
        &mut self,
        sid: &TrackSid,
        muted: bool,
    ) -> Result<(Track, Option<TrackSummary>), MachineError> {
        let track = self.track_mut(sid)?;
        let is_changed = std::mem::replace(&mut track.muted, muted) != muted;
        let summary = is_changed.then(|| TrackSummary::from(&*track));
        Ok((track.clone(), summary))
    }

    /// Returns how much memory the part of it takes that the sandbox shows, about.
    pub fn shown_bytes(&self) -> usize {
        let participant = &self.participant;
        let attributes = participant
            .attributes
            .iter()
            .map(|(name, value)| name.len() + value.len() + 64);
        let texts = participant.name.len() + participant.metadata.len() + attributes.sum::<usize>();
        size_of::<Self>() + texts + self.inbox.bytes()
    }

    /// Returns the claims that a refreshed token has: with what its client has set, if that is not too long.
    pub fn claims(&self) -> Claims {
        let participant = &self.participant;
        let texts = match &self.texts_of_token {
            Some(of_token) if !self.texts().fit_into_token() => {
                of_token.with_reserved(&participant.attributes)
            }
            _ => self.texts(),
        };
        Claims {
            room: self.room.clone(),
            identity: participant.identity.clone(),
            name: texts.name,
            metadata: texts.metadata,
            attributes: texts.attributes,
            kind: participant.kind,
            grants: self.grants.clone(),
            room_config: self.room_config,
            expires_at: self.expires_at,
        }
    }

    /// Signs the claims that it has now, valid for ten minutes or as long as its token is.
    pub fn refreshed_token(
        &self,
        signer: &TokenSigner,
        now: Timestamp,
    ) -> Result<SignedToken, TokenError> {
        let claims = self.claims();
        signer.refresh(&claims, token_expiry(&claims, true, now), now)
    }
}

/// What the sandbox shows of a participant.
#[derive(Debug)]
pub(super) struct ShownParticipant {
    pub participant: Participant,
    /// The claims that a refreshed token has.
    pub claims: Claims,
    pub inbox: Vec<InboxEntry>,
}

impl From<&LocalParticipant> for ShownParticipant {
    fn from(local: &LocalParticipant) -> Self {
        Self {
            participant: local.participant.clone(),
            claims: local.claims(),
            inbox: local.inbox.entries(),
        }
    }
}

/// Returns the expiry of a client's token, which is extended while the participant is connected.
pub(super) fn token_expiry(claims: &Claims, is_connected: bool, now: Timestamp) -> Timestamp {
    if is_connected {
        claims.expires_at.max(now.after(REFRESHED_LIFETIME))
    } else {
        claims.expires_at
    }
}
