//! List queries, which contain only the requested filters, so that indexes can serve them.

use std::fmt::Write as _;

use conclave_model::ProjectId;
use conclave_model::page::{Page, PageRequest};

use crate::StoreError;
use crate::sql::values::Value;
use crate::sql::{Row, Sql};

/// Query for one project's rows, its arguments and its order.
pub(crate) struct QueryBuilder<'a> {
    text: String,
    args: Vec<Value<'a>>,
    order: &'static str,
}

impl<'a> QueryBuilder<'a> {
    /// Starts with `select`, without a `WHERE`, and a condition on the project's `column`. `order` is the text after `ORDER BY`.
    pub(crate) fn new(
        select: &str,
        column: &str,
        project: &'a ProjectId,
        order: &'static str,
    ) -> Self {
        Self {
            text: format!("{select} WHERE {column} = ?1"),
            args: vec![project.into()],
            order,
        }
    }

    /// Adds a comparison such as `room =` if there is a value.
    pub(crate) fn and(self, comparison: &str, value: Option<impl Into<Value<'a>>>) -> Self {
        self.and_around(comparison, "", value)
    }

    /// Adds the text around a value, such as a subquery's, if there is a value.
    pub(crate) fn and_around(
        mut self,
        before: &str,
        after: &str,
        value: Option<impl Into<Value<'a>>>,
    ) -> Self {
        if let Some(value) = value {
            // Values are parameters, never parts of the text.
            self.args.push(value.into());
            // Writing into a String cannot fail.
            let _ = write!(self.text, " AND {before} ?{}{after}", self.args.len());
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

    /// Runs the query for one page. Fetches one more row, to know whether another page follows.
    pub(crate) fn page<T>(
        self,
        sql: Sql<'_>,
        page: PageRequest,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        let (text, args) = self.window(page);
        Ok(Page::from_fetched(sql.many(&text, &args, read)?, page))
    }

    fn window(self, page: PageRequest) -> (String, Vec<Value<'a>>) {
        let Self {
            mut text,
            mut args,
            order,
        } = self;
        // After the parameters of the filters.
        let next = args.len() + 1;
        let _ = write!(text, " ORDER BY {order} LIMIT ?{next} OFFSET ?{}", next + 1);
        args.extend([
            // The extra row is dropped from the page, and only shows that there is more.
            Value::from(page.limit + 1),
            Value::from(page.offset.cast_signed()),
        ]);
        (text, args)
    }

    /// Returns the steps of the engine's query plan for a page.
    #[cfg(test)]
    pub(crate) fn plan(self, sql: Sql<'_>) -> Vec<String> {
        let (text, args) = self.window(PageRequest {
            limit: 1,
            offset: 0,
        });
        let (explain, column) = match sql {
            Sql::Sqlite(_) => ("EXPLAIN QUERY PLAN", "detail"),
            Sql::Postgres(_) => ("EXPLAIN", "QUERY PLAN"),
        };
        sql.many(&format!("{explain} {text}"), &args, |row| row.get(column))
            .unwrap()
    }
}
