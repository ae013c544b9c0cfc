//! The current row of a query, whose columns are read by their names.

use std::cell::Cell;

use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use super::postgres;
use crate::StoreError;
use crate::sql::values::{Column, Value};

/// A row of a result, read by the names of its columns.
pub(crate) struct Row<'r> {
    row: EngineRow<'r>,
    /// The column after the one that was read last: most are read in their order.
    next: Cell<usize>,
}

/// A row as an engine has it.
#[derive(Clone, Copy)]
enum EngineRow<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl<'r> EngineRow<'r> {
    fn len(self) -> usize {
        match self {
            Self::Sqlite(row) => row.as_ref().column_count(),
            Self::Postgres(row) => row.len(),
        }
    }

    fn name(self, index: usize) -> Option<&'r str> {
        match self {
            Self::Sqlite(row) => row.as_ref().column_name(index).ok(),
            Self::Postgres(row) => postgres::column_name(row, index),
        }
    }

    fn value(self, index: usize) -> Option<Value<'r>> {
        match self {
            Self::Sqlite(row) => match row.get_ref(index).ok()? {
                ValueRef::Null => Some(Value::Null),
                ValueRef::Integer(number) => Some(Value::Integer(number)),
                ValueRef::Blob(bytes) => Some(Value::Bytes(bytes)),
                text @ ValueRef::Text(_) => text.as_str().ok().map(Value::Text),
                ValueRef::Real(_) => None,
            },
            Self::Postgres(row) => postgres::column(row, index),
        }
    }
}

impl<'r> Row<'r> {
    pub(super) fn from_sqlite(row: &'r rusqlite::Row<'r>) -> Self {
        Self {
            row: EngineRow::Sqlite(row),
            next: Cell::new(0),
        }
    }

    pub(super) fn from_postgres(row: &'r tokio_postgres::Row) -> Self {
        Self {
            row: EngineRow::Postgres(row),
            next: Cell::new(0),
        }
    }

    /// Reads the column of this name.
    pub(crate) fn get<T: Column>(&self, name: &str) -> Result<T, StoreError> {
        self.read(self.index(name)?)
    }

    /// Reads the column of this name, which holds JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let index = self.index(name)?;
        let text = self
            .row
            .value(index)
            .and_then(Value::text)
            .ok_or_else(|| self.unreadable(index))?;
        serde_json::from_str(text).map_err(|_| self.unreadable(index))
    }

    fn index(&self, name: &str) -> Result<usize, StoreError> {
        let is_named = |index: &usize| self.row.name(*index).is_some_and(|found| found == name);
        let next = self.next.get();
        let index = (next..self.row.len()).chain(0..next).find(is_named);
        let index =
            index.ok_or_else(|| StoreError::Fault(format!("a row has no column {name}")))?;
        self.next.set(index + 1);
        Ok(index)
    }

    /// Reads the column at an index.
    pub(crate) fn read<T: Column>(&self, index: usize) -> Result<T, StoreError> {
        self.row
            .value(index)
            .and_then(T::read)
            .ok_or_else(|| self.unreadable(index))
    }

    /// The error for a column whose value is not one that this program writes.
    fn unreadable(&self, index: usize) -> StoreError {
        let name = self.row.name(index).unwrap_or("unknown");
        StoreError::Fault(format!(
            "the column {index} ({name}) of a row holds a value that cannot be read"
        ))
    }
}
