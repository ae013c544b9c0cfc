//! Who is in a room.
//!
//! LiveKit asks the node of a participant, and answers 503 "no response from servers" when no node has them, as it does when
//! the node is stuck. Which of the two it is, its list says, which comes from elsewhere.

use conclave_model::participant::{Participant, ParticipantState};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid};
use livekit_protocol as proto;

use super::calls;
use super::convert;
use super::failure::Failure;
use super::plane::Inner;
use crate::port::MediaError;

/// One participant, as calls name them.
fn named(room: &NamespacedRoom, who: &Identity) -> proto::RoomParticipantIdentity {
    proto::RoomParticipantIdentity { room: room.to_string(), identity: who.to_string(), ..Default::default() }
}

impl Inner {
    /// Everybody in a room; a room that LiveKit does not know is an empty one.
    pub async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, Failure> {
        let mut people = self.listed(room).await?;
        if people.is_empty() {
            self.stranded.forget(room);
        }
        people.retain(|person| !self.stranded.has(room, &person.sid));
        Ok(people)
    }

    /// Everybody whom LiveKit lists, there or not.
    pub async fn listed(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, Failure> {
        let request = proto::ListParticipantsRequest { room: room.to_string() };
        let listed = match self.twirp.call(calls::list_participants(&request)).await {
            Err(failure) if failure.is_not_found() => Vec::new(),
            // A LiveKit that is set to ask the room's node, and finds none.
            Err(failure) if failure.is_no_response() => {
                if !self.is_known(room).await? {
                    return Ok(Vec::new());
                }
                self.count_people(room).await?;
                self.twirp.call(calls::list_participants(&request)).await?.participants
            }
            listed => listed?.participants,
        };
        Ok(listed.iter().filter_map(convert::participant).filter(is_there).collect())
    }

    /// Somebody in a room.
    pub async fn participant(&self, room: &NamespacedRoom, who: &Identity) -> Result<Option<Participant>, Failure> {
        let info = self.participant_info(room, who).await?;
        Ok(info.as_ref().and_then(convert::participant).filter(is_there))
    }

    /// Somebody in a room, in LiveKit's words.
    pub async fn participant_info(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
    ) -> Result<Option<proto::ParticipantInfo>, Failure> {
        match self.twirp.call(calls::get_participant(&named(room, who))).await {
            Ok(info) => Ok(Some(info).filter(|info| !self.is_stranded(room, info))),
            Err(failure) => self.unless_absent(room, who, failure).await.map(|()| None),
        }
    }

    fn is_stranded(&self, room: &NamespacedRoom, info: &proto::ParticipantInfo) -> bool {
        info.sid.parse().is_ok_and(|sid| self.stranded.has(room, &sid))
    }

    /// Disconnects one join. A newer join of the same identity is somebody else's.
    pub async fn remove(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> Result<bool, MediaError> {
        let people = self.participants(room).await?;
        let Some(found) = people.into_iter().find(|person| person.sid == *sid) else { return Ok(false) };
        match self.twirp.call(calls::remove_participant(&named(room, &found.identity))).await {
            Ok(_) => Ok(true),
            Err(failure) => Ok(self.unless_absent(room, &found.identity, failure).await.map(|()| false)?),
        }
    }

    /// `Ok` when a call failed because nobody by that identity is there; the failure itself otherwise.
    pub async fn unless_absent(&self, room: &NamespacedRoom, who: &Identity, failure: Failure) -> Result<(), Failure> {
        if failure.is_not_found() {
            return Ok(());
        }
        if !failure.is_no_response() {
            return Err(failure);
        }
        let listed = self.participants(room).await?;
        if listed.iter().any(|person| person.identity == *who) { Err(failure) } else { Ok(()) }
    }
}

/// LiveKit may list somebody for a moment who has gone.
fn is_there(person: &Participant) -> bool {
    person.state != ParticipantState::Disconnected
}
