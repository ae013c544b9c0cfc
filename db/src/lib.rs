//! The durable records of Conclave.
//!
//! SQLite is the truth. One writer thread commits whatever has queued up in one transaction, so an fsync is shared and
//! an error is not; readers run beside it. A change and the events it causes are one transaction: the event and a
//! delivery for each active endpoint stand in the outbox before anybody is told.
//!
//! ```text
//!  callers ──▶ Store ──▶ writer thread (group commit) ──▶ commit ──▶ CommitHook: actors are told
//!                  └───▶ reader pool (SyncArbiter, r2d2)
//! ```
//!
//! The public face names no SQLite type: every call takes and gives types of `conclave-model`, so that another engine
//! can stand behind it. One file a record.

mod api_keys;
mod codes;
mod columns;
mod deliveries;
mod destinations;
mod egresses;
mod error;
mod health;
mod housekeeping;
mod idempotency;
mod ingresses;
mod live;
mod metrics;
mod migrate;
mod outbox;
pub mod private_file;
mod projects;
mod query_builder;
mod reader;
mod role_changes;
mod rooms;
mod rotation;
mod sessions;
mod store;
mod templates;
mod usage;
mod vault;
mod webhook_endpoints;
mod writer;

pub use api_keys::Credential;
pub use codes::{CodeExchange, CreatedCode, NewCode};
pub use deliveries::{Attempt, DeliveryFilter, DueDelivery, EndpointQueue};
pub use destinations::NewDestination;
pub use egresses::{EgressFilter, NewEgress, RunningEgress};
pub use error::StoreError;
pub use idempotency::StoredResponse;
pub use ingresses::{IngressFilter, NewIngress};
pub use metrics::StoreMetrics;
pub use outbox::CommittedEvent;
pub use role_changes::NewRoleChange;
pub use rooms::{ConnectedParticipant, NewRoom, RoomSnapshot, TokenContext};
pub use rotation::{Rotation, RotationError};
pub use sessions::SessionFilter;
pub use store::{CommitHook, Store, StoreOptions};
pub use templates::{NewTemplate, TemplateChange};
pub use vault::{Vault, VaultError};
