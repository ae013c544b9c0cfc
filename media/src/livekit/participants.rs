//! The participants of a room.
//!
//! To answer for a participant, LiveKit asks the participant's node. It answers 503 "no response from servers" both if no
//! node has the participant and if the node is stuck. The list of participants comes from LiveKit's store, and tells the
//! two cases apart.

use std::sync::Arc;

use conclave_model::participant::{Participant, ParticipantState};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid};
use livekit_protocol as proto;
use proto::participant_info::State;

use super::convert;
use super::ghosts::GhostParticipants;
use super::rooms::Rooms;
use super::twirp::{self, CallError, TwirpClient, sanitized};
use crate::port::MediaError;

/// Calls about participants.
#[derive(Debug, Clone)]
pub(super) struct Participants {
    pub client: Arc<TwirpClient>,
    pub rooms: Rooms,
    pub ghosts: Arc<GhostParticipants>,
}

impl Participants {
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
