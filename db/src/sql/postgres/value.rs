//! Values in PostgreSQL's binary form. A parameter is encoded as the type that its statement has for it, so that what the code binds
//! and what the statement takes cannot differ unnoticed.

use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use uuid::Uuid;

use crate::error::StoreError;
use crate::sql::values::Value;

type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// A parameter in its binary form; `None` is NULL. Its bytes are in no log: they may be a secret.
pub(super) struct Parameter(Option<Vec<u8>>);

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "(hidden)" } else { "NULL" })
    }
}

impl Parameter {
    /// Encodes a value for a parameter of a type.
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
            // The bytes of a UUID that was read as bytes.
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
        // It was encoded for its type.
        true
    }

    fn to_sql_checked(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        self.to_sql(of, out)
    }
}

/// A column as a value; booleans are integers, as SQLite has them.
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

/// Whether columns of a type can be read.
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
