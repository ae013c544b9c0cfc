//! The living part of Conclave: who owns what state, which timer, who restarts whom.
//!
//! ```text
//! system ─┬─ project ─┬─ room                 live people by role, the empty timer
//!         │           ├─ egress               one recording or broadcast, until it is final
//!         │           ├─ ingress              one endpoint for an encoder, until it is final
//!         │           └─ webhook_endpoint     the due queue and its tick
//!         └─ project …                        counts rooms, restores a failed child from the database
//! ```
//!
//! Each actor has a folder: its messages and its thin `handle` in `mod.rs`, what it does beside it. Around them stand:
//!
//! - [`tree`]: the one door for callers outside; HTTP handlers know nothing else of this crate.
//! - [`context`]: what every actor may use: the store, the media plane, the clock, the settings.
//! - [`info`] and [`debug`]: what the debug endpoint shows of each actor.
//! - [`child`], [`timer`], [`relay`]: supervision, timers, and the way of committed events.
//!
//! Calls go down the tree and have timeouts; news goes up as casts. A state is persisted before it is acted on, so an
//! actor can be rebuilt from the database at any moment.

mod barrier;
pub mod child;
mod context;
pub mod debug;
pub mod delivery;
pub mod egress;
mod error;
mod follow;
pub mod info;
pub mod ingress;
pub mod inspection;
pub mod mailbox;
pub mod metrics;
pub mod project;
mod project_mailboxes;
pub mod registry;
pub mod relay;
pub mod report_path;
pub mod room;
pub mod system;
pub mod timer;
pub mod tree;
pub mod webhook_endpoint;

pub use context::{ActorContext, Settings};
pub use error::TreeError;
pub use info::ActorKind;
pub use registry::ActorRegistry;
pub use relay::EventRelay;
pub use tree::Tree;
