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

mod api_keys;
mod backup;
mod codes;
mod contents;
mod credential;
mod deliveries;
mod destinations;
mod egress_rows;
mod egresses;
mod error;
mod events;
mod file_place;
mod health;
mod heartbeat;
mod housekeeping;
mod idempotency;
mod import;
mod ingresses;
mod joins;
mod lists;
mod live;
mod local_files;
mod metrics;
mod open_sessions;
mod outbox;
#[cfg(test)]
mod portable_sql;
mod postgres;
pub mod private_file;
mod projects;
mod query_builder;
mod reader;
mod role_changes;
mod room_end;
mod room_roles;
mod room_rows;
mod rooms;
mod rotation;
mod rotation_lock;
mod sessions;
mod shared_rotation;
mod snapshot;
mod sql;
mod sqlite;
mod store;
mod store_options;
mod tables;
mod templates;
mod tracks;
mod tx;
mod uploads;
mod usage;
mod values;
mod vault;
mod webhook_endpoints;
mod writer;

pub use api_keys::CreatedApiKey;
pub use backup::restore;
pub use codes::{CodeExchange, CreatedCode, NewCode};
pub use contents::Contents;
pub use credential::Credential;
pub use deliveries::{DeliveryFilter, DueDelivery, EndpointQueue};
pub use destinations::{BroadcastDestination, NewDestination};
pub use egresses::{EgressFilter, RunningEgress};
pub use error::{ImportError, StoreError};
pub use events::{EventGap, EventPage, StoredEvent};
pub use file_place::FilePlace;
pub use health::damaged_tables;
pub use idempotency::StoredResponse;
pub use import::{ImportProgress, Imported, import_file};
pub use ingresses::{IngressFilter, NewIngress};
pub use live::LiveRecords;
pub use local_files::{LocalRecording, RecordingPosition};
pub use metrics::StoreMetrics;
pub use outbox::{CommitHook, CommittedEvent};
pub use postgres::health::{PostgresHealth, check_postgres, require_suitable_postgres};
pub use postgres::indexes::{IndexState, UpcomingIndex};
pub use postgres::lease;
pub use postgres::prepare::build_indexes;
pub use projects::{ProjectSummary, Totals};
pub use role_changes::{LastRoleChange, NewRoleChange};
pub use room_roles::{TokenActor, TokenContext};
pub use room_rows::{ConnectedParticipant, RoomSnapshot};
pub use rooms::NewRoom;
pub use rotation::{Rotation, RotationError, SecretCount};
pub use sessions::{SessionDetail, SessionFilter};
pub use shared_rotation::{RotationStep, SharedRotation};
pub use sql::postgres::{PostgresServer, PostgresSettingsError};
pub use sqlite::{DRAFT_SUFFIX, SNAPSHOT_AGE};
pub use store::{Crash, Store};
pub use store_options::{Location, OlderSchema, PostgresOptions, StoreOptions};
pub use templates::{NewTemplate, PutRole, TemplateChange};
pub use tracks::OpenTrack;
pub use uploads::{PendingUpload, RecordingEnd, UploadRest};
pub use vault::{Vault, VaultError};
pub use webhook_endpoints::FailingEndpoint;
pub use writer::WriterEnd;
