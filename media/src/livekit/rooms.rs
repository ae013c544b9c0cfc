//! LiveKit's rooms: opening, closing, listing and counting.

use std::sync::Arc;

use conclave_model::NamespacedRoom;
use livekit_protocol as proto;

use super::twirp::{self, CallError, TwirpClient};
use crate::port::MediaError;

/// Seconds that LiveKit keeps a room without participants that was opened for an egress or an encoder. Conclave's own
/// empty timeout ends such a room earlier; this limit applies only if the control plane stays down.
const EMPTY_SECONDS: u32 = 24 * 60 * 60;
/// A room name that no project can have, for calls that only test whether LiveKit is available.
pub(super) const HEALTH_CHECK_ROOM: &str = "conclave.health";

/// Calls for rooms.
#[derive(Debug, Clone)]
pub(super) struct Rooms {
    client: Arc<TwirpClient>,
}

/// LiveKit's rooms that belong to projects. LiveKit may have others.
pub(super) struct ListedRooms {
    /// Rooms with participants.
    pub occupied: Vec<NamespacedRoom>,
    /// Open rooms without participants.
    pub empty: Vec<NamespacedRoom>,
}

impl Rooms {
    pub fn new(client: Arc<TwirpClient>) -> Self {
        Self { client }
    }

    /// Opens a room for at most `max_participants`. Does nothing for a room that LiveKit knows: LiveKit would overwrite
    /// the timeouts in its store, and the room's next node would use these.
    pub async fn open(
        &self,
        room: &NamespacedRoom,
        max_participants: Option<u32>,
    ) -> Result<(), MediaError> {
        if self.is_known(room).await? {
            return Ok(());
        }
        let request = proto::CreateRoomRequest {
            name: room.to_string(),
            empty_timeout: EMPTY_SECONDS,
            departure_timeout: EMPTY_SECONDS,
            // For LiveKit, 0 means no limit.
            max_participants: max_participants.unwrap_or(0),
            ..Default::default()
        };
        // The response is dropped: it may contain the room's password, and nothing in it is needed.
        self.client.call(twirp::create_room(&request)).await?;
        Ok(())
    }

    /// Returns whether a room is in LiveKit's store.
    pub async fn is_known(&self, room: &NamespacedRoom) -> Result<bool, CallError> {
        Ok(self.find(room).await?.is_some())
    }

    /// Returns whether LiveKit's store counts participants in a room.
    pub async fn is_occupied(&self, room: &NamespacedRoom) -> Result<bool, CallError> {
        Ok(self
            .find(room)
            .await?
            // May be out of date: the last count of a node that has died remains.
            .is_some_and(|room| room.num_participants > 0))
    }

    async fn find(&self, room: &NamespacedRoom) -> Result<Option<proto::Room>, CallError> {
        let request = proto::ListRoomsRequest {
            names: vec![room.to_string()],
        };
        Ok(self
            .client
            .call(twirp::list_rooms(&request))
            .await?
            .rooms
            .into_iter()
            .next())
    }

    /// Deletes a room, which disconnects its participants. Succeeds if there is none.
    pub async fn close(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        let deleted = match self.delete(room.as_str()).await {
            // The room's node died, and deleting does not assign another one. Creating the room does.
            Err(error) if error.is_no_response() || error.is_node_missing() => {
                self.count_participants(room).await?;
                self.delete(room.as_str()).await
            }
            deleted => deleted,
        };
        Ok(deleted?)
    }

    /// Deletes a room by its LiveKit name, without the retry in [`Rooms::close`].
    pub async fn delete(&self, name: &str) -> Result<(), CallError> {
        match self
            .client
            .call(twirp::delete_room(&proto::DeleteRoomRequest {
                room: name.to_owned(),
            }))
            .await
        {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the number of participants according to the room's node. Assigns a node to a room without one, and opens
    /// a closed room with the timeouts of LiveKit's own configuration.
    pub async fn count_participants(&self, room: &NamespacedRoom) -> Result<usize, CallError> {
        // `CreateRoom` is the only call that the room's node handles and that changes nothing there. Without settings in
        // the request, it does not overwrite the room's settings in the store either.
        let request = proto::CreateRoomRequest {
            name: room.to_string(),
            ..Default::default()
        };
        let room = self.client.call(twirp::create_room(&request)).await?;
        Ok(usize::try_from(room.num_participants).unwrap_or(usize::MAX))
    }

    /// Tests whether LiveKit is available and accepts the credentials.
    pub async fn check_health(&self) -> Result<(), CallError> {
        let request = proto::ListRoomsRequest {
            names: vec![HEALTH_CHECK_ROOM.into()],
        };
        self.client.call(twirp::list_rooms(&request)).await?;
        Ok(())
    }

    /// Lists all projects' rooms.
    pub async fn list(&self) -> Result<ListedRooms, CallError> {
        let rooms = self
            .client
            .call(twirp::list_rooms(&proto::ListRoomsRequest::default()))
            .await?
            .rooms;
        let (occupied, empty): (Vec<_>, Vec<_>) =
            rooms.iter().partition(|room| room.num_participants > 0);
        let names = |rooms: Vec<&proto::Room>| {
            rooms
                .iter()
                // Rooms whose names do not start with a project's id belong to other users of this LiveKit.
                .filter_map(|room| room.name.parse::<NamespacedRoom>().ok())
                .collect()
        };
        Ok(ListedRooms {
            occupied: names(occupied),
            empty: names(empty),
        })
    }
}
