//! Search for ghosts in a room.

use std::collections::BTreeSet;
use std::sync::Arc;

use conclave_model::participant::{Participant, ParticipantKind};
use conclave_model::{Clock, NamespacedRoom, ParticipantSid};
use livekit_protocol as proto;

use super::GhostParticipants;
use crate::livekit::participants::Participants;
use crate::livekit::rooms::Rooms;
use crate::livekit::twirp::{self, CallError, TwirpClient};

/// Searches rooms for ghost participants. Clones share the results.
#[derive(Debug, Clone)]
pub(in crate::livekit) struct GhostSearch {
    client: Arc<TwirpClient>,
    rooms: Rooms,
    participants: Participants,
    ghosts: Arc<GhostParticipants>,
    clock: Clock,
}

impl GhostSearch {
    /// Creates a search that shares its results with `participants` through `ghosts`.
    pub fn new(
        client: Arc<TwirpClient>,
        rooms: Rooms,
        participants: Participants,
        ghosts: Arc<GhostParticipants>,
        clock: Clock,
    ) -> Self {
        Self {
            client,
            rooms,
            participants,
            ghosts,
            clock,
        }
    }

    /// Forgets a room.
    pub fn forget(&self, room: &NamespacedRoom) {
        self.ghosts.forget(room);
    }

    /// Starts a search in a spawned task, if one is due.
    pub fn spawn_if_due(&self, room: &NamespacedRoom) {
        if !self.ghosts.start_search(room, self.clock.now()) {
            return;
        }
        // The read that started the search does not wait for it: it takes several seconds per ghost.
        let (search, room) = (self.clone(), room.clone());
        tokio::spawn(async move {
            if let Err(error) = search.run(&room).await {
                log::warn!(room = room.as_str(); "the search for ghost participants failed and will be repeated: {error}");
            }
        });
    }

    async fn run(&self, room: &NamespacedRoom) -> Result<(), CallError> {
        let listed = self.participants.list_with_ghosts(room).await?;
        let mut suspects: Vec<_> = listed
            .iter()
            // Kinds that the node's number excludes would look like missing connections.
            .filter(|participant| is_counted(participant.kind))
            .collect();
        suspects.retain(|participant| !self.ghosts.contains(room, &participant.sid));
        if suspects.is_empty() {
            // Nothing to test. Recording the empty result still drops ghosts that are no longer listed.
            self.ghosts.record(room, BTreeSet::new(), &listed);
            return Ok(());
        }
        // The node counts its connections, whereas the list comes from LiveKit's store.
        let connected = self.rooms.count_participants(room).await?;
        let missing = suspects.len().saturating_sub(connected);
        // Participants of a dead node joined before the ones that have reconnected.
        suspects.sort_by_key(|participant| participant.joined_at);
        let found = self.find_ghosts(room, &suspects, missing).await?;
        // Listed again, since a participant may have reconnected in the meantime under the same identity.
        self.ghosts.record(
            room,
            found,
            &self.participants.list_with_ghosts(room).await?,
        );
        Ok(())
    }

    /// Returns the first `limit` suspects for which no node responds.
    async fn find_ghosts(
        &self,
        room: &NamespacedRoom,
        suspects: &[&Participant],
        limit: usize,
    ) -> Result<BTreeSet<ParticipantSid>, CallError> {
        let mut found = BTreeSet::new();
        // One after another: once `limit` ghosts are found, the remaining suspects need no call.
        for participant in suspects {
            if found.len() == limit {
                break;
            }
            if !self.has_node(room, participant).await? {
                found.insert(participant.sid.clone());
            }
        }
        Ok(found)
    }

    /// Returns whether a node responds for a participant, tested by a change of subscriptions that names no track.
    async fn has_node(
        &self,
        room: &NamespacedRoom,
        participant: &Participant,
    ) -> Result<bool, CallError> {
        // The node handles this call itself, and it names no track, so it changes nothing.
        let request = proto::UpdateSubscriptionsRequest {
            room: room.to_string(),
            identity: participant.identity.to_string(),
            ..Default::default()
        };
        match self
            .client
            .call(twirp::update_subscriptions(&request))
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.is_no_response() || error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether LiveKit's number of participants in a room includes this kind.
const fn is_counted(kind: ParticipantKind) -> bool {
    match kind {
        ParticipantKind::Standard | ParticipantKind::Ingress | ParticipantKind::Sip => true,
        ParticipantKind::Egress | ParticipantKind::Agent => false,
    }
}
