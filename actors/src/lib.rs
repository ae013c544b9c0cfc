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
//! The parts, in the order in which one should read them:
//!
//! 1. [`tree`]: the entry for callers outside this crate. HTTP handlers hold no mailbox.
//! 2. [`ActorContext`]: the store, the media plane, the clock and the settings that all actors share; [`TreeError`].
//! 3. [`mailbox`]: how a message reaches an actor: mailboxes, the path of reports, barriers, timers.
//! 4. `children`: supervision. [`system`], the root, supervises projects; a [`project`] supervises all others.
//! 5. [`room`]: joins, moderation and the end of a room. `report_queue`: the reports that wait for it.
//! 6. `follow`, [`egress`], [`ingress`]: what is followed on the media plane until it is final.
//! 7. [`relay`], [`webhook_endpoint`]: committed events on their way to their receivers.
//! 8. [`info`], [`registry`], [`debug`], [`metrics`]: what operators see.
//!
//! Each kind of actor has a folder. In its `mod.rs`, `XActor` is what an actor is given once and the implementation of ractor's
//! trait, and `LiveX` is its state: it owns the actor's mailbox and context, takes the messages, and sequences its parts. The
//! messages are there too, or in `message.rs` if they are many; each other file is one part with its own state.
//!
//! Calls go down the tree and have timeouts. Upward, an actor only sends: to itself along its [`mailbox::ReportPath`]. A change
//! is persisted before an actor acts on it, so each actor can be rebuilt from the database at any moment. Imports between files
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
