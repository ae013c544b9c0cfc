//! All of a project's records as JSON, page by page, for `conclave export`.
//!
//! Columns are listed, so that a secret or a hash of one is never exported because its table has been. Pages follow the primary key: an
//! export reads each table once, whatever its size, and holds one page in memory. The export is no snapshot: rows that a server writes
//! meanwhile may or may not be in it.

use conclave_model::{ProjectId, Timestamp};
use serde_json::{Map, Value as Json};
use uuid::Uuid;

use crate::database::Database;
use crate::error::StoreError;
use crate::sql::Row;
use crate::sql::values::Value;
use crate::tables::Cell;

/// Rows per page.
const PAGE: u32 = 1_000;

/// Exported table.
pub(crate) struct ExportedTable {
    pub(crate) name: &'static str,
    /// Columns, first the primary key's.
    pub(crate) columns: &'static [&'static str],
    /// Number of columns in the primary key.
    key: usize,
    /// Condition for the project `?1`. An expression rather than a column, so that the planner follows the primary key.
    condition: &'static str,
}

const OF_PROJECT: &str = "project_id || '' = ?1";
const OF_TEMPLATE: &str =
    "EXISTS (SELECT 1 FROM templates t WHERE t.id = template_id AND t.project_id = ?1)";

/// Columns with JSON, which is exported as such.
const JSON_COLUMNS: [&str; 8] = [
    "auto_record",
    "body",
    "config",
    "events",
    "metadata",
    "payload",
    "summary",
    "urls",
];
/// Columns with a time whose names do not end in `_at`.
const TIME_COLUMNS: [&str; 3] = ["failing_since", "tokens_minted_until", "until"];

/// Creates a table's description.
const fn table(
    name: &'static str,
    key: usize,
    condition: &'static str,
    columns: &'static [&'static str],
) -> ExportedTable {
    ExportedTable {
        name,
        columns,
        key,
        condition,
    }
}

#[rustfmt::skip]
pub(crate) static TABLES: [ExportedTable; 19] = [
    table("projects", 1, "id = ?1", &[
        "id", "name", "env", "plan", "status", "default_template_id", "balance_ugx", "created_at",
    ]),
    table("api_keys", 1, OF_PROJECT, &[
        "prefix", "label", "created_at", "revoked_at", "expires_at", "last_used_on",
    ]),
    table("templates", 1, OF_PROJECT, &["id", "name", "region", "auto_record", "max_duration_seconds", "created_at", "updated_at"]),
    table("roles", 2, OF_TEMPLATE, &["template_id", "name", "body"]),
    table("destinations", 1, OF_TEMPLATE, &[
        "id", "template_id", "name", "kind", "config", "created_at", "updated_at",
    ]),
    table("rooms", 1, OF_PROJECT, &[
        "id", "name", "max_participants", "empty_timeout_seconds", "metadata", "status", "template_id", "auto_record", "max_duration_seconds",
        "created_at",        "started_at", "ended_at",
    ]),
    table("codes", 1, OF_PROJECT, &[
        "id", "room", "role", "prefix", "identity", "expires_at", "max_uses", "uses", "disabled", "created_at", "updated_at",
    ]),
    table("sessions", 1, OF_PROJECT, &[
        "id", "room", "participant_identity", "participant_sid", "kind", "role", "joined_at", "left_at",
    ]),
    table("tracks", 2, "EXISTS (SELECT 1 FROM sessions s WHERE s.id = session_id AND s.project_id = ?1)", &[
        "session_id", "track_sid", "kind", "source", "muted", "started_at", "ended_at",
    ]),
    table("role_changes", 1, OF_PROJECT, &[
        "id", "room", "participant_identity", "participant_sid", "role", "previous_role", "changed_by_identity",
        "changed_by_api_key_prefix", "created_at",
    ]),
    table("bans", 1, OF_PROJECT, &["id", "room", "participant_identity", "until", "reason", "created_at", "updated_at"]),
    table("revocations", 1, OF_PROJECT, &["id", "room", "participant_identity", "tokens_minted_until"]),
    table("session_quality", 1, OF_PROJECT, &["session_id", "day", "score", "summary"]),
    table("egresses", 1, OF_PROJECT, &[
        "id", "room", "egress_id", "kind", "recording_type", "source_identity", "source_track", "filepath", "urls", "destination",
        "destination_id", "status", "error", "paused", "started_at", "ended_at", "file_removed_at", "created_at",
    ]),
    table("ingresses", 1, OF_PROJECT, &[
        "id", "room", "ingress_id", "input_type", "participant_identity", "participant_name", "url", "status", "error", "created_at",
        "updated_at", "deleted_at",
    ]),
    table("webhook_endpoints", 1, OF_PROJECT, &[
        "id", "url", "active", "enabled", "events", "description", "failing_since", "disabled_at", "disabled_reason", "created_at",
    ]),
    table("events", 1, "project_id = ?1", &["id", "room", "type", "identity", "payload", "created_at"]),
    table("webhook_deliveries", 1, OF_PROJECT, &[
        "seq", "id", "endpoint_id", "endpoint_url", "event_id", "event_type", "status", "attempts", "next_attempt_at", "delivered_at",
        "created_at", "last_error", "response_status",
    ]),
    table("usage_days", 1, "project_id = ?1", &["day", "participant_ms", "sessions"]),
];

/// Position in an export.
#[derive(Debug, Clone, Default)]
pub struct ExportPosition {
    table: usize,
    /// Primary key of the last row; empty at the start of a table.
    after: Vec<Cell>,
}

/// Rows of one table.
#[derive(Debug)]
pub struct ExportPage {
    /// Table name.
    pub table: &'static str,
    /// Rows as JSON objects, without columns that are NULL.
    pub rows: Vec<Map<String, Json>>,
    /// Position of the next page; `None` at the end.
    pub next: Option<ExportPosition>,
}

/// Converts a key's value for a condition.
fn key_value(cell: &Cell) -> Value<'_> {
    match cell {
        // The only binary keys are UUIDs.
        Cell::Bytes(bytes) => Uuid::from_slice(bytes).map_or(Value::Null, Value::Uuid),
        other => other.into(),
    }
}

/// Converts a column's value; `None` for NULL.
fn json(column: &str, cell: &Cell) -> Option<Json> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Integer(millis) if column.ends_with("_at") || TIME_COLUMNS.contains(&column) => {
            Timestamp::from_millis(*millis).to_string().into()
        }
        Cell::Integer(number) => (*number).into(),
        Cell::Text(text) if JSON_COLUMNS.contains(&column) => {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        }
        Cell::Text(text) => text.as_str().into(),
        Cell::Bytes(bytes) => Uuid::from_slice(bytes).ok()?.to_string().into(),
    })
}

/// Export of a project's records.
#[derive(Debug, Clone)]
pub struct Exports(pub(crate) Database);

impl Exports {
    /// Reads up to 1,000 rows of a table, from a position on.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn page(
        &self,
        project: ProjectId,
        position: ExportPosition,
    ) -> Result<Option<ExportPage>, StoreError> {
        let Some(table) = TABLES.get(position.table) else {
            return Ok(None);
        };
        let rows = self
            .0
            .bulk_read(move |sql| {
                let mut arguments = vec![Value::from(&project)];
                arguments.extend(position.after.iter().map(key_value));
                let key = table.columns[..table.key].join(", ");
                let after = match position.after.len() {
                    0 => String::new(),
                    1 => format!(" AND {key} > ?2"),
                    _ => format!(" AND ({key}) > (?2, ?3)"),
                };
                let query = format!(
                    "SELECT {} FROM {} WHERE {}{after} ORDER BY {key} LIMIT {PAGE}",
                    table.columns.join(", "),
                    table.name,
                    table.condition,
                );
                let read = |row: &Row<'_>| Cell::read_row(row, table.columns.len());
                sql.many(&query, &arguments, read)
            })
            .await?;
        let next = match rows.last() {
            Some(last) if rows.len() == PAGE as usize => ExportPosition {
                table: position.table,
                after: last[..table.key].to_vec(),
            },
            _ => ExportPosition {
                table: position.table + 1,
                after: Vec::new(),
            },
        };
        let object = |row: &Vec<Cell>| {
            let fields = table.columns.iter().zip(row);
            fields
                .filter_map(|(column, cell)| Some(((*column).to_owned(), json(column, cell)?)))
                .collect()
        };
        Ok(Some(ExportPage {
            table: table.name,
            rows: rows.iter().map(object).collect(),
            next: Some(next).filter(|next| next.table < TABLES.len()),
        }))
    }
}
