//! The lease: which of the servers on one database is the active one.
//!
//! The active server renews the lease each second. The others are standbys, which read it: one of them takes over when the renewals
//! have stopped for four seconds, or at once when the lease was released or its holder is known to have ended. Each takeover begins a
//! new epoch, and each transaction of a server is fenced with its own epoch: it shares the row in which the epoch is, and does nothing
//! if it finds another one. A takeover changes that row, so it waits for those that have it.
//!
//! The fence alone keeps the records consistent, whatever the clocks and the network do. Outside the database, a server acts only as
//! long as no other can have taken over: three seconds from the sending of the last renewal that was confirmed.
//!
//! [`machine`] decides, without I/O. [`driver`] does what it says, on a thread and a session of its own.

mod driver;
mod keys;
mod machine;
mod media_key;
mod nodes;
mod observation;
mod requests;
mod row;
mod state;
mod steady;
mod timing;

pub use driver::{Lease, LeaseOptions, ReadKeys};
pub use keys::{KeyIds, WrongKey};
pub use machine::{Obstacle, Standing};
pub use media_key::require_media_key;
pub(crate) use nodes::read as read_cluster;
pub use nodes::{ClusterState, Node, NodeInfo, Role, cluster_state};
pub(crate) use requests::ATTEMPTS_AT_ROW;
pub use row::{ActiveServer, Holder};
pub use state::LeaseState;
pub use timing::LeaseTiming;
