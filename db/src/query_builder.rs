//! Filtered, paged lists: the conditions that were asked for, and the page they give.

use conclave_model::ProjectId;
use conclave_model::page::{Page, PageRequest};
use rusqlite::{Connection, Row, ToSql};

use crate::StoreError;
use crate::error::OrStoreError;

/// QueryBuilder and their values, so that only what is asked for is in the statement and indexes can serve it.
pub(crate) struct QueryBuilder {
    text: String,
    values: Vec<Box<dyn ToSql>>,
}

impl QueryBuilder {
    /// The one condition every list has.
    pub(crate) fn of_project(column: &str, project: &ProjectId) -> Self {
        Self { text: format!("{column} = ?"), values: vec![Box::new(project.as_str().to_owned())] }
    }

    /// Adds `condition`, which holds one `?`, when there is a value for it.
    pub(crate) fn and(&mut self, condition: &str, value: Option<impl ToSql + 'static>) {
        if let Some(value) = value {
            self.text.push_str(" AND ");
            self.text.push_str(condition);
            self.values.push(Box::new(value));
        }
    }

    /// Fetches one row more than the page holds.
    pub(crate) fn page<T>(
        mut self,
        sql: &Connection,
        select: &str,
        order: &str,
        page: PageRequest,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Page<T>, StoreError> {
        let query = format!("{select} WHERE {} ORDER BY {order} LIMIT ? OFFSET ?", self.text);
        self.values.push(Box::new(page.limit + 1));
        self.values.push(Box::new(page.offset.cast_signed()));
        let mut statement = sql.prepare_cached(&query).or_store_error()?;
        let values = rusqlite::params_from_iter(self.values);
        let rows = statement.query_map(values, read).and_then(Iterator::collect).or_store_error()?;
        Ok(Page::from_fetched(rows, page))
    }
}
