//! `conclave key …`. A new key is printed once, on stdout; only its hash is kept.

use std::path::Path;

use clap::Subcommand;
use conclave_db::Store;
use conclave_model::ProjectId;
use conclave_model::key::{ApiKey, ApiKeyPrefix, ApiKeyRecord};
use serde::Serialize;

use super::open::with_store;
use super::output::{bounded_text, json, print};
use super::projects::{Format, existing, project_id};
use super::{CliError, table};
use crate::config::Config;

/// What to do with API keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, this once.
    Create {
        /// The project's id, `prj_…`.
        project: String,
        /// A note for people, up to 200 characters.
        #[arg(long, default_value = "", hide_default_value = true, value_parser = bounded_text::<0, 200>)]
        label: String,
        /// How to answer.
        #[command(flatten)]
        format: Format,
    },
    /// List a project's keys, oldest first.
    List {
        /// The project's id, `prj_…`.
        project: String,
        /// How to answer.
        #[command(flatten)]
        format: Format,
    },
    /// Stop a key from working, from the next request on.
    Revoke {
        /// The key's first twelve characters.
        prefix: String,
        /// How to answer.
        #[command(flatten)]
        format: Format,
    },
}

/// A key, as `--json` shows it.
#[derive(Serialize)]
struct KeyView<'a> {
    project_id: &'a ProjectId,
    prefix: &'a str,
    label: &'a str,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    /// The whole key, at creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> KeyView<'a> {
    fn of(record: &'a ApiKeyRecord, key: Option<&'a ApiKey>) -> Self {
        Self {
            project_id: &record.project_id,
            prefix: record.prefix.as_str(),
            label: &record.label,
            created_at: record.created_at.to_string(),
            revoked_at: record.revoked_at.map(|at| at.to_string()),
            key: key.map(ApiKey::reveal),
        }
    }
}

#[derive(Serialize)]
struct KeyList<'a> {
    keys: Vec<KeyView<'a>>,
}

/// Runs one of the commands.
///
/// # Errors
/// An unknown id or prefix, or the store's own.
pub fn run(command: KeyCommand, config: &Config, data: &Path) -> Result<(), CliError> {
    match command {
        KeyCommand::Create { project, label, format } => {
            let id = project_id(&project)?;
            let create =
                async |store: &Store| store.create_api_key(id, label).await.map_err(|e| CliError::of_store(&e));
            let (record, key) = with_store(config, data, create)?;
            show(&record, Some(&key), format)
        }
        KeyCommand::List { project, format } => list(config, data, &project_id(&project)?, format),
        KeyCommand::Revoke { prefix, format } => {
            let prefix = prefix_of(&prefix)?;
            let revoke = async |store: &Store| store.revoke_api_key(prefix).await.map_err(|e| CliError::of_store(&e));
            show(&with_store(config, data, revoke)?, None, format)
        }
    }
}

/// Reads a prefix. A whole key is taken too, since that may be what leaked; no message repeats it.
fn prefix_of(text: &str) -> Result<ApiKeyPrefix, CliError> {
    let whole = text.parse().map(|key: ApiKey| key.prefix());
    whole.or_else(|_| text.parse()).map_err(|_| {
        let shown: String = text.chars().take(ApiKeyPrefix::LEN).collect();
        CliError::failed(format!(
            "no key with the prefix {shown:?}; prefixes are vk_live_ or vk_test_ and 4 characters"
        ))
    })
}

fn list(config: &Config, data: &Path, project: &ProjectId, format: Format) -> Result<(), CliError> {
    let keys = with_store(config, data, async |store| {
        existing(store, project).await?;
        store.api_keys(project.clone()).await.map_err(|e| CliError::of_store(&e))
    })?;
    if format.json {
        return json(&KeyList { keys: keys.iter().map(|record| KeyView::of(record, None)).collect() });
    }
    let rows: Vec<_> = keys.iter().map(row).collect();
    print(&table::table(&["prefix", "label", "created_at", "revoked_at"], &rows))
}

fn row(record: &ApiKeyRecord) -> Vec<String> {
    let revoked = record.revoked_at.map_or_else(|| "-".into(), |at| at.to_string());
    vec![record.prefix.to_string(), record.label.clone(), record.created_at.to_string(), revoked]
}

fn show(record: &ApiKeyRecord, key: Option<&ApiKey>, format: Format) -> Result<(), CliError> {
    if format.json {
        return json(&KeyView::of(record, key));
    }
    let mut fields = vec![
        ("project_id", record.project_id.to_string()),
        ("prefix", record.prefix.to_string()),
        ("label", record.label.clone()),
        ("created_at", record.created_at.to_string()),
    ];
    fields.extend(record.revoked_at.map(|at| ("revoked_at", at.to_string())));
    fields.extend(key.map(|key| ("key", key.reveal().to_owned())));
    print(&table::fields(&fields))
}
