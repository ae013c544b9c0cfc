//! Whole-table writes into an empty database, in one transaction, for `conclave import`.

use super::health::{check_server, refuse_pooler};
use super::migrate;
use crate::error::{ImportError, StoreError};
use crate::sql::Sql;
use crate::sql::postgres::{CommitError, PostgresServer, Session};
use crate::sql::values::{Value, args};
use crate::tables::{Cell, TABLES};

/// Rows fetched at once.
const FETCH: usize = 1_000;

/// Projects and templates refer to each other, so one of the foreign keys is checked only after both
/// tables are written.
const DROP_KEY: &str = "ALTER TABLE projects DROP CONSTRAINT projects_default_template_id_fkey";
const ADD_KEY: &str = "ALTER TABLE projects ADD CONSTRAINT projects_default_template_id_fkey
     FOREIGN KEY (default_template_id) REFERENCES templates (id)";
/// Locks the row that every server's write reads, so that no write can start.
const EPOCH: &str = "SELECT epoch FROM leadership WHERE id = 1 FOR UPDATE";

/// Transaction that copies records into a database. If it is dropped without a commit, the database is
/// unchanged.
pub(crate) struct Import {
    session: Session,
}

impl Import {
    /// Starts the transaction, and creates the schema if it is missing.
    pub(crate) fn begin(server: &PostgresServer) -> Result<Self, ImportError> {
        refuse_pooler(server)?;
        let session = Session::connect(server, migrate::STATEMENT_LIMIT)?;
        check_server(&session)?;
        // The file is read between two statements, which may take longer than the usual timeout of
        // 2 s.
        session.batch("SET idle_in_transaction_session_timeout = 0; BEGIN")?;
        // In the same transaction, so a failed import leaves no tables.
        migrate::apply(&session)?;
        let import = Self { session };
        // Deferred constraints would need a change of the schema for every server.
        import.session.batch(DROP_KEY)?;
        import.refuse_records()?;
        Ok(import)
    }

    fn sql(&self) -> Sql<'_> {
        Sql::Postgres(&self.session)
    }

    fn refuse_records(&self) -> Result<(), ImportError> {
        if self.sql().value::<i64>(EPOCH, &[])? > 0 {
            return Err(ImportError::NotEmpty("a server has used it".into()));
        }
        for table in TABLES {
            if self
                .sql()
                .value(&format!("SELECT EXISTS (SELECT 1 FROM {table})"), &[])?
            {
                return Err(ImportError::NotEmpty(format!("{table} has rows")));
            }
        }
        Ok(())
    }

    /// Writes rows, and waits once for all of them.
    pub(crate) fn insert(
        &self,
        table: &str,
        columns: &[String],
        rows: &[Vec<Cell>],
    ) -> Result<(), StoreError> {
        let parameters: Vec<_> = (1..=columns.len())
            .map(|number| format!("?{number}"))
            .collect();
        let text = format!(
            "INSERT INTO {table} ({}) VALUES ({})",
            columns.join(", "),
            parameters.join(", ")
        );
        let rows = rows
            .iter()
            .map(|row| row.iter().map(Value::from).collect::<Vec<_>>());
        self.sql().each(&text, rows, |_| Ok(())).map(drop)
    }

    /// Sets a table's sequence, so that the next row follows `last`.
    pub(crate) fn set_last_number(
        &self,
        table: &str,
        column: &str,
        last: i64,
    ) -> Result<(), StoreError> {
        // The table has never had a row. setval rejects 0.
        if last == 0 {
            return Ok(());
        }
        let text = format!(
            "SELECT setval(CAST(pg_get_serial_sequence('{table}', '{column}') AS regclass), ?1)"
        );
        self.sql().value::<i64>(&text, args![last]).map(drop)
    }

    /// Checks the references that could not be checked row by row.
    pub(crate) fn check_references(&self) -> Result<(), StoreError> {
        self.session.batch(ADD_KEY)
    }

    /// Calls `each` with every row of a table.
    pub(crate) fn rows(
        &self,
        table: &str,
        columns: &[String],
        mut each: impl FnMut(&[Cell]),
    ) -> Result<(), StoreError> {
        // A cursor: the client buffers a whole result, and a table may exceed the memory.
        let query = format!("SELECT {} FROM {table}", columns.join(", "));
        self.session
            .batch(&format!("DECLARE all_{table} CURSOR FOR {query}"))?;
        let fetch = format!("FETCH {FETCH} FROM all_{table}");
        loop {
            let rows = self
                .sql()
                .many(&fetch, &[], |row| Cell::read_row(row, columns.len()))?;
            rows.iter().for_each(|row| each(row));
            if rows.len() < FETCH {
                return self.session.batch(&format!("CLOSE all_{table}"));
            }
        }
    }

    /// Commits everything at once.
    pub(crate) fn commit(self) -> Result<(), ImportError> {
        self.session.commit().map_err(|error| match error {
            CommitError::RolledBack(error) => ImportError::Store(error),
            CommitError::InDoubt(error) => ImportError::InDoubt(error),
        })?;
        // Query plans depend on statistics, which autovacuum would gather only later.
        if let Err(error) = self
            .session
            .batch(&format!("ANALYZE {}", TABLES.join(", ")))
        {
            log::warn!("analyzing the imported tables failed: {error}; run ANALYZE");
        }
        Ok(())
    }
}
