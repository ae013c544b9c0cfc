//! Rooms: opened for those who are not there yet, closed for good, counted.

use conclave_model::{NamespacedRoom, ProjectId};
use livekit_protocol as proto;

use super::calls;
use super::convert;
use super::failure::Failure;
use super::plane::Inner;
use crate::port::{MediaError, Survey};

/// Seconds that a room stays open which is opened for a job or an encoder and nobody has joined. The record's own timer
/// decides; this is for a control plane that never comes back.
const OPEN_SECONDS: u32 = 24 * 60 * 60;
/// A room that nobody can have: no project's.
const NO_ROOM: &str = "conclave.health";

impl Inner {
    /// Opens a room that may not be live, for `cap` people at most. One that is live stays as it is; its timeouts would be
    /// written over in LiveKit's store, for the next node that gets it.
    pub async fn open_room(&self, room: &NamespacedRoom, cap: Option<u32>) -> Result<(), MediaError> {
        if self.is_known(room).await? {
            return Ok(());
        }
        let request = proto::CreateRoomRequest {
            name: room.to_string(),
            empty_timeout: OPEN_SECONDS,
            departure_timeout: OPEN_SECONDS,
            // LiveKit reads 0 as no cap.
            max_participants: cap.unwrap_or(0),
            ..Default::default()
        };
        // The answer may hold a password of the room's; none of it is needed.
        self.twirp.call(calls::create_room(&request)).await?;
        Ok(())
    }

    /// Whether LiveKit's store knows a room.
    pub async fn is_known(&self, room: &NamespacedRoom) -> Result<bool, Failure> {
        let named = proto::ListRoomsRequest { names: vec![room.to_string()] };
        Ok(!self.twirp.call(calls::list_rooms(&named)).await?.rooms.is_empty())
    }

    /// Closes a room. None to close is a success.
    pub async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.subscriptions.forget(room);
        self.stranded.forget(room);
        let deleted = match self.delete_room(room).await {
            // Its node has died, and this call gives it no other; making it does.
            Err(failure) if failure.is_no_response() || failure.is_no_node() => {
                self.count_people(room).await?;
                self.delete_room(room).await
            }
            deleted => deleted,
        };
        Ok(deleted?)
    }

    async fn delete_room(&self, room: &NamespacedRoom) -> Result<(), Failure> {
        match self.twirp.call(calls::delete_room(&proto::DeleteRoomRequest { room: room.to_string() })).await {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        }
    }

    /// How many people the room's node has. A room without a node gets one; one that is closed is open for as long as
    /// LiveKit's own settings say.
    pub async fn count_people(&self, room: &NamespacedRoom) -> Result<usize, Failure> {
        // The one call that is answered by the node itself and changes nothing there, nor in the store as long as it names
        // no setting.
        let request = proto::CreateRoomRequest { name: room.to_string(), ..Default::default() };
        let room = self.twirp.call(calls::create_room(&request)).await?;
        Ok(usize::try_from(room.num_participants).unwrap_or(usize::MAX))
    }

    /// Whether LiveKit answers and takes our credentials.
    pub async fn health(&self) -> Result<(), MediaError> {
        let nobodys = proto::ListRoomsRequest { names: vec![NO_ROOM.into()] };
        self.twirp.call(calls::list_rooms(&nobodys)).await?;
        Ok(())
    }

    /// Whether egress and ingress can be asked for: both need Redis.
    pub async fn jobs_health(&self) -> Result<(), Failure> {
        let nobodys = proto::ListEgressRequest { room_name: NO_ROOM.into(), ..Default::default() };
        self.twirp.call(calls::list_egress(&nobodys)).await?;
        let nobodys = proto::ListIngressRequest { room_name: NO_ROOM.into(), ..Default::default() };
        self.twirp.call(calls::list_ingress(&nobodys)).await?;
        Ok(())
    }

    /// What is live in the rooms of a project.
    pub async fn survey(&self, project: &ProjectId) -> Result<Survey, MediaError> {
        let now = self.clock.now();
        let ours = |room: &NamespacedRoom| room.split().0 == *project;
        let rooms = self.twirp.call(calls::list_rooms(&proto::ListRoomsRequest::default())).await?.rooms;
        let (occupied, empty): (Vec<_>, Vec<_>) = rooms.iter().partition(|room| room.num_participants > 0);
        let named =
            |rooms: Vec<&proto::Room>| rooms.iter().filter_map(|room| room.name.parse().ok()).filter(ours).collect();
        let active = proto::ListEgressRequest { active: true, ..Default::default() };
        let egresses = without_redis(self.twirp.call(calls::list_egress(&active)).await)?.items;
        let egresses = egresses.iter().filter_map(|info| convert::egress(info, now));
        let all = proto::ListIngressRequest::default();
        let ingresses = without_redis(self.twirp.call(calls::list_ingress(&all)).await)?.items;
        Ok(Survey {
            rooms: named(occupied),
            empty_rooms: named(empty),
            egresses: egresses.filter(|(room, state)| ours(room) && !state.status.is_final()).collect(),
            ingresses: ingresses.iter().filter_map(convert::ingress).filter(|(room, _)| ours(room)).collect(),
        })
    }
}

/// A LiveKit without Redis has rooms, and neither jobs nor endpoints.
fn without_redis<A: Default>(listed: Result<A, Failure>) -> Result<A, Failure> {
    match listed {
        Err(failure) if failure.is_not_connected() => Ok(A::default()),
        listed => listed,
    }
}
