//! The media workers of the embedded plane: a room is opened on one of them when its first client is admitted, and closed
//! when the last one has gone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use conclave_model::{NamespacedRoom, ParticipantSid};
use conclave_rtc::{BindError, Command, Config, Event, EventSink, PeerCommand, RoomHandle, Workers};

use super::effect::CommandSink;
use super::plane::EmbeddedPlane;
use super::rtc_metrics::RtcMetrics;
use super::signal::registry::Sessions;

/// The workers, and the rooms that are open on them.
pub(super) struct MediaWorkers {
    workers: Workers,
    rooms: Mutex<HashMap<NamespacedRoom, OpenRoom>>,
}

struct OpenRoom {
    handle: RoomHandle,
    peers: HashSet<ParticipantSid>,
}

/// Passes the events of the workers to the sessions. It does not keep the plane, which keeps the workers.
struct SessionsSink(Arc<Sessions>);

impl EventSink for SessionsSink {
    fn handle(&self, event: Event) {
        self.0.handle_event(event);
    }
}

impl EmbeddedPlane {
    /// Starts the media workers, so that clients can connect. Only the first call has an effect.
    ///
    /// # Errors
    /// A socket cannot be bound, or there is no address to bind one to.
    pub fn start_media(&self, config: &Config, metrics: &RtcMetrics) -> Result<(), BindError> {
        let workers = Workers::start(config, Arc::new(SessionsSink(Arc::clone(&self.inner().sessions))))?;
        metrics.set_workers(workers.metrics());
        self.inner().set_metrics(metrics.clone());
        self.set_command_sink(Arc::new(MediaWorkers { workers, rooms: Mutex::default() }));
        Ok(())
    }
}

impl CommandSink for MediaWorkers {
    fn send(&self, room: &NamespacedRoom, command: Command) {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Command::AddPeer(peer) = &command {
            let opened = || OpenRoom { handle: self.workers.open_room(room), peers: HashSet::new() };
            rooms.entry(room.clone()).or_insert_with(opened).peers.insert(peer.sid.clone());
        }
        // A room without clients is on no worker.
        let Some(open) = rooms.get_mut(room) else { return };
        if let Command::Peer { peer, command: PeerCommand::Remove } = &command {
            open.peers.remove(peer);
        }
        let closes = matches!(command, Command::CloseRoom);
        open.handle.send(command);
        if closes || open.peers.is_empty() {
            if !closes {
                open.handle.send(Command::CloseRoom);
            }
            rooms.remove(room);
        }
    }
}
