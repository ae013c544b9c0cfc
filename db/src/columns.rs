//! Reading columns into typed values. A row that does not read is a fault of the file, reported with its column.

use std::str::FromStr;

use conclave_model::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};

pub(crate) trait Columns {
    /// A text column that parses.
    fn parsed<T: FromStr>(&self, index: usize) -> Result<T>;
    /// A text column that parses, or null.
    fn parsed_opt<T: FromStr>(&self, index: usize) -> Result<Option<T>>;
    /// A word that `read` knows.
    fn word<T>(&self, index: usize, read: fn(&str) -> Option<T>) -> Result<T>;
    /// An instant.
    fn time(&self, index: usize) -> Result<Timestamp>;
    /// An instant, or null.
    fn time_opt(&self, index: usize) -> Result<Option<Timestamp>>;
}

fn unreadable(index: usize, what: &str) -> Error {
    Error::FromSqlConversionFailure(index, Type::Text, format!("does not read: {what}").into())
}

impl Columns for Row<'_> {
    fn parsed<T: FromStr>(&self, index: usize) -> Result<T> {
        let text = self.get_ref(index)?.as_str()?;
        text.parse().map_err(|_| unreadable(index, text))
    }

    fn parsed_opt<T: FromStr>(&self, index: usize) -> Result<Option<T>> {
        match self.get_ref(index)?.as_str_or_null()? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| unreadable(index, text)),
        }
    }

    fn word<T>(&self, index: usize, read: fn(&str) -> Option<T>) -> Result<T> {
        let text = self.get_ref(index)?.as_str()?;
        read(text).ok_or_else(|| unreadable(index, text))
    }

    fn time(&self, index: usize) -> Result<Timestamp> {
        self.get(index).map(Timestamp::from_millis)
    }

    fn time_opt(&self, index: usize) -> Result<Option<Timestamp>> {
        Ok(self.get::<_, Option<i64>>(index)?.map(Timestamp::from_millis))
    }
}
