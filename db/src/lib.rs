//! Durable records of Conclave, in an SQLite file or a PostgreSQL database.
//!
//! A change and its events are one transaction: an event, and a delivery for each active webhook endpoint, are on disk before any actor is
//! notified. On SQLite, one writer thread commits all queued jobs in one transaction, so they share an fsync but no errors. On PostgreSQL,
//! each job is a transaction, and each project has one of several writer sessions, so that projects do not wait for each other's round
//! trips.
//!
//! ```text
//!  callers ──▶ Store ──▶ writer: one thread, or sessions ──▶ commit ──▶ CommitHook: actors are notified
//!                  └───▶ readers: point reads, lists, bulk reads and loads
//! ```
//!
//! The parts, in reading order:
//!
//! 1. [`Store`] (`store`): the database and a component for each kind of record: `store.rooms().create(…)`, `store.deliveries().due(…)`.
//! 2. `records`: the components. Each file has a component's SQL texts, types and operations; `rooms`, `sessions` and `egresses` are
//!    folders.
//! 3. `sql`: the handle through which records read and write. It hides the engine.
//! 4. `tx`: a write's transaction, its events, and the hook that receives them once they are on disk.
//! 5. `database`: shared by the components: write queue, readers, and the keys that encrypt secrets.
//! 6. `engine`: the writer, its queues and the readers. `engine::sqlite` and `engine::postgres` open a database, migrate its schema and run
//!    jobs; `engine::postgres::lease` decides which of several servers is the active one.
//! 7. `vault`, `rotation_lock` and `records::rotation`: secrets at rest, and the rotation of their key.
//! 8. `backup`, `import` and `tables`: file copies, and the way from SQLite to PostgreSQL.
//!
//! `options` and `error`: how a store is opened, and how it fails. `private_file` is for key files.

mod backup;
mod database;
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

pub use backup::{Backups, Contents, restore};
pub use engine::postgres::health::{PostgresHealth, check_postgres, require_suitable_postgres};
pub use engine::postgres::indexes::{IndexState, UpcomingIndex};
pub use engine::postgres::lease;
pub use engine::postgres::migrate::build_indexes;
pub use engine::snapshot::Credential;
pub use engine::sqlite::file::FileLocation;
pub use engine::sqlite::{DRAFT_SUFFIX, SNAPSHOT_AGE};
pub use engine::writer::WriterStop;
pub use error::{ImportError, StoreError};
pub use import::{ImportProgress, Imported, import_file};
pub use options::{Location, OlderSchema, PostgresOptions, StoreMetrics, StoreOptions};
pub use records::api_keys::{ApiKeys, CreatedApiKey};
pub use records::bans::{Bans, Exclusion, NewBan, PutBan};
pub use records::codes::{CodeExchange, Codes, CreatedCode, NewCode};
pub use records::deliveries::{Deliveries, DeliveryFilter, DueDelivery, EndpointQueue};
pub use records::destinations::{BroadcastDestination, Destinations, NewDestination};
pub use records::egresses::local_files::{LocalFiles, LocalRecording, RecordingPosition};
pub use records::egresses::uploads::{PendingUpload, RecordingEnd, UploadRest, Uploads};
pub use records::egresses::{EgressFilter, Egresses, RunningEgress};
pub use records::erasures::{ErasedRows, Erasure, Erasures};
pub use records::events::{EventFilter, EventGap, EventList, EventPage, Events, StoredEvent};
pub use records::exports::{ExportPage, ExportPosition, Exports};
pub use records::idempotency::{Responses, StoredResponse};
pub use records::ingresses::{IngressFilter, Ingresses, NewIngress};
pub use records::projects::{ProjectSummary, Projects, Totals};
pub use records::quality::{MeasuredSession, NewQuality, Quality, StoredSample};
pub use records::removals::{ProjectContents, Removals};
pub use records::role_changes::{LastRoleChange, NewRoleChange, RoleChanges};
pub use records::rooms::rows::{ConnectedParticipant, RoomSnapshot};
pub use records::rooms::{
    JoinRecords, LiveRoomRecord, NewRoom, RoomFilter, Rooms, TokenActor, TokenContext,
};
pub use records::rotation::{
    EncryptionKey, Rotation, RotationError, RotationStep, SecretCount, SharedRotation,
};
pub use records::server::{Crash, LiveRecords, LogRetention, ServerRecords, damaged_tables};
pub use records::sessions::{SessionDetail, SessionFilter, Sessions};
pub use records::templates::{NewTemplate, PutRole, TemplateChange, Templates};
pub use records::tracks::{OpenTrack, Tracks};
pub use records::usage::Usage;
pub use records::webhook_endpoints::{FailingEndpoint, WebhookEndpoints};
pub use sql::postgres::{PostgresServer, PostgresSettingsError};
pub use store::Store;
pub use tx::{CommitHook, CommittedEvent};
pub use vault::{Vault, VaultError};
