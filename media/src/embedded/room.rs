//! A room: its state, the channels to its clients' sessions, and its connection to the media workers.
//!
//! A room is created on first use, and removed from the directory under its own lock once nothing is left in it. From
//! then on it accepts nothing: a caller that finds it closed looks the name up again, and gets a new room. The sessions
//! of its last participants may keep it in memory a while longer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Identity, NamespacedRoom};
use conclave_sfu::{Command, Event, EventSink, PeerEvent, RoomHandle, Workers};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::common::Common;
use super::quality::QualityLog;
use super::room_state::RoomState;
use super::signal::channels::Sessions;

/// Maximum time to wait for a join that is being written.
const JOIN_WRITTEN: Duration = Duration::from_secs(1);

/// Event queue capacity of an encoder in a private room.
const INTAKE_EVENTS: usize = 256;

pub(super) struct Room {
    name: NamespacedRoom,
    state: Mutex<LockedRoom>,
    /// Channels to its clients. Media workers use them without the state's lock.
    pub sessions: Sessions,
    /// Connection to the media workers while they have participants in the room.
    media: Mutex<Option<RoomHandle>>,
    /// Notified at the end of a join.
    joins: Notify,
}

/// The part of a room that its lock guards.
pub(super) struct LockedRoom {
    pub room_state: RoomState,
    /// Task that waits for the room's deadlines; `None` while there is none.
    pub deadline_task: Option<JoinHandle<()>>,
    /// The deadline that the task waits for.
    pub awaited_deadline: Option<Duration>,
    /// Wakes the task for an earlier deadline.
    pub earlier_deadline: Arc<Notify>,
    /// Whether the room has left the directory.
    is_closed: bool,
}

impl Room {
    fn new(name: NamespacedRoom, common: &Arc<Common>) -> Self {
        let room_state = RoomState::new(name.clone(), Arc::clone(common));
        Self {
            name,
            state: Mutex::new(LockedRoom {
                room_state,
                deadline_task: None,
                awaited_deadline: None,
                earlier_deadline: Arc::default(),
                is_closed: false,
            }),
            sessions: Sessions::default(),
            media: Mutex::default(),
            joins: Notify::new(),
        }
    }

    /// Wakes callers that wait for joins: one was completed or aborted.
    pub fn end_join(&self) {
        self.joins.notify_waiters();
    }

    /// Waits until the control plane has written the joins, of this identity or of all, that it is writing now. A
    /// client knows that its media is connected before the join is written, and its next requests must find its
    /// participant.
    pub async fn await_joins(&self, identity: Option<&Identity>) {
        // The usual case: nothing to wait for.
        if !self.lock().room_state.is_join_reported(identity) {
            return;
        }
        let written = async {
            loop {
                // Created before the check, so that a join that ends in between is not missed.
                let ended = self.joins.notified();
                if !self.lock().room_state.is_join_reported(identity) {
                    return;
                }
                ended.await;
            }
        };
        // After the timeout, the participant is treated as absent.
        let _ = timeout(JOIN_WRITTEN, written).await;
    }

    /// Returns the room's name.
    pub const fn name(&self) -> &NamespacedRoom {
        &self.name
    }

    /// Locks the room. While holding the lock, the caller may take other locks, but no other room's, and must not
    /// block.
    pub fn lock(&self) -> MutexGuard<'_, LockedRoom> {
        self.state.lock()
    }

    /// Opens the room at the media workers, if there are any.
    pub fn open_media(&self, workers: Option<&Workers>) {
        *self.media.lock() = workers.map(|workers| workers.open_room(&self.name));
    }

    /// Closes the room at its media workers.
    pub fn close_media(&self) {
        *self.media.lock() = None;
    }

    /// Sends a command to the media workers, without the state's lock. Lost if the room is not open there.
    pub fn send_command(&self, command: Command) {
        if let Some(media) = &*self.media.lock() {
            media.send(command);
        }
    }
}

/// A plane's rooms. Its locks are held for one look-up or change, without taking another lock.
#[derive(Default)]
pub(super) struct RoomDirectory {
    rooms: RwLock<HashMap<NamespacedRoom, Arc<Room>>>,
    /// Event queues of encoders in media workers' private rooms, whose media is transcoded.
    intakes: RwLock<HashMap<NamespacedRoom, mpsc::Sender<PeerEvent>>>,
    /// Measured quality of the sessions.
    pub quality: QualityLog,
}

impl RoomDirectory {
    /// Returns an open room.
    pub fn get(&self, name: &NamespacedRoom) -> Option<Arc<Room>> {
        self.rooms.read().get(name).cloned()
    }

    /// Calls `run` with an open room, created if needed, and its locked state.
    pub fn with_open<T>(
        &self,
        name: &NamespacedRoom,
        common: &Arc<Common>,
        run: impl FnOnce(&Arc<Room>, &mut LockedRoom) -> T,
    ) -> T {
        loop {
            let known = self.get(name);
            let room = known.unwrap_or_else(|| {
                let mut rooms = self.rooms.write();
                Arc::clone(
                    rooms
                        .entry(name.clone())
                        .or_insert_with(|| Arc::new(Room::new(name.clone(), common))),
                )
            });
            let mut state = room.lock();
            // It may have been closed between the look-up and the lock.
            if !state.is_closed {
                return run(&room, &mut state);
            }
        }
    }

    /// Removes a room that has nothing left, and marks it as closed.
    pub fn close_if_unused(&self, room: &Room, state: &mut LockedRoom) {
        if state.room_state.is_unused() && !state.is_closed {
            // Marked under the room's lock: a caller that has found the room but not locked it yet looks again.
            state.is_closed = true;
            self.rooms.write().remove(&room.name);
        }
    }

    /// Returns all open rooms.
    pub fn all(&self) -> Vec<Arc<Room>> {
        self.rooms.read().values().cloned().collect()
    }

    /// Adds a media worker's private room, which has one peer. Returns the peer's events.
    pub fn add_intake(&self, name: &NamespacedRoom) -> mpsc::Receiver<PeerEvent> {
        let (channel, events) = mpsc::channel(INTAKE_EVENTS);
        self.intakes.write().insert(name.clone(), channel);
        events
    }

    /// Removes a private room.
    pub fn remove_intake(&self, name: &NamespacedRoom) {
        self.intakes.write().remove(name);
    }

    /// Forwards an event to the encoder in a private room. If its queue is full, the queue is closed and the encoder
    /// disconnected.
    fn pass_to_intake(&self, event: Event) {
        let Event::Peer { room, event, .. } = event else {
            return;
        };
        let sent = self
            // The private room may have been removed; its last events are dropped.
            .intakes
            .read()
            .get(&room)
            .is_none_or(|channel| channel.try_send(event).is_ok());
        if !sent {
            self.remove_intake(&room);
        }
    }
}

impl EventSink for RoomDirectory {
    /// Forwards a media worker's event to the sessions that it concerns. Called on the worker's thread: takes no lock
    /// that is held during a call on a room state, and does not block.
    fn handle(&self, event: Event) {
        let room = match event {
            // Queued even after the room has closed: a session's last report comes when it is over.
            Event::Quality(report) => return self.quality.add(*report),
            Event::Peer { ref room, .. } | Event::Room { ref room, .. } => self.get(room),
        };
        match room {
            // A project's room. Private rooms are not in the directory.
            Some(room) => {
                if let Event::Peer {
                    peer,
                    event: PeerEvent::Connected,
                    ..
                } = &event
                {
                    self.quality.connect(peer);
                }
                room.sessions.handle_event(event);
            }
            None => self.pass_to_intake(event),
        }
    }
}
