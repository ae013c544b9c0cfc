//! The queries of lists: only the filters that a caller asked for are in the text, so that indexes can serve them.

use std::fmt::Write as _;

use conclave_model::ProjectId;
use conclave_model::page::{Page, PageRequest};

use crate::StoreError;
use crate::sql::{Row, Sql};
use crate::values::Value;

/// A query of one project's rows, and its arguments.
pub(crate) struct QueryBuilder<'a> {
    text: String,
    args: Vec<Value<'a>>,
}

impl<'a> QueryBuilder<'a> {
    /// Starts with `select`, which has no `WHERE` yet, and the rows of one project.
    pub(crate) fn new(select: &str, project_column: &str, project: &'a ProjectId) -> Self {
        Self { text: format!("{select} WHERE {project_column} = ?1"), args: vec![project.into()] }
    }

    /// Adds a comparison such as `room =` when there is a value to compare with.
    pub(crate) fn and(mut self, comparison: &str, value: Option<impl Into<Value<'a>>>) -> Self {
        if let Some(value) = value {
            self.args.push(value.into());
            // Writing into a String cannot fail.
            let _ = write!(self.text, " AND {comparison} ?{}", self.args.len());
        }
        self
    }

    /// Adds a condition without a parameter, if there is one.
    pub(crate) fn and_condition(mut self, condition: Option<&str>) -> Self {
        if let Some(condition) = condition {
            self.text.push_str(" AND ");
            self.text.push_str(condition);
        }
        self
    }

    /// Runs the query for one page. Fetches one row more than the page holds, to know whether another page follows.
    pub(crate) fn page<T>(
        mut self,
        sql: Sql<'_>,
        order: &str,
        page: PageRequest,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        let next = self.args.len() + 1;
        let _ = write!(self.text, " ORDER BY {order} LIMIT ?{next} OFFSET ?{}", next + 1);
        self.args.extend([Value::from(page.limit + 1), Value::from(page.offset.cast_signed())]);
        Ok(Page::from_fetched(sql.many(&self.text, &self.args, read)?, page))
    }
}
