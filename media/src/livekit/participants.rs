//! A room's participants: listing, removal, and moderation, which means muting, data messages and role changes.
//!
//! For a call about a participant, LiveKit contacts the participant's node. It responds with 503 "no response from
//! servers" both if no node has the participant and if the node is stuck. The list of participants, which comes from
//! LiveKit's store, distinguishes the two cases.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::participant::{
    MAX_KBPS_ATTRIBUTE, Participant, ParticipantState, ROLE_ATTRIBUTE,
};
use conclave_model::secret::random_bytes;
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, TrackSid};
use livekit_protocol as proto;
use proto::participant_info::State;

use super::convert;
use super::ghosts::GhostParticipants;
use super::rooms::Rooms;
use super::twirp::{self, CallError, TwirpClient, sanitized};
use crate::port::{MediaError, MuteOutcome, RoleGrant, ServerData};
use crate::protocol::permission_to_proto;
use crate::token::Grants;

/// Calls for participants.
#[derive(Debug, Clone)]
pub(super) struct Participants {
    client: Arc<TwirpClient>,
    rooms: Rooms,
    ghosts: Arc<GhostParticipants>,
}

impl Participants {
    pub fn new(client: Arc<TwirpClient>, rooms: Rooms, ghosts: Arc<GhostParticipants>) -> Self {
        Self {
            client,
            rooms,
            ghosts,
        }
    }

    /// Returns a room's participants without ghosts; empty if LiveKit does not know the room.
    pub async fn list(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, CallError> {
        Ok(self.without_ghosts(room, self.list_with_ghosts(room).await?))
    }

    fn without_ghosts(
        &self,
        room: &NamespacedRoom,
        mut participants: Vec<Participant>,
    ) -> Vec<Participant> {
        // LiveKit has no entries left for this room, so it has no ghosts either.
        if participants.is_empty() {
            self.ghosts.forget(room);
        }
        participants.retain(|participant| !self.ghosts.contains(room, &participant.sid));
        participants
    }

    /// Returns a room's participants without ghosts, and disconnects those with an invalid identity in a spawned task.
    ///
    /// # Errors
    /// `Refused` if LiveKit lists no participant but its node counts some: then the list is wrong.
    pub async fn list_confirmed(
        &self,
        room: &NamespacedRoom,
    ) -> Result<Vec<Participant>, MediaError> {
        let listed = self.list_infos(room).await?;
        // A dead node leaves its number in the store; the node that LiveKit assigns next corrects it.
        if listed.is_empty()
            && self.rooms.is_occupied(room).await?
            && self.rooms.count_participants(room).await? > 0
        {
            let problem = "LiveKit lists no participants in a room for which it counts some; the call will be repeated";
            return Err(MediaError::Refused(problem.into()));
        }
        // Reconciliation calls this regularly, so a failed removal is repeated.
        self.spawn_remove_invalid(room, &listed);
        Ok(self.without_ghosts(room, connected(&listed)))
    }

    fn spawn_remove_invalid(&self, room: &NamespacedRoom, listed: &[proto::ParticipantInfo]) {
        // Spawned: the list must not wait for as many calls as there are invalid participants.
        let is_invalid = |info: &&proto::ParticipantInfo| {
            convert::is_invalid_identity(&info.identity) && info.state() != State::Disconnected
        };
        for info in listed.iter().filter(is_invalid) {
            let (participants, room, identity) =
                (self.clone(), room.clone(), info.identity.clone());
            tokio::spawn(async move { participants.remove_invalid(&room, &identity).await });
        }
    }

    /// Disconnects a participant with an invalid identity. It could have no session, so it would be neither listed nor
    /// counted, and no request could name it. If this fails, reconciliation repeats it.
    pub async fn remove_invalid(&self, room: &NamespacedRoom, identity: &str) {
        let shown = sanitized(identity);
        log::warn!(room = room.as_str(), identity = shown.as_str(); "removing a participant with an identity that the API does not allow");
        let request = selector(room, identity);
        if let Err(error) = self.client.call(twirp::remove_participant(&request)).await
            && !error.is_not_found()
        {
            log::warn!(room = room.as_str(), identity = shown.as_str(); "could not remove a participant with an identity that the API does not allow: {error}");
        }
    }

    /// Returns the participants that LiveKit lists, including ghosts.
    pub async fn list_with_ghosts(
        &self,
        room: &NamespacedRoom,
    ) -> Result<Vec<Participant>, CallError> {
        Ok(connected(&self.list_infos(room).await?))
    }

    /// Returns all of LiveKit's entries.
    async fn list_infos(
        &self,
        room: &NamespacedRoom,
    ) -> Result<Vec<proto::ParticipantInfo>, CallError> {
        let request = proto::ListParticipantsRequest {
            room: room.to_string(),
        };
        match self.client.call(twirp::list_participants(&request)).await {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            // Some configurations of LiveKit ask the room's node for the list, and this room has none.
            Err(error) if error.is_no_response() => {
                if !self.rooms.is_known(room).await? {
                    return Ok(Vec::new());
                }
                // Assigns a node to the room, which can then respond.
                self.rooms.count_participants(room).await?;
                Ok(self
                    .client
                    .call(twirp::list_participants(&request))
                    .await?
                    .participants)
            }
            listed => Ok(listed?.participants),
        }
    }

    /// Returns one participant; `None` if no participant with this identity is in the room.
    pub async fn get(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, CallError> {
        let info = self.get_info(room, identity).await?;
        Ok(info
            .as_ref()
            .and_then(convert::participant)
            .filter(is_connected))
    }

    /// Returns one participant as LiveKit describes it.
    pub async fn get_info(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<proto::ParticipantInfo>, CallError> {
        match self
            .client
            .call(twirp::get_participant(&selector(room, identity.as_str())))
            .await
        {
            // LiveKit reads participants from its store, which contains ghosts.
            Ok(info) => Ok(Some(info).filter(|info| !self.is_ghost(room, info))),
            Err(error) => self
                .ignore_if_absent(room, identity, error)
                .await
                .map(|()| None),
        }
    }

    /// Disconnects the participant with this sid. Returns whether it was connected. A newer join with the same identity
    /// is left alone.
    pub async fn remove(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        // LiveKit removes participants by identity, so the sid is looked up first.
        let participants = self.list(room).await?;
        let Some(found) = participants
            .into_iter()
            .find(|participant| participant.sid == *sid)
        else {
            return Ok(false);
        };
        match self
            .client
            .call(twirp::remove_participant(&selector(
                room,
                found.identity.as_str(),
            )))
            .await
        {
            Ok(_) => Ok(true),
            Err(error) => Ok(self
                .ignore_if_absent(room, &found.identity, error)
                .await
                .map(|()| false)?),
        }
    }

    /// Returns `Ok` if a call failed because its participant is not in the room, otherwise the error.
    pub async fn ignore_if_absent(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        error: CallError,
    ) -> Result<(), CallError> {
        if error.is_not_found() {
            return Ok(());
        }
        // "No response" also means that the participant's node is stuck; the list, which comes from the store, decides.
        if !error.is_no_response() {
            return Err(error);
        }
        let listed = self.list(room).await?;
        if listed
            .iter()
            .any(|participant| participant.identity == *identity)
        {
            Err(error)
        } else {
            Ok(())
        }
    }

    fn is_ghost(&self, room: &NamespacedRoom, info: &proto::ParticipantInfo) -> bool {
        info.sid
            .parse()
            .is_ok_and(|sid| self.ghosts.contains(room, &sid))
    }
}

/// Returns LiveKit's selector for one participant.
fn selector(room: &NamespacedRoom, identity: &str) -> proto::RoomParticipantIdentity {
    proto::RoomParticipantIdentity {
        room: room.to_string(),
        identity: identity.to_owned(),
        ..Default::default()
    }
}

/// Converts the listed participants that are connected.
fn connected(listed: &[proto::ParticipantInfo]) -> Vec<Participant> {
    listed
        .iter()
        .filter_map(convert::participant)
        .filter(is_connected)
        .collect()
}

/// Returns whether a listed participant is connected. LiveKit may still list a participant just after its disconnection.
fn is_connected(participant: &Participant) -> bool {
    participant.state != ParticipantState::Disconnected
}

/// Calls that change a participant's permissions or tracks, or send it data.
#[derive(Debug, Clone)]
pub(super) struct Moderation {
    client: Arc<TwirpClient>,
    participants: Participants,
}

impl Moderation {
    pub fn new(client: Arc<TwirpClient>, participants: Participants) -> Self {
        Self {
            client,
            participants,
        }
    }

    /// Mutes or unmutes a track.
    pub async fn mute(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        // Read first: LiveKit searches three seconds for the node of an absent participant.
        let Some(participant) = self.participants.get(room, identity).await? else {
            return Ok(MuteOutcome::NoSuchParticipant);
        };
        let request = proto::MuteRoomTrackRequest {
            room: room.to_string(),
            identity: identity.to_string(),
            track_sid: track.to_string(),
            muted,
        };
        match self.client.call(twirp::mute_track(&request)).await {
            // LiveKit responds to an unknown track with a success that contains no track.
            Ok(response) => {
                let track = response.track.as_ref().and_then(convert::track);
                Ok(track.map_or(MuteOutcome::NoSuchTrack, MuteOutcome::Done))
            }
            Err(error) if error.is_failed_precondition() => {
                outcome_of_forbidden_unmute(participant, track, error)
            }
            Err(error) => {
                self.participants
                    .ignore_if_absent(room, identity, error)
                    .await?;
                Ok(MuteOutcome::NoSuchParticipant)
            }
        }
    }

    /// Sends a data message. Succeeds without effect if the room has no participants.
    pub async fn send_data(
        &self,
        room: &NamespacedRoom,
        message: ServerData,
    ) -> Result<(), MediaError> {
        // Read first: LiveKit searches three seconds for the node of a room that is not live.
        if self.participants.list(room).await?.is_empty() {
            return Ok(());
        }
        let request = proto::SendDataRequest {
            room: room.to_string(),
            data: message.data,
            kind: convert::data_kind(message.kind),
            destination_identities: message.to.iter().map(Identity::to_string).collect(),
            topic: message.topic,
            // LiveKit repeats the request internally if a node is slow. Clients discard the second message by its
            // nonce.
            nonce: random_bytes::<16>().to_vec(),
            ..Default::default()
        };
        match self.client.call(twirp::send_data(&request)).await {
            Ok(_) => Ok(()),
            // The room was closed, or its last participant left, after the list was read.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error)
                if error.is_no_response() && self.participants.list(room).await?.is_empty() =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Applies a role's permissions and attributes to a participant; `None` if it is not in the room.
    pub async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: &RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        // The current permission is needed, since LiveKit replaces all of its fields.
        let Some(current) = self.participants.get_info(room, identity).await? else {
            return Ok(None);
        };
        let max_kbps = role
            .max_kbps
            .map(|kbps| kbps.to_string())
            .unwrap_or_default();
        // LiveKit would permit a client that may change its attributes to change its role's attribute, too.
        let grants = Grants {
            can_update_own_metadata: false,
            ..role.grants.clone()
        };
        let request = proto::UpdateParticipantRequest {
            room: room.to_string(),
            identity: identity.to_string(),
            permission: Some(permission_to_proto(
                current.permission.unwrap_or_default(),
                &grants,
            )),
            // LiveKit removes an attribute whose value is empty, and keeps attributes that are not named.
            attributes: HashMap::from([
                (ROLE_ATTRIBUTE.to_owned(), role.role.to_string()),
                (MAX_KBPS_ATTRIBUTE.to_owned(), max_kbps),
            ]),
            ..Default::default()
        };
        match self.client.call(twirp::update_participant(&request)).await {
            Ok(updated) => Ok(convert::participant(&updated)),
            Err(error) => {
                self.participants
                    .ignore_if_absent(room, identity, error)
                    .await?;
                Ok(None)
            }
        }
    }
}

/// Returns the outcome of an unmute that LiveKit's configuration forbids. LiveKit refuses it regardless of the track's
/// state, but a track that is not muted needs no change.
fn outcome_of_forbidden_unmute(
    participant: Participant,
    track: &TrackSid,
    error: CallError,
) -> Result<MuteOutcome, MediaError> {
    match participant
        .tracks
        .into_iter()
        .find(|published| published.sid == *track)
    {
        None => Ok(MuteOutcome::NoSuchTrack),
        Some(published) if !published.muted => Ok(MuteOutcome::Done(published)),
        Some(_) => Err(error.into()),
    }
}
