//! `conclave key …`: API keys. A new key is printed once, on stdout; the database contains only its hash.

use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use conclave_model::ProjectId;
use conclave_model::key::{ApiKey, ApiKeyPrefix, ApiKeyRecord};
use serde::Serialize;

use super::output;
use super::output::{OutputFormat, parse_text, print, print_json};
use super::projects::{existing_project, parse_project_id};
use super::store::with_store;
use crate::config::Config;
use crate::error::CliError;

/// Commands for API keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key and print it. It is not shown again.
    Create {
        /// Project id, `prj_…`.
        project: String,
        /// Note of up to 200 characters.
        #[arg(long, default_value = "", hide_default_value = true, value_parser = parse_text::<0, 200>)]
        label: String,
        /// Time after which the key is refused, such as 90d [default: never].
        #[arg(long, value_name = "TIME", value_parser = parse_life)]
        expires: Option<Duration>,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List a project's keys, oldest first.
    List {
        /// Project id, `prj_…`.
        project: String,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Revoke a key. It stops working with the next request.
    Revoke {
        /// The key's first twelve characters.
        prefix: String,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// JSON output for a key.
#[derive(Serialize)]
struct KeyView<'a> {
    project_id: &'a ProjectId,
    prefix: &'a str,
    label: &'a str,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Day, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_on: Option<String>,
    /// Whole key, at creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> KeyView<'a> {
    fn new(record: &'a ApiKeyRecord, key: Option<&'a ApiKey>) -> Self {
        Self {
            project_id: &record.project_id,
            prefix: record.prefix.as_str(),
            label: &record.label,
            created_at: record.created_at.to_string(),
            revoked_at: record.revoked_at.map(|at| at.to_string()),
            expires_at: record.expires_at.map(|at| at.to_string()),
            last_used_on: record.last_used_on.map(|day| day.to_string()),
            key: key.map(ApiKey::reveal),
        }
    }
}

#[derive(Serialize)]
struct KeyList<'a> {
    keys: Vec<KeyView<'a>>,
}

/// Runs a command.
///
/// # Errors
/// If the project or the prefix is unknown, or the store failed.
pub(super) fn run(command: KeyCommand, config: &Config, data: &Path) -> Result<(), CliError> {
    match command {
        KeyCommand::Create {
            project,
            label,
            expires,
            format,
        } => {
            let id = parse_project_id(&project)?;
            let created = with_store(config, data, async |store| {
                let expires_at = expires.map(|life| store.clock().now().after(life));
                store.api_keys().create_until(id, label, expires_at).await
            })?;
            show(&created.record, Some(&created.key), format)
        }
        KeyCommand::List { project, format } => {
            list(config, data, &parse_project_id(&project)?, format)
        }
        // The database stores only the prefix and a hash, so a key is named by its prefix.
        KeyCommand::Revoke { prefix, format } => {
            let prefix = parse_prefix(&prefix)?;
            let revoked = with_store(config, data, async |store| {
                store.api_keys().revoke(prefix).await
            })?;
            show(&revoked, None, format)
        }
    }
}

/// Parses a prefix. Also accepts a whole key, such as a leaked one, and takes its prefix. Error messages never contain a whole key.
fn parse_prefix(text: &str) -> Result<ApiKeyPrefix, CliError> {
    let from_whole_key = text.parse().map(|key: ApiKey| key.prefix());
    from_whole_key.or_else(|_| text.parse()).map_err(|_| {
        // A mistyped key may be nearly a whole secret, which must not reach a log.
        let shown: String = text.chars().take(ApiKeyPrefix::LEN).collect();
        CliError::failed(format!(
            "no key with the prefix {shown:?}; prefixes are vk_live_ or vk_test_ and 4 characters"
        ))
    })
}

fn list(
    config: &Config,
    data: &Path,
    project: &ProjectId,
    format: OutputFormat,
) -> Result<(), CliError> {
    let keys = with_store(config, data, async |store| {
        // Otherwise a mistyped id would look like a project without keys.
        existing_project(store, project).await?;
        Ok::<_, CliError>(store.api_keys().list(project.clone()).await?)
    })?;
    if format.json {
        return print_json(&KeyList {
            keys: keys
                .iter()
                .map(|record| KeyView::new(record, None))
                .collect(),
        });
    }
    let rows: Vec<_> = keys.iter().map(row).collect();
    print(&output::table(
        &[
            "prefix",
            "label",
            "created_at",
            "revoked_at",
            "expires_at",
            "last_used_on",
        ],
        &rows,
    ))
}

fn row(record: &ApiKeyRecord) -> Vec<String> {
    // Never empty, so that scripts find the same columns in each line.
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    vec![
        record.prefix.to_string(),
        record.label.clone(),
        record.created_at.to_string(),
        or_dash(record.revoked_at.map(|at| at.to_string())),
        or_dash(record.expires_at.map(|at| at.to_string())),
        or_dash(record.last_used_on.map(|day| day.to_string())),
    ]
}

fn parse_life(text: &str) -> Result<Duration, String> {
    let life = humantime::parse_duration(text).ok();
    life.filter(|life| !life.is_zero())
        .ok_or_else(|| "must be a time such as 12h or 90d".to_owned())
}

fn show(record: &ApiKeyRecord, key: Option<&ApiKey>, format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        return print_json(&KeyView::new(record, key));
    }
    let mut fields = vec![
        ("project_id", record.project_id.to_string()),
        ("prefix", record.prefix.to_string()),
        ("label", record.label.clone()),
        ("created_at", record.created_at.to_string()),
    ];
    fields.extend(record.revoked_at.map(|at| ("revoked_at", at.to_string())));
    fields.extend(record.expires_at.map(|at| ("expires_at", at.to_string())));
    let last_used = record.last_used_on;
    fields.extend(last_used.map(|day| ("last_used_on", day.to_string())));
    fields.extend(key.map(|key| ("key", key.reveal().to_owned())));
    print(&output::fields(&fields))
}
