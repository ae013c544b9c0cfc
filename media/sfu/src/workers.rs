//! A process's media workers.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use conclave_model::{MediaAddress, NamespacedRoom};

use crate::config::Config;
use crate::driver::{BindError, Neighbours, WorkerMetrics, WorkerThread, start_worker};
use crate::event::EventSink;
use crate::mirror::WorkerId;
use crate::room::{RoomHandle, WorkerHandle};

/// A process's media workers. Dropping this stops them; their connections are then not closed cleanly.
pub struct Workers {
    threads: Vec<WorkerThread>,
    /// The workers as rooms know them.
    ends: Arc<[WorkerHandle]>,
}

impl Workers {
    /// Opens the sockets and starts the threads.
    ///
    /// # Errors
    ///
    /// If a socket cannot be bound, or no address is available.
    pub fn start(config: &Config, sink: Arc<dyn EventSink>) -> Result<Self, BindError> {
        let neighbours = Neighbours::default();
        let threads = ports(config)
            .into_iter()
            .map(|port| start_worker(config, port, sink.clone(), neighbours.clone()));
        let threads: Vec<_> = threads.collect::<Result<_, _>>()?;
        if threads.is_empty() {
            return Err(BindError::NoPort);
        }
        // After all have started: a worker cannot have a room with others before that.
        neighbours.introduce(threads.iter().map(|thread| thread.sender.clone()));
        let end = |thread: &WorkerThread| WorkerHandle {
            sender: thread.sender.clone(),
            metrics: thread.metrics.clone(),
            most_peers: config.limits.peers,
        };
        let ends = threads.iter().map(end).collect();
        Ok(Self { threads, ends })
    }

    /// Opens a room. Its first participants are placed on the worker with the fewest participants, then the fewest
    /// rooms. Once that worker is half busy, others are placed on the least busy one. A worker that has ended gets none.
    /// The caller must drop the handle before it opens the same room again.
    pub fn open_room(&self, name: &NamespacedRoom) -> RoomHandle {
        let load = |(_, worker): &(usize, &WorkerThread)| {
            (
                worker.sender.has_ended(),
                // The counts may be a moment old. That only makes the choice less even.
                worker.metrics.peers.load(Ordering::Relaxed),
                worker.sender.handles(),
            )
        };
        // There is at least one worker: `start` checks that.
        let workers = self.threads.iter().enumerate();
        let (index, worker) = workers.min_by_key(load).unwrap_or((0, &self.threads[0]));
        let preferred = (WorkerId(index), worker.sender.clone());
        RoomHandle::new(name.clone(), Arc::clone(&self.ends), preferred)
    }

    /// Returns the addresses that are advertised to clients, with whether they are TCP: for each worker, UDP comes
    /// first.
    pub fn addresses(&self) -> Vec<(bool, SocketAddr)> {
        let candidates = self.threads.iter().flat_map(|thread| &thread.candidates);
        candidates
            .map(|candidate| (candidate.tcptype().is_some(), candidate.addr()))
            .collect()
    }

    /// Returns all workers' UDP sockets.
    pub fn udp_addresses(&self) -> Vec<MediaAddress> {
        self.threads
            .iter()
            .flat_map(|thread| thread.udp.iter().copied())
            .collect()
    }

    /// Returns each worker's counters.
    pub fn metrics(&self) -> Vec<Arc<WorkerMetrics>> {
        self.threads
            .iter()
            .map(|thread| thread.metrics.clone())
            .collect()
    }
}

/// Returns each worker's port.
fn ports(config: &Config) -> Vec<u16> {
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = if config.workers == 0 {
        processors()
    } else {
        config.workers
    };
    // For tests: the system chooses the ports.
    if *config.udp_ports.start() == 0 {
        return vec![0; wanted];
    }
    config.udp_ports.clone().take(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_workers_as_ports_at_the_most() {
        let of = |udp_ports, workers| {
            ports(&Config {
                udp_ports,
                workers,
                ..Config::default()
            })
        };
        assert_eq!(of(7882..=7882, 8), [7882], "one port is one worker");
        assert_eq!(of(7882..=7884, 8), [7882, 7883, 7884]);
        assert_eq!(of(7882..=7897, 2), [7882, 7883]);
        assert_eq!(of(0..=0, 3), [0, 0, 0]);
        assert_eq!(of(7882..=7882, 0), [7882]);
    }

    #[test]
    fn one_port_is_enough() {
        let free = std::net::UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let config = Config {
            udp_ports: free.port()..=free.port(),
            addresses: vec![free.ip()],
            tcp: false,
            ..Config::default()
        };
        let workers = Workers::start(&config, Arc::new(|_| {})).unwrap();
        assert_eq!(workers.addresses(), [(false, free)]);
        assert_eq!(
            workers.udp_addresses(),
            [MediaAddress {
                bound: free,
                advertised: free
            }]
        );
    }
}
