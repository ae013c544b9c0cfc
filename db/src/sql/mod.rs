//! The handle through which every record reads and writes: a few verbs, each with one SQL text, its arguments and a function that
//! reads a row.
//!
//! Texts number their parameters (`?1`) and keep to the SQL that SQLite and PostgreSQL share, so that either engine can stand behind
//! this handle. Statements are prepared once for each connection and cached by their text. The errors of an engine become a
//! [`StoreError`] here and nowhere else.

pub(crate) mod postgres;
pub(crate) mod query_builder;
mod row;
mod sqlite;
pub(crate) mod values;

use rusqlite::{Connection, params_from_iter};

use crate::StoreError;
use crate::sql::values::{Column, Value};
use postgres::Session;
pub(crate) use row::Row;

/// A connection, with a transaction open on it.
#[derive(Clone, Copy)]
pub(crate) enum Sql<'c> {
    Sqlite(&'c Connection),
    Postgres(&'c Session),
}

impl Sql<'_> {
    /// Prepares statements that follow, together: one after the other, each would wait for PostgreSQL.
    pub(crate) fn prepare(self, texts: &[&str]) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.prepare_all(texts),
        }
    }

    /// Reads the first row; `None` when the query finds none.
    pub(crate) fn one<T>(
        self,
        text: &str,
        args: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = sqlite::prepare(connection, text)?;
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
        match self {
            Self::Sqlite(connection) => {
                let mut statement = sqlite::prepare(connection, text)?;
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

    /// Runs a statement once for each row of arguments, and returns the rows of each. PostgreSQL answers all of them together.
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

    /// Writes, and returns how many rows it wrote.
    pub(crate) fn change(self, text: &str, args: &[Value<'_>]) -> Result<usize, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                Ok(sqlite::prepare(connection, text)?.execute(params_from_iter(args))?)
            }
            Self::Postgres(session) => session.change(text, args),
        }
    }

    /// Writes where the number of rows does not matter. PostgreSQL is not waited for: an error is one of the next verb, or of the
    /// commit.
    pub(crate) fn put(self, text: &str, args: &[Value<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => self.change(text, args).map(drop),
            Self::Postgres(session) => session.put(text, args),
        }
    }
}

/// The error for a row that must exist.
pub(crate) fn no_row() -> StoreError {
    StoreError::Fault("a query that must find a row found none".into())
}
