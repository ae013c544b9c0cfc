//! What is done to people in a room: muting, messages, another role.

use std::collections::HashMap;

use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, Participant, ROLE_ATTRIBUTE};
use conclave_model::secret::random_bytes;
use conclave_model::{Identity, NamespacedRoom, TrackSid};
use livekit_protocol as proto;

use super::calls;
use super::convert;
use super::failure::Failure;
use super::plane::Inner;
use crate::port::{MediaError, MuteOutcome, RoleGrant, ServerData};

impl Inner {
    /// Mutes or unmutes a track.
    pub async fn mute(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        // Asked first: LiveKit looks three seconds for the node of somebody who is on none.
        let Some(person) = self.participant(room, who).await? else { return Ok(MuteOutcome::NoSuchParticipant) };
        let request = proto::MuteRoomTrackRequest {
            room: room.to_string(),
            identity: who.to_string(),
            track_sid: track.to_string(),
            muted,
        };
        match self.twirp.call(calls::mute_track(&request)).await {
            // A track that is not there is no error to LiveKit, and no track either.
            Ok(answer) => {
                let done = answer.track.as_ref().and_then(convert::track);
                Ok(done.map_or(MuteOutcome::NoSuchTrack, MuteOutcome::Done))
            }
            Err(failure) if failure.is_precondition() => unmuted_already(person, track, failure),
            Err(failure) => {
                self.unless_absent(room, who, failure).await?;
                Ok(MuteOutcome::NoSuchParticipant)
            }
        }
    }

    /// Sends a message. LiveKit knows no room that nobody is in, and there the message reaches nobody, as it should.
    pub async fn send_data(&self, room: &NamespacedRoom, message: ServerData) -> Result<(), MediaError> {
        // Asked first: LiveKit looks three seconds for the node of a room that is on none.
        if self.participants(room).await?.is_empty() {
            return Ok(());
        }
        let request = proto::SendDataRequest {
            room: room.to_string(),
            data: message.data,
            kind: convert::data_kind(message.kind),
            destination_identities: message.to.iter().map(Identity::to_string).collect(),
            topic: message.topic,
            // LiveKit asks again by itself when a node is slow; receivers tell by this that it is the same message.
            nonce: random_bytes::<16>().to_vec(),
            ..Default::default()
        };
        match self.twirp.call(calls::send_data(&request)).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) if failure.is_no_response() && self.participants(room).await?.is_empty() => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Gives somebody what a role comes to.
    pub async fn set_role(
        &self,
        room: &NamespacedRoom,
        who: &Identity,
        role: &RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        let Some(held) = self.participant_info(room, who).await? else { return Ok(None) };
        let ceiling = role.max_kbps.map(|kbps| kbps.to_string()).unwrap_or_default();
        let request = proto::UpdateParticipantRequest {
            room: room.to_string(),
            identity: who.to_string(),
            permission: Some(convert::permission(held.permission, &role.grants)),
            // An empty value takes an attribute away; what is not named stays.
            attributes: HashMap::from([
                (ROLE_ATTRIBUTE.to_owned(), role.role.to_string()),
                (MAX_KBPS_ATTRIBUTE.to_owned(), ceiling),
            ]),
            ..Default::default()
        };
        match self.twirp.call(calls::update_participant(&request)).await {
            Ok(changed) => Ok(convert::participant(&changed)),
            Err(failure) => {
                self.unless_absent(room, who, failure).await?;
                Ok(None)
            }
        }
    }
}

/// LiveKit refuses to unmute whatever the track is like; one that is not muted needs nothing.
fn unmuted_already(person: Participant, track: &TrackSid, failure: Failure) -> Result<MuteOutcome, MediaError> {
    match person.tracks.into_iter().find(|published| published.sid == *track) {
        None => Ok(MuteOutcome::NoSuchTrack),
        Some(published) if !published.muted => Ok(MuteOutcome::Done(published)),
        Some(_) => Err(failure.into()),
    }
}
