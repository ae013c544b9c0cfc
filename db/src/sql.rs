//! The handle through which every record reads and writes: four verbs, each with one SQL text, its arguments and a function that
//! reads a row.
//!
//! Texts number their parameters (`?1`) and keep to the SQL that SQLite and PostgreSQL share, so that another engine can stand
//! behind this handle. Statements are prepared once for each connection and cached by their text. The errors of the engine become
//! a [`StoreError`] here and nowhere else.

use std::cell::Cell;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, ToSql, params_from_iter};
use serde::de::DeserializeOwned;

use crate::StoreError;
use crate::values::{Column, Value};

/// A connection, with a transaction open on it.
#[derive(Clone, Copy)]
pub(crate) struct Sql<'c>(&'c Connection);

/// The current row of a query, whose columns are read by their names.
pub(crate) struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    /// The column after the one that was read last: most are read in their order.
    next: Cell<usize>,
}

impl<'c> Sql<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self(connection)
    }

    /// The connection itself, for what only SQLite has: its schema version and its backup.
    pub(crate) fn sqlite(self) -> &'c Connection {
        self.0
    }

    /// Texts hold no values, so a log with all of them gives nothing away.
    fn prepare(self, text: &str) -> Result<CachedStatement<'c>, StoreError> {
        log::trace!("{text}");
        Ok(self.0.prepare_cached(text)?)
    }

    /// Reads the first row; `None` when the query finds none.
    pub(crate) fn one<T>(
        self,
        text: &str,
        args: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.prepare(text)?;
        let mut rows = statement.query(params_from_iter(args))?;
        rows.next()?.map(|row| read(&Row::new(row))).transpose()
    }

    /// Reads the first column of a query that always gives a row, such as `SELECT EXISTS` or `SELECT count(*)`.
    pub(crate) fn value<T: Column>(self, text: &str, args: &[Value<'_>]) -> Result<T, StoreError> {
        self.one(text, args, |row| row.read(0))?.ok_or_else(no_row)
    }

    /// Reads every row, in the order of the query.
    pub(crate) fn many<T>(
        self,
        text: &str,
        args: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(text)?;
        let mut rows = statement.query(params_from_iter(args))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(&Row::new(row))?);
        }
        Ok(found)
    }

    /// Writes, and returns how many rows it wrote.
    pub(crate) fn change(self, text: &str, args: &[Value<'_>]) -> Result<usize, StoreError> {
        Ok(self.prepare(text)?.execute(params_from_iter(args))?)
    }

    /// Writes where the number of rows does not matter.
    pub(crate) fn put(self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        self.change(text, args).map(drop)
    }
}

/// The error for a row that must exist.
pub(crate) fn no_row() -> StoreError {
    StoreError::Fault("a query that must find a row found none".into())
}

impl<'r> Row<'r> {
    fn new(row: &'r rusqlite::Row<'r>) -> Self {
        Self { row, next: Cell::new(0) }
    }

    /// Reads the column of this name.
    pub(crate) fn get<T: Column>(&self, name: &str) -> Result<T, StoreError> {
        self.read(self.index(name)?)
    }

    /// Reads the column of this name, which holds JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let index = self.index(name)?;
        let text = self.value(index)?.text().ok_or_else(|| self.unreadable(index))?;
        serde_json::from_str(text).map_err(|_| self.unreadable(index))
    }

    fn index(&self, name: &str) -> Result<usize, StoreError> {
        let columns = self.row.as_ref();
        let is_named = |index: &usize| columns.column_name(*index).is_ok_and(|found| found == name);
        let next = self.next.get();
        let index = (next..columns.column_count()).chain(0..next).find(is_named);
        let index = index.ok_or_else(|| StoreError::Fault(format!("a row has no column {name}")))?;
        self.next.set(index + 1);
        Ok(index)
    }

    fn read<T: Column>(&self, index: usize) -> Result<T, StoreError> {
        T::read(self.value(index)?).ok_or_else(|| self.unreadable(index))
    }

    fn value(&self, index: usize) -> Result<Value<'_>, StoreError> {
        Ok(match self.row.get_ref(index)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Blob(bytes) => Value::Bytes(bytes),
            text @ ValueRef::Text(_) => Value::Text(text.as_str().map_err(|_| self.unreadable(index))?),
            ValueRef::Real(_) => return Err(self.unreadable(index)),
        })
    }

    /// The error for a column whose value is not one that this program writes.
    fn unreadable(&self, index: usize) -> StoreError {
        let name = self.row.as_ref().column_name(index).unwrap_or("unknown");
        StoreError::Fault(format!("the column {index} ({name}) of a row holds a value that cannot be read"))
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Uuid(uuid) => ValueRef::Blob(uuid.as_bytes()),
        }))
    }
}

impl From<rusqlite::Error> for StoreError {
    /// Distinguishes what time or an operator can cure from a fault.
    fn from(error: rusqlite::Error) -> Self {
        let curable = matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OutOfMemory
            )
        );
        if curable { Self::Unavailable(error.to_string()) } else { Self::Fault(error.to_string()) }
    }
}
