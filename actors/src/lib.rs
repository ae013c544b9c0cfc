//! The actors of Conclave: each owns the state and the timers of one live thing, and a tree of supervisors restarts them.
//!
//! ```text
//! system ─┬─ project ─┬─ room                 connected participants by role, the empty timer
//!         │           ├─ egress               one recording or broadcast, until it is final
//!         │           ├─ ingress              one ingress endpoint, until it is final
//!         │           └─ webhook_endpoint     the due deliveries of one endpoint, and its tick
//!         └─ project …                        counts rooms, rebuilds a failed child from the database
//! ```
//!
//! Each actor has a folder: the actor in `mod.rs`, its messages in `message.rs` if they are many, its handlers in the other
//! files. Around the actors:
//!
//! - [`tree`]: the entry for callers outside this crate. HTTP handlers hold no mailbox.
//! - [`ActorContext`]: the store, the media plane, the clock and the settings that all actors share.
//! - [`mailbox`], [`timer`], [`child`], `child_set`: messages, timers and supervision.
//! - `report_queue`: the reports that wait for their rooms.
//! - [`report_path`], `barrier`: the order between reports and the media plane's answers.
//! - [`relay`]: committed events on their way to webhook endpoints.
//! - `upload`: when the file of a recording is uploaded.
//! - [`info`], [`inspection`], [`registry`], [`debug`], [`metrics`]: what operators see.
//!
//! Calls go down the tree and have timeouts. Upward, an actor only sends: to itself along its [`report_path`]. A change is
//! persisted before an actor acts on it, so each actor can be rebuilt from the database at any moment. Imports between files
//! go one way, except between a module and its own submodules.

mod children;
mod context;
pub mod debug;
pub mod egress;
mod error;
mod follow;
pub mod info;
pub mod ingress;
pub mod mailbox;
pub mod metrics;
pub mod project;
pub mod registry;
pub mod relay;
mod report_queue;
pub mod room;
pub mod system;
pub mod tree;
pub mod webhook_endpoint;

pub use context::{ActorContext, ROOMS_ENDING, Settings};
pub use error::TreeError;
pub use info::ActorKind;
pub use registry::ActorRegistry;
pub use relay::EventRelay;
pub use report_queue::ReportQueues;
pub use tree::Tree;
