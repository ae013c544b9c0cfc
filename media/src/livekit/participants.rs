//! The participants of a room: who is there, their removal, and their moderation, which is muting, data messages and changes of role.
//!
//! To answer for a participant, LiveKit asks the participant's node. It answers 503 "no response from servers" both if no
//! node has the participant and if the node is stuck. The list of participants comes from LiveKit's store, and tells the
//! two cases apart.

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

/// Calls about participants.
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

    /// Returns the participants of a room, without ghosts. A room that LiveKit does not know has none.
    pub async fn list(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, CallError> {
        Ok(self.without_ghosts(room, self.list_with_ghosts(room).await?))
    }

    fn without_ghosts(
        &self,
        room: &NamespacedRoom,
        mut participants: Vec<Participant>,
    ) -> Vec<Participant> {
        if participants.is_empty() {
            self.ghosts.forget(room);
        }
        participants.retain(|participant| !self.ghosts.contains(room, &participant.sid));
        participants
    }

    /// Returns the participants of a room, without ghosts, and disconnects those whose identity is invalid in a spawned task.
    ///
    /// # Errors
    /// `Refused` if LiveKit lists no participant and its node counts some: then the list is wrong.
    pub async fn list_confirmed(
        &self,
        room: &NamespacedRoom,
    ) -> Result<Vec<Participant>, MediaError> {
        let listed = self.list_infos(room).await?;
        // A node that died leaves its number in the store; the node that LiveKit assigns then corrects it.
        if listed.is_empty()
            && self.rooms.is_occupied(room).await?
            && self.rooms.count_participants(room).await? > 0
        {
            let problem = "LiveKit lists no participant of a room in which it counts some; it will be asked again";
            return Err(MediaError::Refused(problem.into()));
        }
        self.spawn_remove_invalid(room, &listed);
        Ok(self.without_ghosts(room, connected(&listed)))
    }

    fn spawn_remove_invalid(&self, room: &NamespacedRoom, listed: &[proto::ParticipantInfo]) {
        let is_invalid = |info: &&proto::ParticipantInfo| {
            convert::is_invalid_identity(&info.identity) && info.state() != State::Disconnected
        };
        for info in listed.iter().filter(is_invalid) {
            let (participants, room, identity) =
                (self.clone(), room.clone(), info.identity.clone());
            tokio::spawn(async move { participants.remove_invalid(&room, &identity).await });
        }
    }

    /// Disconnects a participant whose identity is invalid. It could have no session, so it would not be listed or counted, and
    /// no request could name it. If this fails, reconciliation repeats it.
    pub async fn remove_invalid(&self, room: &NamespacedRoom, identity: &str) {
        let shown = sanitized(identity);
        log::warn!(room = room.as_str(), identity = shown.as_str(); "a participant whose identity is not allowed is removed");
        let request = selector(room, identity);
        if let Err(error) = self.client.call(twirp::remove_participant(&request)).await
            && !error.is_not_found()
        {
            log::warn!(room = room.as_str(), identity = shown.as_str(); "a participant whose identity is not allowed was not removed: {error}");
        }
    }

    /// Returns the participants that LiveKit lists, ghosts included.
    pub async fn list_with_ghosts(
        &self,
        room: &NamespacedRoom,
    ) -> Result<Vec<Participant>, CallError> {
        Ok(connected(&self.list_infos(room).await?))
    }

    /// Returns everyone whom LiveKit lists.
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

    /// Returns one participant; `None` if no participant with that identity is in the room.
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
            Ok(info) => Ok(Some(info).filter(|info| !self.is_ghost(room, info))),
            Err(error) => self
                .ignore_if_absent(room, identity, error)
                .await
                .map(|()| None),
        }
    }

    /// Disconnects the participant with this sid; returns whether it was connected. A newer join of the same identity is
    /// left alone.
    pub async fn remove(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
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

    /// Returns `Ok` if a call about a participant failed because the participant is not in the room, otherwise the error.
    pub async fn ignore_if_absent(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        error: CallError,
    ) -> Result<(), CallError> {
        if error.is_not_found() {
            return Ok(());
        }
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

/// Returns how calls name one participant.
fn selector(room: &NamespacedRoom, identity: &str) -> proto::RoomParticipantIdentity {
    proto::RoomParticipantIdentity {
        room: room.to_string(),
        identity: identity.to_owned(),
        ..Default::default()
    }
}

/// Converts those of the listed participants who are connected.
fn connected(listed: &[proto::ParticipantInfo]) -> Vec<Participant> {
    listed
        .iter()
        .filter_map(convert::participant)
        .filter(is_connected)
        .collect()
}

/// Returns whether a listed participant is connected. LiveKit may list one that has just disconnected.
fn is_connected(participant: &Participant) -> bool {
    participant.state != ParticipantState::Disconnected
}

/// Calls that change what a participant does or receives.
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
        // Read first: LiveKit searches three seconds for the node of a participant that is not connected.
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
            // LiveKit answers an unknown track with a success that names no track.
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
            // LiveKit repeats the request internally if a node is slow. Clients discard the second message by its nonce.
            nonce: random_bytes::<16>().to_vec(),
            ..Default::default()
        };
        match self.client.call(twirp::send_data(&request)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error)
                if error.is_no_response() && self.participants.list(room).await?.is_empty() =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a participant the permissions and attributes of a role; `None` if it is not in the room.
    pub async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: &RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let Some(current) = self.participants.get_info(room, identity).await? else {
            return Ok(None);
        };
        let max_kbps = role
            .max_kbps
            .map(|kbps| kbps.to_string())
            .unwrap_or_default();
        // LiveKit would let a client that may change its attributes change the one with its role.
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
            // LiveKit removes an attribute whose value is empty, and keeps those that are not named.
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

/// Returns the outcome of an unmute that LiveKit's configuration forbids. LiveKit refuses it whatever the track's state
/// is, but a track that is not muted needs no change.
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
