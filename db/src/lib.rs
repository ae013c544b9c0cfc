//! The durable records of Conclave, in a file of SQLite or in a database of PostgreSQL.
//!
//! A change and its events are one transaction: the event, and a delivery for each active webhook endpoint, are on disk before any
//! actor is notified. On SQLite one writer thread commits all queued jobs in one transaction, so that they share an fsync but no
//! errors. On PostgreSQL each job is a transaction, in lanes by project, so that they share the waits for a network.
//!
//! ```text
//!  callers ──▶ Store ──▶ writer: one thread, or lanes ──▶ commit ──▶ CommitHook: actors are notified
//!                  └───▶ readers: point reads, lists, bulk reads and loads
//! ```
//!
//! Each record has a file with its SQL texts and the operations of [`Store`] on it. All of them read and write through `sql`, which
//! hides the engine: `sqlite` and `postgres` open it, run its writer and its readers, and migrate its schema.

mod backup;
mod engine;
mod error;
mod import;
mod options;
#[cfg(test)]
mod portable_sql;
pub mod private_file;
mod records;
mod rotation_lock;
mod sql;
mod store;
mod tables;
mod tx;
mod vault;

pub use backup::{Contents, restore};
pub use engine::postgres::health::{PostgresHealth, check_postgres, require_suitable_postgres};
pub use engine::postgres::indexes::{IndexState, UpcomingIndex};
pub use engine::postgres::lease;
pub use engine::postgres::migrate::build_indexes;
pub use engine::snapshot::Credential;
pub use engine::sqlite::file::FilePlace;
pub use engine::sqlite::{DRAFT_SUFFIX, SNAPSHOT_AGE};
pub use engine::writer::WriterEnd;
pub use error::{ImportError, StoreError};
pub use import::{ImportProgress, Imported, import_file};
pub use options::{Location, OlderSchema, PostgresOptions, StoreMetrics, StoreOptions};
pub use records::api_keys::CreatedApiKey;
pub use records::codes::{CodeExchange, CreatedCode, NewCode};
pub use records::deliveries::{DeliveryFilter, DueDelivery, EndpointQueue};
pub use records::destinations::{BroadcastDestination, NewDestination};
pub use records::egresses::local_files::{LocalRecording, RecordingPosition};
pub use records::egresses::uploads::{PendingUpload, RecordingEnd, UploadRest};
pub use records::egresses::{EgressFilter, RunningEgress};
pub use records::events::{EventGap, EventPage, StoredEvent};
pub use records::idempotency::StoredResponse;
pub use records::ingresses::{IngressFilter, NewIngress};
pub use records::projects::{ProjectSummary, Totals};
pub use records::role_changes::{LastRoleChange, NewRoleChange};
pub use records::rooms::rows::{ConnectedParticipant, RoomSnapshot};
pub use records::rooms::{NewRoom, TokenActor, TokenContext};
pub use records::rotation::{Rotation, RotationError, RotationStep, SecretCount, SharedRotation};
pub use records::server::{LiveRecords, damaged_tables};
pub use records::sessions::{SessionDetail, SessionFilter};
pub use records::templates::{NewTemplate, PutRole, TemplateChange};
pub use records::tracks::OpenTrack;
pub use records::webhook_endpoints::FailingEndpoint;
pub use sql::postgres::{PostgresServer, PostgresSettingsError};
pub use store::{Crash, Store};
pub use tx::{CommitHook, CommittedEvent};
pub use vault::{Vault, VaultError};
