//! The end of a room.

use conclave_model::event::{Departure, Event};
use conclave_model::room::Room;
use conclave_model::{ProjectId, RoomId, Timestamp};

use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::ingresses::complete_ingresses_of_room;
use crate::records::rooms::rows::{by_id, connected_participants};
use crate::records::sessions::rows::{close_sessions, event_context};
use crate::sql::values::args;
use crate::store::Store;
use crate::tx::Tx;

const END: &str = "UPDATE rooms
     SET status = 'ended', ended_at = CASE WHEN ?3 < created_at THEN created_at ELSE ?3 END, empty_deadline = NULL
     WHERE id = ?1 AND project_id = ?2 AND status = 'open'";

/// Ends an open room: first its open sessions, then its ingress endpoints, then the room, with `room.finished` as the last event.
/// An ended room does not change.
fn end_room(
    tx: &mut Tx<'_>,
    project: &ProjectId,
    id: RoomId,
    at: Timestamp,
) -> Result<Room, StoreError> {
    let room = by_id(tx.sql, project, id)?;
    if tx.sql.change(END, args![id, project, at])? == 0 {
        return Ok(room);
    }
    tx.rooms.add(project, -1);
    let connected = connected_participants(tx.sql, project, id)?;
    close_sessions(tx, &room, &connected, at, Departure::Left)?;
    complete_ingresses_of_room(tx, project, id, at)?;
    let context = event_context(&room, at);
    tx.emit(&Event::RoomFinished { context })?;
    by_id(tx.sql, project, id)
}

impl Store {
    /// Ends a room and returns its record. An ended room does not change.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn end_room(&self, project: ProjectId, room: RoomId) -> Result<Room, StoreError> {
        self.write(Queue::of(&project), move |tx| {
            let at = tx.now;
            end_room(tx, &project, room, at)
        })
        .await
    }
}
