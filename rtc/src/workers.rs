//! The media workers of a process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use conclave_model::NamespacedRoom;

use crate::config::Config;
use crate::driver::{BindError, WorkerMetrics, WorkerThread, start_worker};
use crate::event::EventSink;
use crate::handle::RoomHandle;

/// The media workers of a process. Dropping it stops them; connections are not closed cleanly then.
pub struct Workers {
    threads: Vec<WorkerThread>,
    /// The worker of each room that has a handle. Used by signalling only.
    rooms: Mutex<HashMap<NamespacedRoom, (usize, Weak<()>)>>,
}

impl Workers {
    /// Opens the sockets and starts the threads.
    ///
    /// # Errors
    ///
    /// If a socket cannot be bound, or there is no address to bind one to.
    pub fn start(config: &Config, sink: Arc<dyn EventSink>) -> Result<Self, BindError> {
        let threads = ports(config).into_iter().map(|port| start_worker(config, port, sink.clone()));
        let threads: Vec<_> = threads.collect::<Result<_, _>>()?;
        if threads.is_empty() { Err(BindError::NoPort) } else { Ok(Self { threads, rooms: Mutex::default() }) }
    }

    /// Returns the way to a room's worker: of a new room the one with the fewest participants. All handles of a room lead
    /// to one worker while one of them exists; the last one is to be dropped only after
    /// [`CloseRoom`](crate::Command::CloseRoom).
    #[must_use]
    pub fn open_room(&self, name: &NamespacedRoom) -> RoomHandle {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|_, (_, handle)| handle.strong_count() > 0);
        let known = rooms.get(name).and_then(|(worker, handle)| Some((*worker, handle.upgrade()?)));
        let (worker, alive) = known.unwrap_or_else(|| {
            let opened = (self.least_loaded(&rooms), Arc::new(()));
            rooms.insert(name.clone(), (opened.0, Arc::downgrade(&opened.1)));
            opened
        });
        RoomHandle::new(name.clone(), self.threads[worker].sender.clone(), alive)
    }

    /// Returns the worker with the fewest participants; among several the one with the fewest rooms.
    fn least_loaded(&self, rooms: &HashMap<NamespacedRoom, (usize, Weak<()>)>) -> usize {
        let load = |worker: &usize| {
            let peers = self.threads[*worker].metrics.peers.load(Ordering::Relaxed);
            (peers, rooms.values().filter(|(of, _)| of == worker).count())
        };
        (0..self.threads.len()).min_by_key(load).unwrap_or_default()
    }

    /// Returns the addresses that are advertised to clients: for each worker those of UDP, then those of TCP.
    #[must_use]
    pub fn addresses(&self) -> Vec<(bool, SocketAddr)> {
        let candidates = self.threads.iter().flat_map(|thread| &thread.candidates);
        candidates.map(|candidate| (candidate.tcptype().is_some(), candidate.addr())).collect()
    }

    /// Returns what each worker has done.
    #[must_use]
    pub fn metrics(&self) -> Vec<Arc<WorkerMetrics>> {
        self.threads.iter().map(|thread| thread.metrics.clone()).collect()
    }
}

/// Returns the port of each worker.
fn ports(config: &Config) -> Vec<u16> {
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = if config.workers == 0 { processors() } else { config.workers };
    if *config.udp_ports.start() == 0 {
        return vec![0; wanted];
    }
    config.udp_ports.clone().take(wanted).collect()
}
