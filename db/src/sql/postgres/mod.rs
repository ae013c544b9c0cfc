//! PostgreSQL client: a session, its settings, values and errors.

mod server;
mod session;

use std::error::Error as _;
use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::error::StoreError;
use crate::sql::values::Value;
pub use server::{PostgresServer, PostgresSettingsError};
pub(crate) use session::{CommitError, Session};

/// Reads a column; `None` for a type that no record uses.
pub(super) fn column(row: &Row, index: usize) -> Option<Value<'_>> {
    row.try_get::<_, ColumnValue<'_>>(index)
        .ok()
        .map(|ColumnValue(value)| value)
}

/// Returns a column's name.
pub(super) fn column_name(row: &Row, index: usize) -> Option<&str> {
    row.columns().get(index).map(tokio_postgres::Column::name)
}

/// Converts an error: to `Unavailable` if it may go away by itself, after a retry or with an operator's help, and to `Fault` otherwise. The
/// text omits PostgreSQL's details, which may contain a row's values.
pub(super) fn store_error(error: &Error) -> StoreError {
    let Some(found) = error.as_db_error() else {
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        let text = format!("PostgreSQL: {error}{cause}");
        // If this program encoded or read a value wrongly, that is a fault. All other client errors concern the connection.
        // The client library has no public error kinds, so its texts are compared.
        let is_fault = [
            "error serializing",
            "error deserializing",
            "expected ",
            "invalid column",
        ];
        let is_fault = is_fault
            .iter()
            .any(|start| error.to_string().starts_with(start));
        return if is_fault {
            StoreError::Fault(text)
        } else {
            StoreError::Unavailable(text)
        };
    };
    let text = format!("PostgreSQL: {} ({})", found.message(), found.code().code());
    if is_curable(found.code()) {
        StoreError::Unavailable(text)
    } else {
        StoreError::Fault(text)
    }
}

/// Returns whether the server has refused a statement as a protocol violation.
pub(crate) fn is_protocol_violation(error: &StoreError) -> bool {
    let code = format!("({})", SqlState::PROTOCOL_VIOLATION.code());
    matches!(error, StoreError::Unavailable(text) | StoreError::Fault(text) if text.ends_with(&code))
}

fn is_curable(code: &SqlState) -> bool {
    let exact = [
        // Caused by a concurrent transaction, such as a command's: a retry finds its rows.
        SqlState::UNIQUE_VIOLATION,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        // The primary has become a standby.
        SqlState::READ_ONLY_SQL_TRANSACTION,
        // The process was stopped inside a transaction, and the server has ended it.
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        // Mistakes in the configuration, which an operator can correct while the server retries.
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    // Classes: connection, authorization, insufficient resources such as disk space, operator intervention, system error.
    let classes = ["08", "28", "53", "57", "58"];
    exact.contains(code) || classes.iter().any(|class| code.code().starts_with(class))
}

type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// Parameter in binary form; `None` is NULL. `Debug` hides the bytes, which may be a secret.
pub(super) struct Parameter(Option<Vec<u8>>);

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "(hidden)" } else { "NULL" })
    }
}

impl Parameter {
    /// Encodes a value for a parameter's type.
    pub(super) fn new(value: Value<'_>, of: &Type) -> Result<Self, StoreError> {
        let bytes = match (value, of) {
            (Value::Null, _) => return Ok(Self(None)),
            (Value::Integer(number), &Type::INT8) => number.to_be_bytes().to_vec(),
            (Value::Integer(number), &Type::INT4) => i32::try_from(number)
                .map_err(|_| mismatch(value, of))?
                .to_be_bytes()
                .to_vec(),
            (Value::Text(text), &Type::TEXT) => text.as_bytes().to_vec(),
            (Value::Bytes(bytes), &Type::BYTEA) => bytes.to_vec(),
            // A UUID that was read as bytes, such as by an import.
            (Value::Bytes(bytes), &Type::UUID) => Uuid::from_slice(bytes)
                .map_err(|_| mismatch(value, of))?
                .into(),
            (Value::Uuid(uuid), &Type::UUID) => uuid.into(),
            _ => return Err(mismatch(value, of)),
        };
        Ok(Self(Some(bytes)))
    }
}

fn mismatch(value: Value<'_>, of: &Type) -> StoreError {
    let kind = match value {
        Value::Null => "NULL",
        Value::Integer(_) => "an integer",
        Value::Text(_) => "a text",
        Value::Bytes(_) => "bytes",
        Value::Uuid(_) => "a UUID",
    };
    StoreError::Fault(format!("{kind} was given for a parameter of the type {of}"))
}

impl ToSql for Parameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match &self.0 {
            Some(bytes) => {
                out.put_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        // The value is already encoded for its type.
        true
    }

    fn to_sql_checked(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        self.to_sql(of, out)
    }
}

/// Column as a value. Booleans are integers, as in SQLite.
pub(super) struct ColumnValue<'a>(pub(super) Value<'a>);

impl<'a> FromSql<'a> for ColumnValue<'a> {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        Ok(Self(match *of {
            Type::INT8 => Value::Integer(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => Value::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => Value::Integer(bool::from_sql(of, raw)?.into()),
            Type::TEXT => Value::Text(std::str::from_utf8(raw)?),
            Type::BYTEA => Value::Bytes(raw),
            Type::UUID => Value::Uuid(Uuid::from_slice(raw)?),
            _ => return Err(format!("the type {of} is not read").into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self(Value::Null))
    }

    fn accepts(of: &Type) -> bool {
        is_read(of)
    }
}

/// Returns whether columns of a type can be read.
pub(super) fn is_read(of: &Type) -> bool {
    [
        Type::INT8,
        Type::INT4,
        Type::BOOL,
        Type::TEXT,
        Type::BYTEA,
        Type::UUID,
    ]
    .contains(of)
}
