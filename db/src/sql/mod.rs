//! Handle through which all records read and write: a few methods, each with an SQL text, its arguments and a function that reads a row.
//!
//! Texts number their parameters (`?1`), and use only the SQL that SQLite and PostgreSQL share, so either engine can be behind this handle.
//! Statements are prepared once per connection, and cached by text. An engine's errors become a [`StoreError`] here and nowhere else.

pub(crate) mod postgres;
pub(crate) mod query_builder;
pub(crate) mod values;

use std::cell::Cell;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, ToSql, params_from_iter};
use serde::de::DeserializeOwned;

use crate::StoreError;
use crate::sql::values::{Column, Value};
use postgres::Session;

/// Connection with an open transaction.
#[derive(Clone, Copy)]
pub(crate) enum Sql<'c> {
    Sqlite(&'c Connection),
    Postgres(&'c Session),
}

impl Sql<'_> {
    /// Prepares several statements in one round trip to PostgreSQL, rather than each on first use.
    pub(crate) fn prepare(self, texts: &[&str]) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.prepare_all(texts),
        }
    }

    /// Reads the first row; `None` if there is none.
    pub(crate) fn one<T>(
        self,
        text: &str,
        args: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = prepare(connection, text)?;
                let mut rows = statement.query(params_from_iter(args))?;
                rows.next()?
                    .map(|row| read(&Row::from_sqlite(row)))
                    .transpose()
            }
            Self::Postgres(session) => session
                .query(text, args)?
                .first()
                .map(|row| read(&Row::from_postgres(row)))
                .transpose(),
        }
    }

    /// Reads the first column of a query that always returns a row, such as `SELECT EXISTS` or `SELECT count(*)`.
    pub(crate) fn value<T: Column>(self, text: &str, args: &[Value<'_>]) -> Result<T, StoreError> {
        self.one(text, args, |row| row.read(0))?.ok_or_else(no_row)
    }

    /// Reads all rows, in the query's order.
    pub(crate) fn many<T>(
        self,
        text: &str,
        args: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = prepare(connection, text)?;
                let mut rows = statement.query(params_from_iter(args))?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(read(&Row::from_sqlite(row))?);
                }
                Ok(found)
            }
            Self::Postgres(session) => session
                .query(text, args)?
                .iter()
                .map(|row| read(&Row::from_postgres(row)))
                .collect(),
        }
    }

    /// Runs a statement once per row of arguments, and returns the rows of each, in one round trip to PostgreSQL.
    pub(crate) fn each<'v, T>(
        self,
        text: &str,
        rows: impl IntoIterator<Item = impl AsRef<[Value<'v>]>>,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<Vec<T>>, StoreError> {
        match self {
            Self::Sqlite(_) => rows
                .into_iter()
                .map(|args| self.many(text, args.as_ref(), &read))
                .collect(),
            Self::Postgres(session) => {
                let read = |rows: &Vec<_>| {
                    rows.iter()
                        .map(|row| read(&Row::from_postgres(row)))
                        .collect()
                };
                session.each(text, rows)?.iter().map(read).collect()
            }
        }
    }

    /// Reads the first row of a query, if there is one, and all rows of another, in one round trip to PostgreSQL.
    pub(crate) fn one_and_many<A, B>(
        self,
        one: (&str, &[Value<'_>]),
        read_one: impl FnOnce(&Row<'_>) -> Result<A, StoreError>,
        many: (&str, &[Value<'_>]),
        read_many: impl Fn(&Row<'_>) -> Result<B, StoreError>,
    ) -> Result<(Option<A>, Vec<B>), StoreError> {
        match self {
            Self::Sqlite(_) => Ok((
                self.one(one.0, one.1, read_one)?,
                self.many(many.0, many.1, read_many)?,
            )),
            Self::Postgres(session) => {
                let (one, many) = session.query_and_each(one, many.0, [many.1])?;
                let one: Option<Result<A, StoreError>> =
                    one.first().map(|row| read_one(&Row::from_postgres(row)));
                let many: Result<Vec<B>, StoreError> = many
                    .iter()
                    .flatten()
                    .map(|row| read_many(&Row::from_postgres(row)))
                    .collect();
                Ok((one.transpose()?, many?))
            }
        }
    }

    /// Reads all rows of a query, and runs a statement once per row of arguments, in one round trip to PostgreSQL. Returns the query's rows,
    /// and the rows of each.
    pub(crate) fn many_and_each<'v, A, B>(
        self,
        many: (&str, &[Value<'_>]),
        read_many: impl Fn(&Row<'_>) -> Result<A, StoreError>,
        each: &str,
        rows: impl IntoIterator<Item = impl AsRef<[Value<'v>]>>,
        read_each: impl Fn(&Row<'_>) -> Result<B, StoreError>,
    ) -> Result<(Vec<A>, Vec<Vec<B>>), StoreError> {
        match self {
            Self::Sqlite(_) => Ok((
                self.many(many.0, many.1, read_many)?,
                self.each(each, rows, read_each)?,
            )),
            Self::Postgres(session) => {
                let (many, each) = session.query_and_each(many, each, rows)?;
                let many: Result<Vec<A>, StoreError> = many
                    .iter()
                    .map(|row| read_many(&Row::from_postgres(row)))
                    .collect();
                let read = |rows: &Vec<_>| {
                    rows.iter()
                        .map(|row| read_each(&Row::from_postgres(row)))
                        .collect()
                };
                let each: Result<Vec<Vec<B>>, StoreError> = each.iter().map(read).collect();
                Ok((many?, each?))
            }
        }
    }

    /// Writes, and returns the row count.
    pub(crate) fn change(self, text: &str, args: &[Value<'_>]) -> Result<usize, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                Ok(prepare(connection, text)?.execute(params_from_iter(args))?)
            }
            // Waits for the reply, which has the row count.
            Self::Postgres(session) => session.change(text, args),
        }
    }

    /// Writes, where the row count does not matter, without waiting for PostgreSQL: an error is returned by the next method that
    /// waits, or by the commit.
    pub(crate) fn put(self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        match self {
            // SQLite has nothing to wait for.
            Self::Sqlite(_) => self.change(text, args).map(drop),
            Self::Postgres(session) => session.put(text, args),
        }
    }
}

/// Returns the error for a missing row that must exist.
pub(crate) fn no_row() -> StoreError {
    StoreError::Fault("a query that must find a row found none".into())
}

/// Result row, with columns by name.
pub(crate) struct Row<'r> {
    row: EngineRow<'r>,
    /// Index after the column that was read last, since most are read in order.
    next: Cell<usize>,
}

/// Engine row.
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
                // Invalid UTF-8 is unreadable. PostgreSQL would not store it.
                text @ ValueRef::Text(_) => text.as_str().ok().map(Value::Text),
                // No column of the schema is REAL.
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

    /// Reads the column with this name.
    pub(crate) fn get<T: Column>(&self, name: &str) -> Result<T, StoreError> {
        self.read(self.index(name)?)
    }

    /// Reads the column with this name, which contains JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let index = self.index(name)?;
        let text = self
            .row
            .value(index)
            .and_then(Value::text)
            .ok_or_else(|| self.unreadable(index))?;
        // The cause is dropped, since it may quote a secret.
        serde_json::from_str(text).map_err(|_| self.unreadable(index))
    }

    fn index(&self, name: &str) -> Result<usize, StoreError> {
        let is_named = |index: &usize| self.row.name(*index).is_some_and(|found| found == name);
        // Starts after the last column read, so that a row read in order needs one comparison per column.
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

    /// Returns the error for a column with a value that this program does not write.
    fn unreadable(&self, index: usize) -> StoreError {
        let name = self.row.name(index).unwrap_or("unknown");
        StoreError::Fault(format!(
            "the column {index} ({name}) of a row holds a value that cannot be read"
        ))
    }
}

/// Prepares a statement. Texts contain no values, so the trace log reveals none.
pub(super) fn prepare<'c>(
    connection: &'c Connection,
    text: &str,
) -> Result<CachedStatement<'c>, StoreError> {
    log::trace!("{text}");
    Ok(connection.prepare_cached(text)?)
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
    /// Distinguishes errors that may go away, by themselves or through an operator, from faults.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // Only the authorizer for damaged tables denies statements.
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                return Self::Damaged(
                    "a damaged table is not changed, and not read for a change".into(),
                );
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                return Self::Damaged(error.to_string());
            }
            _ => {}
        }
        // Conditions that end by themselves or that an operator ends. Everything else is a bug.
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
        if curable {
            Self::Unavailable(error.to_string())
        } else {
            Self::Fault(error.to_string())
        }
    }
}
