//! A participant's state on the embedded plane.

use std::time::Duration;

use conclave_model::event::{ParticipantRef, PublishLimit, TrackSummary};
use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, Participant, ParticipantState, Track};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, RoleName, Timestamp, TrackSid};
use conclave_turn::RelayAccess;

use super::bitrate_meter::BitrateMeter;
use super::client::Client;
use super::error::RoomStateError;
use super::inbox::{Inbox, InboxEntry, Notice};
use super::own_metadata::{OwnMetadata, OwnMetadataError, ParticipantTexts};
use super::publish::{check_mime_type, check_track};
use super::room_state::deadlines::{Deadline, Deadlines};
use crate::port::RoleGrant;
use crate::token::{Claims, Grants, RoomConfig, SignedToken, TokenError, TokenSigner};

/// Minimum lifetime of a refreshed token.
const REFRESHED_LIFETIME: Duration = Duration::from_secs(600);

/// State of one join: the participant as others see it, its permissions and its inbox.
#[derive(Debug)]
pub(super) struct LocalParticipant {
    room: NamespacedRoom,
    pub grants: Grants,
    inbox: Inbox,
    meter: BitrateMeter,
    participant: Participant,
    role: Option<RoleName>,
    room_config: Option<RoomConfig>,
    /// Expiry of its token.
    expires_at: Timestamp,
    /// Name, metadata and attributes from its token, once its client has changed them.
    token_texts: Option<Box<ParticipantTexts>>,
    /// Incremented with every change that clients are notified of.
    version: u32,
    /// `None` for a sandbox participant or a simulated encoder, which send no packets.
    pub client: Option<Box<Client>>,
    /// Whether its join was reported, so that its leave must be.
    is_reported: bool,
    /// Access to the embedded TURN server, which ends when the participant leaves.
    relay_access: Option<RelayAccess>,
}

impl LocalParticipant {
    /// Creates a joining participant.
    pub fn new(sid: ParticipantSid, claims: Claims, now: Timestamp) -> Self {
        Self {
            role: claims.role(),
            participant: Participant {
                sid,
                identity: claims.identity,
                name: claims.name,
                // The control plane decides before it becomes joined or active.
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
            token_texts: None,
            version: 0,
            client: None,
            is_reported: false,
            relay_access: None,
        }
    }

    /// Adds a client.
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

    /// Returns the participant's identification in reports.
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

    /// Returns whether its client is notified of events in the room.
    pub fn is_present(&self) -> bool {
        self.is_active() || self.participant.state == ParticipantState::Joined
    }

    /// Sets its access to the embedded TURN server.
    pub fn set_relay_access(&mut self, access: Option<RelayAccess>) {
        self.relay_access = access;
    }

    /// Returns whether its join was reported, so that its leave must be.
    pub const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Marks its join as reported. Returns the participant for the report.
    pub fn report(&mut self) -> Participant {
        self.is_reported = true;
        self.as_active()
    }

    /// Puts a notice into its inbox.
    pub fn receive(&mut self, now: Timestamp, notice: Notice) {
        self.inbox.push(now, notice);
    }

    /// Marks it as joined: its media may connect.
    pub fn admit(&mut self) {
        self.participant.state = ParticipantState::Joined;
    }

    /// Returns the version of its state as clients see it.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Increments the version, for a change that clients are notified of.
    pub fn bump_version(&mut self) {
        self.version += 1;
    }

    /// Completes its join.
    pub fn activate(&mut self) {
        self.participant.state = ParticipantState::Active;
    }

    /// Marks it as disconnected. Returns the tracks that it published.
    pub fn disconnect(&mut self) -> Vec<Track> {
        // Dropping the access releases the participant's TURN allocations.
        self.relay_access = None;
        self.participant.state = ParticipantState::Disconnected;
        self.participant.is_publisher = false;
        std::mem::take(&mut self.participant.tracks)
    }

    /// Returns the limit for its total published bitrate, in kbit/s.
    pub fn max_kbps(&self) -> Option<u32> {
        // The role's limit is an attribute, so that clients see it, too.
        self.participant
            .attributes
            .get(MAX_KBPS_ATTRIBUTE)
            .and_then(|kbps| kbps.parse().ok())
    }

    /// Returns its track's sid if it publishes exactly one.
    fn only_track(&self) -> Option<TrackSid> {
        match self.participant.tracks.as_slice() {
            // With several tracks, the total bitrate cannot be attributed to one of them.
            [track] => Some(track.sid.clone()),
            _ => None,
        }
    }

    /// Returns the last measurement of its total published bitrate, in kbit/s.
    pub fn kbps(&self) -> u32 {
        self.meter.kbps()
    }

    /// Compares a measured bitrate with the current limit, and updates the deadline.
    pub fn measure(&mut self, kbps: u32, deadlines: &mut Deadlines) {
        let before = self.meter.deadline();
        self.meter
            .measure(kbps, self.max_kbps(), deadlines.reading());
        let after = self.meter.deadline();
        // Most measurements change no deadline.
        if before != after {
            deadlines.set(Deadline::Bitrate(self.sid().clone()), after);
        }
    }

    /// Returns a bitrate change that has lasted long enough, once: above the limit, or below it again.
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

    pub fn remove_track(&mut self, sid: &TrackSid) -> Result<Track, RoomStateError> {
        let tracks = &mut self.participant.tracks;
        let at = tracks
            .iter()
            .position(|track| track.sid == *sid)
            .ok_or(RoomStateError::NoSuchTrack)?;
        let track = tracks.remove(at);
        // The flag follows the tracks: others see both in the participant's update.
        self.participant.is_publisher = !tracks.is_empty();
        Ok(track)
    }

    /// Replaces its grants, and its attributes for role and bitrate limit. Own metadata that it sent with its join is
    /// dropped if this role does not permit own metadata.
    pub fn set_role(&mut self, grant: RoleGrant) {
        self.participant.set_role(&grant.role, grant.max_kbps);
        self.role = Some(grant.role);
        self.grants = grant.grants;
        // Later, own metadata was accepted under an earlier role and seen by others, so it stays.
        let is_joining = self.participant.state == ParticipantState::Joining;
        if is_joining
            && !self.grants.can_update_own_metadata
            && let Some(texts) = self.token_texts.take()
        {
            self.set_texts(texts.with_reserved(&self.participant.attributes));
        }
    }

    fn texts(&self) -> ParticipantTexts {
        let Participant {
            name,
            metadata,
            attributes,
            ..
        } = &self.participant;
        ParticipantTexts {
            name: name.clone(),
            metadata: metadata.clone(),
            attributes: attributes.clone(),
        }
    }

    fn set_texts(&mut self, texts: ParticipantTexts) {
        let ParticipantTexts {
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

    /// Sets the metadata that its client sent. Returns whether anything changed.
    pub fn set_own_metadata(&mut self, change: OwnMetadata) -> Result<bool, OwnMetadataError> {
        if !self.grants.can_update_own_metadata {
            return Err(OwnMetadataError::NotPermitted);
        }
        let before = self.texts();
        let changed = before.with(change)?;
        // Nobody is notified of a change without effect, and no version is used up.
        if changed == before {
            return Ok(false);
        }
        // Only the first change stores the token's texts: a later one would store the client's earlier changes.
        self.token_texts.get_or_insert_with(|| Box::new(before));
        self.set_texts(changed);
        Ok(true)
    }

    /// Returns the number of changes that one change by its client counts as.
    pub fn change_weight(&self) -> u32 {
        if self.token_texts.is_some() {
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
                // A track without a known codec is not forwarded in one, so only its source matters.
                || track
                    .mime_type
                    .as_deref()
                    .is_some_and(|mime_type| check_mime_type(grants, mime_type).is_err())
        };
        let removed = tracks.extract_if(.., is_forbidden).collect();
        self.participant.is_publisher = !tracks.is_empty();
        removed
    }

    pub fn track_mut(&mut self, sid: &TrackSid) -> Result<&mut Track, RoomStateError> {
        self.participant
            .tracks
            .iter_mut()
            .find(|track| track.sid == *sid)
            .ok_or(RoomStateError::NoSuchTrack)
    }

    /// Mutes or unmutes a track. Returns the track, and its summary if its state changed.
    pub fn set_muted(
        &mut self,
        sid: &TrackSid,
        muted: bool,
    ) -> Result<(Track, Option<TrackSummary>), RoomStateError> {
        let track = self.track_mut(sid)?;
        let is_changed = std::mem::replace(&mut track.muted, muted) != muted;
        let summary = is_changed.then(|| TrackSummary::from(&*track));
        Ok((track.clone(), summary))
    }

    /// Returns the approximate memory size of the parts that the sandbox shows.
    pub fn shown_bytes(&self) -> usize {
        let participant = &self.participant;
        let attributes = participant
            .attributes
            .iter()
            // 64: about a map entry's overhead, with two `String`s.
            .map(|(name, value)| name.len() + value.len() + 64);
        let texts = participant.name.len() + participant.metadata.len() + attributes.sum::<usize>();
        size_of::<Self>() + texts + self.inbox.bytes()
    }

    /// Returns the claims for a refreshed token, including metadata that its client has set unless that is too long.
    pub fn claims(&self) -> Claims {
        let participant = &self.participant;
        let texts = match &self.token_texts {
            // Falls back to the original token's texts, which fit.
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

    /// Signs its current claims, valid for ten minutes or until its current token expires, whichever is later.
    pub fn refreshed_token(
        &self,
        signer: &TokenSigner,
        now: Timestamp,
    ) -> Result<SignedToken, TokenError> {
        let claims = self.claims();
        signer.refresh(&claims, token_expiry(&claims, true, now), now)
    }
}

/// A participant as the sandbox shows it.
#[derive(Debug)]
pub(super) struct ParticipantSnapshot {
    pub participant: Participant,
    /// Claims for a refreshed token.
    pub claims: Claims,
    pub inbox: Vec<InboxEntry>,
}

impl From<&LocalParticipant> for ParticipantSnapshot {
    fn from(local: &LocalParticipant) -> Self {
        Self {
            participant: local.participant.clone(),
            claims: local.claims(),
            inbox: local.inbox.entries(),
        }
    }
}

/// Returns a client token's expiry, which is extended while the participant is connected.
pub(super) fn token_expiry(claims: &Claims, is_connected: bool, now: Timestamp) -> Timestamp {
    if is_connected {
        // Never shortens the token that the client has.
        claims.expires_at.max(now.after(REFRESHED_LIFETIME))
    } else {
        claims.expires_at
    }
}
