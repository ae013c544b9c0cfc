//! A room of the plane: one value with its machine, the channels to its clients' sessions, and the way to its media workers.
//!
//! A room is made when it is first used, and leaves the directory under its own lock once nothing is left of it. From then on it
//! takes nothing: who finds it looks again, and gets a new one. The sessions of its last participants may keep it a while longer.

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
use super::machine::Machine;
use super::signal::channels::Sessions;

/// How long is waited for a join that is being written.
const JOIN_WRITTEN: Duration = Duration::from_secs(1);

/// Capacity of the event queue of an encoder in a private room.
const INTAKE_EVENTS: usize = 256;

/// A room of the plane.
pub(super) struct Room {
    name: NamespacedRoom,
    state: Mutex<RoomState>,
    /// The channels to its clients. Media workers use them without the lock of the state.
    pub sessions: Sessions,
    /// The way to the media workers, as long as they have participants of the room.
    media: Mutex<Option<RoomHandle>>,
    /// Wakes who waits for the end of a join.
    joins: Notify,
}

/// What the lock of a room guards.
pub(super) struct RoomState {
    pub machine: Machine,
    /// The task that waits for the machine's deadlines; `None` while there is no deadline.
    pub deadline_task: Option<JoinHandle<()>>,
    /// The deadline that it waits for.
    pub awaited_deadline: Option<Duration>,
    /// Wakes it for an earlier one.
    pub earlier_deadline: Arc<Notify>,
    /// Whether it has left the directory.
    is_closed: bool,
}

impl Room {
    fn new(name: NamespacedRoom, common: &Arc<Common>) -> Self {
        let machine = Machine::new(name.clone(), Arc::clone(common));
        Self {
            name,
            state: Mutex::new(RoomState {
                machine,
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

    /// Wakes who waits for joins: one has been completed or aborted.
    pub fn end_join(&self) {
        self.joins.notify_waiters();
    }

    /// Waits until the control plane has written the joins of an identity, or of all, that it is writing now. A client knows that its
    /// media is connected before that, and what it then asks for is to concern it.
    pub async fn await_joins(&self, identity: Option<&Identity>) {
        if !self.lock().machine.is_join_reported(identity) {
            return;
        }
        let written = async {
            loop {
                let ended = self.joins.notified();
                if !self.lock().machine.is_join_reported(identity) {
                    return;
                }
                ended.await;
            }
        };
        // A join that takes longer is not waited for: its participant is absent.
        let _ = timeout(JOIN_WRITTEN, written).await;
    }

    /// The name of the room.
    pub const fn name(&self) -> &NamespacedRoom {
        &self.name
    }

    /// Locks the room. Meanwhile, the caller may take other locks, but not that of another room, and must not wait.
    pub fn lock(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock()
    }

    /// Gives the room to the media workers, if there are any.
    pub fn open_media(&self, workers: Option<&Workers>) {
        *self.media.lock() = workers.map(|workers| workers.open_room(&self.name));
    }

    /// Takes the room from its media workers.
    pub fn close_media(&self) {
        *self.media.lock() = None;
    }

    /// Sends a command to the media workers, without the lock of the room's state. It is lost if none has the room.
    pub fn send_command(&self, command: Command) {
        if let Some(media) = &*self.media.lock() {
            media.send(command);
        }
    }
}

/// The rooms of the plane. Its locks are held for a look-up or a change; no other lock is taken meanwhile.
#[derive(Default)]
pub(super) struct Directory {
    rooms: RwLock<HashMap<NamespacedRoom, Arc<Room>>>,
    /// Events of encoders in private rooms of media workers, whose media is transcoded.
    intakes: RwLock<HashMap<NamespacedRoom, mpsc::Sender<PeerEvent>>>,
}

impl Directory {
    /// Returns a room that is open.
    pub fn get(&self, name: &NamespacedRoom) -> Option<Arc<Room>> {
        self.rooms.read().get(name).cloned()
    }

    /// Calls `run` with an open room and its locked state: with a new room if there is none.
    pub fn with_open<T>(
        &self,
        name: &NamespacedRoom,
        common: &Arc<Common>,
        run: impl FnOnce(&Arc<Room>, &mut RoomState) -> T,
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
            // It may have been closed since the look-up.
            if !state.is_closed {
                return run(&room, &mut state);
            }
        }
    }

    /// Removes a room of which nothing is left, so that it is closed.
    pub fn close_if_unused(&self, room: &Room, state: &mut RoomState) {
        if state.machine.is_unused() && !state.is_closed {
            state.is_closed = true;
            self.rooms.write().remove(&room.name);
        }
    }

    /// Returns all rooms that are open.
    pub fn all(&self) -> Vec<Arc<Room>> {
        self.rooms.read().values().cloned().collect()
    }

    /// Adds a private room of a media worker, which has one peer. Returns the peer's events.
    pub fn add_intake(&self, name: &NamespacedRoom) -> mpsc::Receiver<PeerEvent> {
        let (channel, events) = mpsc::channel(INTAKE_EVENTS);
        self.intakes.write().insert(name.clone(), channel);
        events
    }

    /// Removes a private room.
    pub fn remove_intake(&self, name: &NamespacedRoom) {
        self.intakes.write().remove(name);
    }

    /// Passes an event to the encoder in a private room. If its queue is full, the queue is closed, and the encoder disconnected.
    fn pass_to_intake(&self, event: Event) {
        let Event::Peer { room, event, .. } = event else {
            return;
        };
        let sent = self
            .intakes
            .read()
            .get(&room)
            .is_none_or(|channel| channel.try_send(event).is_ok());
        if !sent {
            self.remove_intake(&room);
        }
    }
}

impl EventSink for Directory {
    /// Passes an event of a media worker to the sessions that it concerns. Called on the worker's thread: it takes no lock that is
    /// held during a call on a machine, and does not wait.
    fn handle(&self, event: Event) {
        let (Event::Peer { room, .. } | Event::Room { room, .. }) = &event;
        match self.get(room) {
            Some(room) => room.sessions.handle_event(event),
            None => self.pass_to_intake(event),
        }
    }
}
