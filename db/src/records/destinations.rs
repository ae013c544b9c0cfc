//! Destinations of templates. Every statement names the project.
//!
//! A destination is stored twice: its configuration without secrets, and the whole configuration sealed under the deployment's encryption
//! key. So a read needs no key, and a lost key costs the secrets, but not the list.

use std::sync::Arc;

use conclave_model::destination::{ConfigInput, Destination, DestinationConfig, DestinationKind};
use conclave_model::egress::UsedDestination;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::plan::PlanFeatures;
use conclave_model::rtmp::RtmpUrl;
use conclave_model::{
    DestinationId, DestinationName, ErrorCode, Problem, ProjectId, Secret, TemplateId,
};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::templates::refuse_unknown_template;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;
use crate::vault::{Sealed, Vault};

/// Purpose that configurations are sealed for. It is in every sealed configuration, so it never changes.
pub(crate) const PURPOSE: &str = "destination";

/// Destination to create, or a destination's whole new configuration.
#[derive(Debug, Clone)]
pub struct NewDestination {
    /// Project that the template belongs to.
    pub project_id: ProjectId,
    /// Template that the destination belongs to.
    pub template_id: TemplateId,
    /// Name, unique in the template.
    pub name: DestinationName,
    /// Kind in the request, if there is one.
    pub kind: Option<DestinationKind>,
    /// Configuration in the request.
    pub config: ConfigInput,
    /// Features that the project's plan includes.
    pub features: PlanFeatures,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.template_id, d.name, d.kind, d.config, d.created_at, d.updated_at, d.sealed, d.key_id
             FROM destinations d JOIN templates t ON t.id = d.template_id
             WHERE t.project_id = ?1 AND t.id = ?2 ",
            $rest
        )
    };
}

const SELECT: &str = select!("ORDER BY d.created_at DESC, d.id DESC");
const SELECT_ONE: &str = select!("AND d.name = ?3");
const SELECT_BY_ID: &str =
    "SELECT d.id, d.template_id, d.name, d.kind, d.config, d.created_at, d.updated_at, d.sealed, d.key_id
     FROM destinations d JOIN templates t ON t.id = d.template_id WHERE t.project_id = ?1 AND d.id = ?2";
const INSERT: &str =
    "INSERT INTO destinations (id, template_id, name, kind, config, sealed, key_id, created_at, updated_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)";
const UPDATE: &str = "UPDATE destinations SET config = ?4, sealed = ?5, key_id = ?6, updated_at = ?7
     WHERE name = ?3 AND template_id = (SELECT id FROM templates WHERE project_id = ?1 AND id = ?2)";
const DELETE: &str = "DELETE FROM destinations
     WHERE name = ?3 AND template_id = (SELECT id FROM templates WHERE project_id = ?1 AND id = ?2)";
const EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM destinations d JOIN templates t ON t.id = d.template_id
                    WHERE d.id = ?1 AND t.project_id = ?2)";
const IN_USE: &str = "SELECT EXISTS (SELECT 1 FROM egresses WHERE destination_id = ?1 AND project_id = ?2 AND ended_at IS NULL)";

/// Broadcast destination with its URLs.
#[derive(Debug, Clone)]
pub struct BroadcastDestination {
    /// Reference for the egress's record.
    pub used: UsedDestination,
    /// URLs to send to, with their stream keys.
    pub urls: Vec<RtmpUrl>,
}

/// Stored destination.
struct Stored {
    redacted: Destination,
    sealed: Sealed,
}

fn stored(row: &Row<'_>) -> Result<Stored, StoreError> {
    let redacted = Destination {
        id: row.get("id")?,
        template_id: row.get("template_id")?,
        name: row.get("name")?,
        kind: row.get("kind")?,
        config: row.json("config")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    };
    Ok(Stored {
        redacted,
        sealed: Sealed {
            bytes: row.get("sealed")?,
            key_id: row.get("key_id")?,
        },
    })
}

impl Stored {
    fn used(self) -> UsedDestination {
        UsedDestination {
            id: self.redacted.id,
            name: self.redacted.name,
        }
    }

    /// Decrypts the whole configuration.
    fn open(&self, vault: &Vault) -> Result<DestinationConfig, StoreError> {
        // The cause is for the log only. A client can do no more than send the credentials again.
        let unusable =
            |cause: String| StoreError::Refused(unusable(&self.redacted.name).because(cause));
        let plain = vault
            .open_sealed(&self.sealed, PURPOSE)
            .map_err(|error| unusable(error.to_string()))?;
        let plain = String::from_utf8(plain)
            .map_err(|_| unusable("the sealed configuration is not text".into()))?;
        // The kind is not part of the secret, so it comes from the row.
        let config = DestinationConfig::from_secret(self.redacted.kind, &Secret::new(plain));
        config.map_err(|error| unusable(error.to_string()))
    }
}

fn unusable(name: &DestinationName) -> Problem {
    let message = format!(
        "the stored credentials of the destination {name} cannot be decrypted; send all of them anew"
    );
    Problem::new(ErrorCode::DestinationUnusable, message)
}

fn no_key() -> Problem {
    let message =
        "this deployment has no encryption key (encryption.key_file), so it stores no destinations";
    Problem::new(ErrorCode::EncryptionUnavailable, message)
}

fn find(
    sql: Sql<'_>,
    project: &ProjectId,
    template: &TemplateId,
    name: &DestinationName,
) -> Result<Option<Stored>, StoreError> {
    sql.one(SELECT_ONE, args![project, template, name], stored)
}

/// Reads and decrypts a destination's configuration by its id; `None` if none of this kind exists.
pub(crate) fn open_by_id(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &DestinationId,
    kind: DestinationKind,
    vault: &Vault,
) -> Result<Option<DestinationConfig>, StoreError> {
    let found = sql
        .one(SELECT_BY_ID, args![project, id], stored)?
        .filter(|stored| stored.redacted.kind == kind);
    found.map(|stored| stored.open(vault)).transpose()
}

/// Returns the destination of a kind that a request names.
fn usable(
    sql: Sql<'_>,
    project: &ProjectId,
    template: &TemplateId,
    name: &DestinationName,
    kind: DestinationKind,
) -> Result<Stored, StoreError> {
    // A destination of the other kind is refused like an unknown one.
    let found = find(sql, project, template, name)?.filter(|stored| stored.redacted.kind == kind);
    Ok(found.ok_or_else(|| Destination::not_found().at("destination"))?)
}

fn existing(
    sql: Sql<'_>,
    project: &ProjectId,
    template: &TemplateId,
    name: &DestinationName,
) -> Result<Stored, StoreError> {
    // First, so that an unknown template is not reported as an unknown destination.
    refuse_unknown_template(sql, project, template)?;
    Ok(find(sql, project, template, name)?.ok_or_else(Destination::not_found)?)
}

/// Returns whether a destination still exists. It may have been deleted since it was looked up.
pub(crate) fn exists(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &DestinationId,
) -> Result<bool, StoreError> {
    sql.value(EXISTS, args![id, project])
}

fn refuse_taken_name(sql: Sql<'_>, new: &NewDestination) -> Result<(), StoreError> {
    if find(sql, &new.project_id, &new.template_id, &new.name)?.is_none() {
        return Ok(());
    }
    let message = format!("a destination named {:?} exists on the template", new.name);
    StoreError::refuse(Problem::new(ErrorCode::DestinationExists, message).at("name"))
}

/// Refuses a destination that an egress may still write to, since it is not final.
fn refuse_if_in_use(
    sql: Sql<'_>,
    project: &ProjectId,
    id: &DestinationId,
) -> Result<(), StoreError> {
    if sql.value(IN_USE, args![id, project])? {
        let message = "a recording or a broadcast still runs against the destination";
        return StoreError::refuse(Problem::new(ErrorCode::DestinationInUse, message));
    }
    Ok(())
}

/// Seals a whole configuration.
fn seal(tx: &Tx<'_>, config: &DestinationConfig) -> Result<Sealed, StoreError> {
    Ok(tx
        .seal(config.to_secret().reveal().as_bytes(), PURPOSE)?
        .ok_or_else(no_key)?)
}

fn insert(
    tx: &Tx<'_>,
    new: &NewDestination,
    config: &DestinationConfig,
) -> Result<Destination, StoreError> {
    let sealed = seal(tx, config)?;
    let redacted = Destination {
        id: DestinationId::new(),
        template_id: new.template_id.clone(),
        name: new.name.clone(),
        kind: new.config.kind(),
        config: config.redacted(),
        created_at: tx.now,
        updated_at: tx.now,
    };
    // Stored as JSON text, as lists return it.
    let text = redacted.config.to_string();
    let Destination {
        id,
        template_id,
        name,
        kind,
        ..
    } = &redacted;
    tx.sql.put(
        INSERT,
        args![
            id,
            template_id,
            name,
            *kind,
            &text,
            &sealed.bytes,
            &sealed.key_id,
            tx.now
        ],
    )?;
    Ok(redacted)
}

/// Returns the configuration after a change. A missing credential is noticed without a key; only kept credentials have to be decrypted.
fn changed(
    tx: &Tx<'_>,
    found: &Stored,
    new: &NewDestination,
) -> Result<DestinationConfig, StoreError> {
    let kind = found.redacted.kind;
    if new.config.kind() != kind {
        // The kind may be implied by the configuration, and the refusal names the field that was sent.
        let field = if new.kind.is_some() { "kind" } else { "config" };
        return StoreError::refuse(kind.immutable_kind(field));
    }
    // First against the redacted configuration, which shows what is missing. Hidden credentials in the result stand for kept ones.
    let redacted = DestinationConfig::from_redacted(kind, &found.redacted.config);
    let config = new.config.clone().complete(redacted.as_ref())?;
    // Checked even for a change: the plan may have lost the feature since the destination was created.
    new.features.ensure_included(kind.feature())?;
    if !config.is_hidden() {
        return Ok(config);
    }
    // Before the decryption, whose error would blame the credentials.
    if !tx.vault.has_key() {
        return StoreError::refuse(no_key());
    }
    Ok(new.config.clone().complete(Some(&found.open(tx.vault)?))?)
}

fn update(tx: &Tx<'_>, new: &NewDestination, config: &DestinationConfig) -> Result<(), StoreError> {
    let sealed = seal(tx, config)?;
    let redacted = config.redacted().to_string();
    let (project, template) = (&new.project_id, &new.template_id);
    let row = args![
        project,
        template,
        &new.name,
        &redacted,
        &sealed.bytes,
        &sealed.key_id,
        tx.now
    ];
    tx.sql.put(UPDATE, row)
}

/// Destination records.
#[derive(Debug, Clone)]
pub struct Destinations(pub(crate) Database);

impl Destinations {
    /// Creates a destination.
    ///
    /// # Errors
    /// Refused when a credential is missing, there is no such template, the name is taken, the plan does not include the feature,
    /// or the deployment has no encryption key.
    pub async fn create(
        &self,
        new: NewDestination,
        record: Option<ResponseRecorder<Destination>>,
    ) -> Result<Destination, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&new.project_id), record, move |tx| {
                let config = new.config.clone().complete(None)?;
                refuse_unknown_template(tx.sql, &new.project_id, &new.template_id)?;
                refuse_taken_name(tx.sql, &new)?;
                new.features.ensure_included(new.config.kind().feature())?;
                insert(tx, &new, &config)
            })
            .await
    }

    /// Lists a template's destinations, newest first.
    ///
    /// # Errors
    /// Refused when there is no such template.
    pub async fn list(
        &self,
        project: ProjectId,
        id: TemplateId,
    ) -> Result<Vec<Destination>, StoreError> {
        self.0
            .read(move |sql| {
                refuse_unknown_template(sql, &project, &id)?;
                sql.many(SELECT, args![&project, &id], |row| {
                    stored(row).map(|stored| stored.redacted)
                })
            })
            .await
    }

    /// Reads a destination.
    ///
    /// # Errors
    /// Refused when there is no such template or destination.
    pub async fn get(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: DestinationName,
    ) -> Result<Destination, StoreError> {
        self.0
            .read(move |sql| existing(sql, &project, &id, &name).map(|stored| stored.redacted))
            .await
    }

    /// Replaces a destination's configuration. Credentials that are left out are kept.
    ///
    /// # Errors
    /// Refused when there is no such template or destination, it is of another kind, a credential is neither sent nor stored, the
    /// plan does not include the feature, the deployment has no encryption key, or kept credentials cannot be decrypted.
    pub async fn update(&self, new: NewDestination) -> Result<Destination, StoreError> {
        self.0
            .write(Queue::for_project(&new.project_id), move |tx| {
                let find = || existing(tx.sql, &new.project_id, &new.template_id, &new.name);
                // Read inside the transaction: a concurrent change of the same destination must not be lost.
                let config = changed(tx, &find()?, &new)?;
                update(tx, &new, &config)?;
                // Read again for `updated_at`.
                Ok(find()?.redacted)
            })
            .await
    }

    /// Deletes a destination.
    ///
    /// # Errors
    /// Refused when there is no such template or destination, or an egress that is not final uses it.
    pub async fn delete(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: DestinationName,
    ) -> Result<(), StoreError> {
        self.0
            // In one transaction, so no egress can start with the destination in between.
            .write(Queue::for_project(&project), move |tx| {
                let found = existing(tx.sql, &project, &id, &name)?;
                refuse_if_in_use(tx.sql, &project, &found.redacted.id)?;
                tx.sql.put(DELETE, args![&project, &id, &name])
            })
            .await
    }

    /// Reads a recording destination. Its credentials can be decrypted; they are read again where they are used.
    ///
    /// # Errors
    /// Refused at `destination` if the template has no such recording destination, or as unusable if its credentials cannot be decrypted.
    pub async fn recording(
        &self,
        project: ProjectId,
        template: TemplateId,
        name: DestinationName,
    ) -> Result<UsedDestination, StoreError> {
        let vault = Arc::clone(self.0.vault());
        self.0
            .read(move |sql| {
                let found = usable(sql, &project, &template, &name, DestinationKind::Recording)?;
                // Decrypted only as a check: an upload would otherwise fail after the recording.
                found.open(&vault).map(|_| found.used())
            })
            .await
    }

    /// Reads a broadcast destination, with its decrypted URLs.
    ///
    /// # Errors
    /// Refused at `destination` if the template has no such RTMP destination, or as unusable if its URLs cannot be decrypted.
    pub async fn broadcast(
        &self,
        project: ProjectId,
        template: TemplateId,
        name: DestinationName,
    ) -> Result<BroadcastDestination, StoreError> {
        let vault = Arc::clone(self.0.vault());
        self.0
            .read(move |sql| {
                let found = usable(sql, &project, &template, &name, DestinationKind::Rtmp)?;
                match found.open(&vault)? {
                    DestinationConfig::Rtmp(rtmp) => Ok(BroadcastDestination {
                        used: found.used(),
                        urls: rtmp.urls,
                    }),
                    DestinationConfig::Recording(_) => Err(StoreError::Fault(
                        "a destination's configuration is not of its kind".into(),
                    )),
                }
            })
            .await
    }
}
