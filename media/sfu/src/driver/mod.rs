//! The threads and sockets around the workers.

mod addresses;
mod connection;
mod framing;
mod metrics;
mod sockets;
mod tcp;
mod thread;
mod udp;
mod workload;

pub use addresses::BindError;
pub use metrics::WorkerMetrics;
pub use thread::{WorkerThread, start_worker};
