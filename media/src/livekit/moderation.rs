//! Moderation of participants: muting, data messages and changes of role.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, Participant, ROLE_ATTRIBUTE};
use conclave_model::secret::random_bytes;
use conclave_model::{Identity, NamespacedRoom, TrackSid};
use livekit_protocol as proto;

use super::convert;
use super::participants::Participants;
use super::twirp::{self, CallError, TwirpClient};
use crate::port::{MediaError, MuteOutcome, RoleGrant, ServerData};
use crate::protocol::permission_to_proto;
use crate::token::Grants;

/// Calls that change what a participant does or receives.
#[derive(Debug, Clone)]
pub(super) struct Moderation {
    pub client: Arc<TwirpClient>,
    pub participants: Participants,
}

impl Moderation {
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
