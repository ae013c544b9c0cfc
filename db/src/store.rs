//! The store: the database, and a component for each kind of record.

use std::fmt;
use std::sync::Arc;

use conclave_model::Clock;

use crate::backup::Backups;
use crate::database::Database;
use crate::engine::writer::WriterStop;
use crate::error::StoreError;
use crate::options::{Location, StoreOptions};
use crate::records::api_keys::ApiKeys;
use crate::records::bans::Bans;
use crate::records::codes::Codes;
use crate::records::deliveries::Deliveries;
use crate::records::destinations::Destinations;
use crate::records::egresses::Egresses;
use crate::records::egresses::local_files::LocalFiles;
use crate::records::egresses::uploads::Uploads;
use crate::records::erasures::Erasures;
use crate::records::events::Events;
use crate::records::exports::Exports;
use crate::records::idempotency::Responses;
use crate::records::ingresses::Ingresses;
use crate::records::projects::Projects;
use crate::records::quality::Quality;
use crate::records::removals::Removals;
use crate::records::role_changes::RoleChanges;
use crate::records::rooms::Rooms;
use crate::records::rotation::EncryptionKey;
use crate::records::server::ServerRecords;
use crate::records::sessions::Sessions;
use crate::records::templates::Templates;
use crate::records::tracks::Tracks;
use crate::records::usage::Usage;
use crate::records::webhook_endpoints::WebhookEndpoints;

/// Durable records. Cheap to clone, and so is each component: code that uses one kind of record holds only its component.
#[derive(Clone)]
pub struct Store(Arc<Components>);

struct Components {
    database: Database,
    projects: Projects,
    api_keys: ApiKeys,
    templates: Templates,
    rooms: Rooms,
    codes: Codes,
    bans: Bans,
    sessions: Sessions,
    tracks: Tracks,
    role_changes: RoleChanges,
    egresses: Egresses,
    uploads: Uploads,
    local_files: LocalFiles,
    erasures: Erasures,
    exports: Exports,
    removals: Removals,
    ingresses: Ingresses,
    destinations: Destinations,
    webhook_endpoints: WebhookEndpoints,
    deliveries: Deliveries,
    events: Events,
    usage: Usage,
    quality: Quality,
    responses: Responses,
    encryption_key: EncryptionKey,
    server: ServerRecords,
    backups: Backups,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.0.database).finish()
    }
}

impl Store {
    /// Opens a store, and creates or migrates its schema if allowed. Requires a running actix system. Blocks.
    ///
    /// # Errors
    /// If the database cannot be opened or written, has a newer schema, or may not be migrated.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let database = Database::open(options)?;
        // Each component has a handle of its own, so code that needs one kind of record cannot reach the others.
        let handle = || database.clone();
        Ok(Self(Arc::new(Components {
            projects: Projects(handle()),
            api_keys: ApiKeys(handle()),
            templates: Templates(handle()),
            rooms: Rooms(handle()),
            codes: Codes(handle()),
            bans: Bans(handle()),
            sessions: Sessions(handle()),
            tracks: Tracks(handle()),
            role_changes: RoleChanges(handle()),
            egresses: Egresses(handle()),
            uploads: Uploads(handle()),
            local_files: LocalFiles(handle()),
            erasures: Erasures(handle()),
            exports: Exports(handle()),
            removals: Removals(handle()),
            ingresses: Ingresses(handle()),
            destinations: Destinations(handle()),
            webhook_endpoints: WebhookEndpoints::new(handle()),
            deliveries: Deliveries(handle()),
            events: Events(handle()),
            usage: Usage(handle()),
            quality: Quality(handle()),
            responses: Responses(handle()),
            encryption_key: EncryptionKey(handle()),
            server: ServerRecords::new(handle()),
            backups: Backups(handle()),
            database,
        })))
    }

    /// Runs the queued writes, and closes the writer. Later writes fail as unavailable, as do later reads from a PostgreSQL server. Blocks
    /// until the queue is empty.
    pub fn close(&self) {
        // All clones of the store share the writer, so this closes it for every one of them.
        self.0.database.close();
    }

    /// Returns once a writer thread has stopped, with the reason: after [`Store::close`], or by itself. Its writes fail from then on.
    pub async fn writer_ended(&self) -> WriterStop {
        // The server exits with this reason.
        self.0.database.writer_ended().await
    }

    /// Returns the location of the records.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.0.database.location()
    }

    /// Returns the time source.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.0.database.clock()
    }

    /// Returns the project records.
    #[must_use]
    pub fn projects(&self) -> &Projects {
        &self.0.projects
    }

    /// Returns the API key records.
    #[must_use]
    pub fn api_keys(&self) -> &ApiKeys {
        &self.0.api_keys
    }

    /// Returns the template and role records.
    #[must_use]
    pub fn templates(&self) -> &Templates {
        &self.0.templates
    }

    /// Returns the room records.
    #[must_use]
    pub fn rooms(&self) -> &Rooms {
        &self.0.rooms
    }

    /// Returns the room code records.
    #[must_use]
    pub fn codes(&self) -> &Codes {
        &self.0.codes
    }

    /// Returns the records of bans and revoked tokens.
    #[must_use]
    pub fn bans(&self) -> &Bans {
        &self.0.bans
    }

    /// Returns the session records.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Returns the track records.
    #[must_use]
    pub fn tracks(&self) -> &Tracks {
        &self.0.tracks
    }

    /// Returns the role change records.
    #[must_use]
    pub fn role_changes(&self) -> &RoleChanges {
        &self.0.role_changes
    }

    /// Returns the egress records.
    #[must_use]
    pub fn egresses(&self) -> &Egresses {
        &self.0.egresses
    }

    /// Returns the records of recording uploads.
    #[must_use]
    pub fn uploads(&self) -> &Uploads {
        &self.0.uploads
    }

    /// Returns the records of recording files on this machine.
    #[must_use]
    pub fn local_files(&self) -> &LocalFiles {
        &self.0.local_files
    }

    /// Returns the erasures of identities.
    #[must_use]
    pub fn erasures(&self) -> &Erasures {
        &self.0.erasures
    }

    /// Returns the exports of projects.
    #[must_use]
    pub fn exports(&self) -> &Exports {
        &self.0.exports
    }

    /// Returns the removals of projects.
    #[must_use]
    pub fn removals(&self) -> &Removals {
        &self.0.removals
    }

    /// Returns the ingress endpoint records.
    #[must_use]
    pub fn ingresses(&self) -> &Ingresses {
        &self.0.ingresses
    }

    /// Returns the destination records.
    #[must_use]
    pub fn destinations(&self) -> &Destinations {
        &self.0.destinations
    }

    /// Returns the webhook endpoint records.
    #[must_use]
    pub fn webhook_endpoints(&self) -> &WebhookEndpoints {
        &self.0.webhook_endpoints
    }

    /// Returns the webhook delivery records.
    #[must_use]
    pub fn deliveries(&self) -> &Deliveries {
        &self.0.deliveries
    }

    /// Returns the event records.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Returns the usage records.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        &self.0.usage
    }

    /// Returns the records of sessions' quality.
    #[must_use]
    pub fn quality(&self) -> &Quality {
        &self.0.quality
    }

    /// Returns the responses stored for repeated requests.
    #[must_use]
    pub fn responses(&self) -> &Responses {
        &self.0.responses
    }

    /// Returns the deployment's encryption key.
    #[must_use]
    pub fn encryption_key(&self) -> &EncryptionKey {
        &self.0.encryption_key
    }

    /// Returns the server-wide records.
    #[must_use]
    pub fn server(&self) -> &ServerRecords {
        &self.0.server
    }

    /// Returns the database backups.
    #[must_use]
    pub fn backups(&self) -> &Backups {
        &self.0.backups
    }
}
