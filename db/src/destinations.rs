//! Destinations of templates. Every statement names the project.
//!
//! A destination lies in the file twice: as it is shown, without secrets, and whole, sealed under the deployment's
//! encryption key. So reading one needs no key, and a lost key costs the secrets and not the list.

use conclave_model::destination::{ConfigInput, Destination, DestinationConfig, DestinationKind};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::plan::PlanFeatures;
use conclave_model::{DestinationId, DestinationName, ErrorCode, Problem, ProjectId, Secret, TemplateId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::templates::refuse_unknown_template;
use crate::vault::{Sealed, Vault};
use crate::writer::Tx;
use crate::{Store, StoreError};

/// What sealed configurations are sealed for.
pub(crate) const PURPOSE: &str = "destination";

const SELECT: &str =
    "SELECT d.id, d.template_id, d.name, d.kind, d.config, d.created_at, d.updated_at, d.sealed, d.key_id
     FROM destinations d JOIN templates t ON t.id = d.template_id
     WHERE t.project_id = ?1 AND t.id = ?2";

/// A destination to be written.
#[derive(Debug, Clone)]
pub struct NewDestination {
    /// Whose.
    pub project_id: ProjectId,
    /// The template it stands on.
    pub template_id: TemplateId,
    /// Its name there.
    pub name: DestinationName,
    /// The kind that was sent, if one was.
    pub kind: Option<DestinationKind>,
    /// What was sent.
    pub config: ConfigInput,
    /// What the project's plan includes.
    pub features: PlanFeatures,
}

/// A destination as it lies in the file.
struct Stored {
    shown: Destination,
    sealed: Sealed,
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let shown = Destination {
        id: row.parsed(0)?,
        template_id: row.parsed(1)?,
        name: row.parsed(2)?,
        kind: row.word(3, |word| word.parse().ok())?,
        config: row.parsed(4)?,
        created_at: row.time(5)?,
        updated_at: row.time(6)?,
    };
    Ok(Stored { shown, sealed: Sealed { bytes: row.get(7)?, key_id: row.get(8)? } })
}

impl Stored {
    /// The whole configuration.
    fn open(&self, vault: &Vault) -> Result<DestinationConfig, StoreError> {
        let unusable = |cause: String| StoreError::Refused(unusable(&self.shown.name).because(cause));
        let plain = vault.open_sealed(&self.sealed, PURPOSE).map_err(|error| unusable(error.to_string()))?;
        let plain = String::from_utf8(plain).map_err(|_| unusable("sealed is what is no text".into()))?;
        let config = DestinationConfig::from_secret(self.shown.kind, &Secret::new(plain));
        config.map_err(|error| unusable(error.to_string()))
    }
}

pub(crate) fn not_found() -> Problem {
    Problem::new(ErrorCode::DestinationNotFound, "no destination by that name on the template")
}

fn unusable(name: &DestinationName) -> Problem {
    let message =
        format!("the stored credentials of the destination {name} cannot be decrypted; send all of them anew");
    Problem::new(ErrorCode::DestinationUnusable, message)
}

fn one(
    sql: &Connection,
    project: &ProjectId,
    template: &TemplateId,
    name: &DestinationName,
) -> Result<Option<Stored>, StoreError> {
    sql.prepare_cached(&format!("{SELECT} AND d.name = ?3"))
        .and_then(|mut s| s.query_row([project.as_str(), template.as_str(), name.as_str()], stored).optional())
        .or_store_error()
}

fn existing(
    sql: &Connection,
    project: &ProjectId,
    template: &TemplateId,
    name: &DestinationName,
) -> Result<Stored, StoreError> {
    refuse_unknown_template(sql, project, template)?;
    one(sql, project, template, name)?.ok_or_else(|| StoreError::Refused(not_found()))
}

fn refuse_taken_name(sql: &Connection, write: &NewDestination) -> Result<(), StoreError> {
    if one(sql, &write.project_id, &write.template_id, &write.name)?.is_none() {
        return Ok(());
    }
    let message = format!("a destination named {:?} exists on the template", write.name);
    StoreError::refuse(Problem::new(ErrorCode::DestinationExists, message).at("name"))
}

fn no_key() -> Problem {
    let message = "this deployment has no encryption key (encryption.key_file), so it stores no destinations";
    Problem::new(ErrorCode::EncryptionUnavailable, message)
}

/// Seals a configuration for the file.
fn seal(vault: &Vault, config: &DestinationConfig) -> Result<Sealed, StoreError> {
    let sealed = vault.seal(config.to_secret().reveal().as_bytes(), PURPOSE);
    sealed.map_err(|error| StoreError::unsealed(&error))?.ok_or_else(|| StoreError::Refused(no_key()))
}

fn insert(tx: &Tx<'_>, write: &NewDestination, config: &DestinationConfig) -> Result<Destination, StoreError> {
    let sealed = seal(tx.vault, config)?;
    let shown = Destination {
        id: DestinationId::new(),
        template_id: write.template_id.clone(),
        name: write.name.clone(),
        kind: write.config.kind(),
        config: config.redacted(),
        created_at: tx.now,
        updated_at: tx.now,
    };
    tx.sql
        .execute(
            "INSERT INTO destinations (id, template_id, name, kind, config, sealed, key_id, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
            params![
                shown.id.as_str(),
                shown.template_id.as_str(),
                shown.name.as_str(),
                shown.kind.as_str(),
                shown.config.to_string(),
                sealed.bytes,
                sealed.key_id,
                tx.now.millis()
            ],
        )
        .or_store_error()?;
    Ok(shown)
}

/// The configuration that a change leads to. What is shown tells, without any key, whether everything is there; only what
/// is kept has to be opened.
fn changed(tx: &Tx<'_>, found: &Stored, write: &NewDestination) -> Result<DestinationConfig, StoreError> {
    let kind = found.shown.kind;
    if write.config.kind() != kind {
        let field = if write.kind.is_some() { "kind" } else { "config" };
        return StoreError::refuse(kind.immutable_kind(field));
    }
    let shown = DestinationConfig::from_redacted(kind, &found.shown.config);
    let complete =
        |stored: Option<&DestinationConfig>| write.config.clone().complete(stored).map_err(StoreError::Refused);
    let config = complete(shown.as_ref())?;
    write.features.ensure_included(kind.feature()).map_err(StoreError::Refused)?;
    if config.is_hidden() {
        if !tx.vault.has_key() {
            return StoreError::refuse(no_key());
        }
        return complete(Some(&found.open(tx.vault)?));
    }
    Ok(config)
}

fn update(tx: &Tx<'_>, write: &NewDestination, config: &DestinationConfig) -> Result<(), StoreError> {
    let sealed = seal(tx.vault, config)?;
    tx.sql
        .execute(
            "UPDATE destinations SET config = ?4, sealed = ?5, key_id = ?6, updated_at = ?7
             WHERE name = ?3 AND template_id = (SELECT id FROM templates WHERE project_id = ?1 AND id = ?2)",
            params![
                write.project_id.as_str(),
                write.template_id.as_str(),
                write.name.as_str(),
                config.redacted().to_string(),
                sealed.bytes,
                sealed.key_id,
                tx.now.millis()
            ],
        )
        .or_store_error()?;
    Ok(())
}

/// A job that is not final may still write there.
fn refuse_if_in_use(sql: &Connection, id: &DestinationId) -> Result<(), StoreError> {
    let used: bool = sql
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM egresses WHERE destination_id = ?1 AND ended_at IS NULL)")
        .and_then(|mut s| s.query_row([id.as_str()], |row| row.get(0)))
        .or_store_error()?;
    if used {
        let message = "a recording or a broadcast still runs against the destination";
        return StoreError::refuse(Problem::new(ErrorCode::DestinationInUse, message));
    }
    Ok(())
}

/// Whether a destination is still there: one that was looked up may have been deleted since.
pub(crate) fn exists(sql: &Connection, id: &DestinationId) -> Result<bool, StoreError> {
    sql.prepare_cached("SELECT EXISTS (SELECT 1 FROM destinations WHERE id = ?1)")
        .and_then(|mut s| s.query_row([id.as_str()], |row| row.get(0)))
        .or_store_error()
}

impl Store {
    /// Makes a destination.
    ///
    /// # Errors
    /// Refused when a credential is missing, there is no such template, the name is taken, the plan does not include what
    /// it is for, or the deployment has no encryption key.
    pub async fn create_destination(
        &self,
        write: NewDestination,
        keep: Option<ResponseRecorder<Destination>>,
    ) -> Result<Destination, StoreError> {
        self.write(move |tx| {
            let config = write.config.clone().complete(None).map_err(StoreError::Refused)?;
            refuse_unknown_template(tx.sql, &write.project_id, &write.template_id)?;
            refuse_taken_name(tx.sql, &write)?;
            write.features.ensure_included(write.config.kind().feature()).map_err(StoreError::Refused)?;
            let destination = insert(tx, &write, &config)?;
            tx.store_response(keep.as_ref(), &destination)?;
            Ok(destination)
        })
        .await
    }

    /// A template's destinations, newest first.
    ///
    /// # Errors
    /// Refused when there is no such template.
    pub async fn destinations(&self, project: ProjectId, id: TemplateId) -> Result<Vec<Destination>, StoreError> {
        self.read(move |sql| {
            refuse_unknown_template(sql, &project, &id)?;
            sql.prepare_cached(&format!("{SELECT} ORDER BY d.created_at DESC, d.id DESC"))
                .and_then(|mut s| {
                    let rows = s.query_map([project.as_str(), id.as_str()], stored)?;
                    rows.map(|row| row.map(|stored| stored.shown)).collect()
                })
                .or_store_error()
        })
        .await
    }

    /// One destination.
    ///
    /// # Errors
    /// Refused when there is no such template or destination.
    pub async fn destination(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: DestinationName,
    ) -> Result<Destination, StoreError> {
        self.read(move |sql| existing(sql, &project, &id, &name).map(|stored| stored.shown)).await
    }

    /// Replaces a destination's configuration; credentials left out are kept.
    ///
    /// # Errors
    /// Refused when there is no such template or destination, it is of another kind, a credential is neither sent nor
    /// stored, the plan does not include what it is for, the deployment has no encryption key, or what is to be kept
    /// cannot be opened.
    pub async fn update_destination(&self, write: NewDestination) -> Result<Destination, StoreError> {
        self.write(move |tx| {
            let find = || existing(tx.sql, &write.project_id, &write.template_id, &write.name);
            let config = changed(tx, &find()?, &write)?;
            update(tx, &write, &config)?;
            Ok(find()?.shown)
        })
        .await
    }

    /// Deletes a destination.
    ///
    /// # Errors
    /// Refused when there is no such template or destination.
    pub async fn delete_destination(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: DestinationName,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let found = existing(tx.sql, &project, &id, &name)?;
            refuse_if_in_use(tx.sql, &found.shown.id)?;
            tx.sql
                .execute(
                    "DELETE FROM destinations WHERE id = ?1
                     AND template_id = (SELECT id FROM templates WHERE project_id = ?2 AND id = ?3)",
                    [found.shown.id.as_str(), project.as_str(), id.as_str()],
                )
                .or_store_error()?;
            Ok(())
        })
        .await
    }

    /// A destination with everything that is needed to send something there.
    ///
    /// # Errors
    /// Refused at `destination` when the template has none of this kind by that name, or as unusable when its
    /// credentials cannot be opened.
    pub async fn usable_destination(
        &self,
        project: ProjectId,
        id: TemplateId,
        name: DestinationName,
        kind: DestinationKind,
    ) -> Result<(DestinationId, DestinationConfig), StoreError> {
        let vault = std::sync::Arc::clone(self.vault());
        self.read(move |sql| {
            let found = one(sql, &project, &id, &name)?.filter(|stored| stored.shown.kind == kind);
            let found = found.ok_or_else(|| StoreError::Refused(not_found().at("destination")))?;
            Ok((found.shown.id.clone(), found.open(&vault)?))
        })
        .await
    }
}
