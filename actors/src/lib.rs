//! The actors of Conclave. Each one owns the state and the timers of one live object, and a tree of supervisors restarts them.
//!
//! ```text
//! system ─┬─ project ─┬─ room                 connected participants, reserved seats, the empty timer
//!         │           ├─ egress               one recording or broadcast, until its status is final
//!         │           ├─ ingress              one ingress endpoint, until it is deleted
//!         │           └─ webhook_endpoint     the due deliveries of one endpoint, and its tick
//!         └─ project …                        supervises its children, and limits open rooms
//! ```
//!
//! # Parts
//!
//! In reading order:
//!
//! 1. [`tree`]: the entry for callers outside this crate. HTTP handlers hold no mailbox.
//! 2. [`ActorContext`]: the store, the media plane, the clock and the settings that all actors share; [`TreeError`].
//! 3. [`mailbox`]: mailboxes, the report path, barriers and timers. `report_queue`: the media plane's reports, which are buffered there
//!    instead of in mailboxes.
//! 4. `children`: supervision. [`system`], the root, supervises projects; a [`project`] supervises all others.
//! 5. [`room`]: joins, moderation and the end of a room.
//! 6. `follow`, [`egress`], [`ingress`]: actors that follow an object on the media plane until its status is final.
//! 7. [`relay`], [`webhook_endpoint`]: committed events on their way to receivers.
//! 8. [`info`], [`registry`], [`debug`], [`metrics`]: the operator's view.
//!
//! Each kind of actor has a folder. In its `mod.rs`, `XActor` has the actor's arguments and implements ractor's trait. `LiveX` is its
//! state: it owns the mailbox and the context, receives the messages, and sequences its parts, which are in the other files.
//!
//! # A message's course
//!
//! A handler calls [`Tree`], which finds the project's mailbox; `system` starts a project that is not running. The project forwards the
//! message to the child, and wakes or rebuilds the child if necessary. The child writes the change to the store, waits for the commit,
//! changes its memory, and replies. Since an actor handles one message at a time, a decision such as "is there a free seat?" needs no lock
//! and no retry.
//!
//! # Failures
//!
//! - A domain error is a reply. An `Err` from a handler, or a panic, means that memory and records may differ: the supervisor drops the
//!   actor and rebuilds it from the database, at first after 100 ms. The supervisor buffers messages meanwhile.
//! - A call times out after 35 s. The write may still complete; callers that need to know use an `Idempotency-Key`.
//! - If the root stops by itself, the process exits. Only a restart makes memory match the database.
//! - At shutdown, children stop before their parents. A transition that was not persisted has not happened.
//!
//! # Why not simpler
//!
//! Row locks could order decisions as well, but a room also has timers, reserved seats that must not be written, and calls to the media
//! plane that take seconds. Calls go down the tree and have timeouts; upward, an actor only casts. Otherwise two actors could wait for each
//! other. Ids map to mailboxes in maps that supervisors own, because ractor's names are global to the process.

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
pub mod recording;
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
