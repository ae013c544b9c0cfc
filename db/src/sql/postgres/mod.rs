//! The client of PostgreSQL: a session, its settings and its values.

mod error;
mod server;
mod session;
mod value;

use tokio_postgres::Row;

use crate::sql::values::Value;
pub(crate) use error::is_protocol_violation;
pub use server::{PostgresServer, PostgresSettingsError};
pub(crate) use session::{CommitError, Session};
use value::ColumnValue;

/// Reads a column; `None` for a type that no record has.
pub(super) fn column(row: &Row, index: usize) -> Option<Value<'_>> {
    row.try_get::<_, ColumnValue<'_>>(index)
        .ok()
        .map(|ColumnValue(value)| value)
}

/// The name of a column.
pub(super) fn column_name(row: &Row, index: usize) -> Option<&str> {
    row.columns().get(index).map(tokio_postgres::Column::name)
}
