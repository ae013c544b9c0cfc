//! Whole-table reads for `conclave import`.

use std::cell::RefCell;
use std::mem;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::backup::{migrated_copy, refuse_foreign_objects_in};
use super::migrate;
use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;
use crate::tables::Cell;

/// Limits of a batch: rows, and approximate bytes.
const BATCH: (usize, usize) = (1_000, 4 << 20);

/// Snapshot of a records file, in the newest schema.
pub(crate) struct Export {
    connection: Connection,
    has_records: bool,
    /// Folder with the migrated copy, if the file has an older schema. Deleted on drop.
    _folder: Option<TempDir>,
}

impl Export {
    /// Opens a file without changing it.
    pub(crate) fn open(file: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        refuse_foreign_objects_in(&connection)?;
        let found = migrate::version(&connection)?;
        // Only the newest schema is compared with PostgreSQL's, so an older file is read as a
        // migrated copy.
        let (connection, folder) = if found == migrate::SCHEMA || found == 0 {
            (connection, None)
        } else {
            let (copy, folder) = migrated_copy(&connection, file)?;
            (copy, Some(folder))
        };
        // One read transaction for all tables: a server that still writes to the file must not
        // change it halfway.
        connection.execute_batch("BEGIN")?;
        Ok(Self {
            connection,
            // A file without a schema number has no tables of Conclave.
            has_records: found > 0,
            _folder: folder,
        })
    }

    /// Returns whether the file has tables.
    pub(crate) fn has_records(&self) -> bool {
        self.has_records
    }

    fn sql(&self) -> Sql<'_> {
        Sql::Sqlite(&self.connection)
    }

    /// Returns a table's column names.
    pub(crate) fn columns(&self, table: &str) -> Result<Vec<String>, StoreError> {
        self.sql().many(
            "SELECT name FROM pragma_table_info(?1)",
            args![table],
            |row| row.get("name"),
        )
    }

    /// Counts a table's rows.
    pub(crate) fn count(&self, table: &str) -> Result<u64, StoreError> {
        let rows: i64 = self
            .sql()
            .value(&format!("SELECT count(*) FROM {table}"), &[])?;
        Ok(rows.unsigned_abs())
    }

    /// Returns the last number assigned by AUTOINCREMENT, even if its row was deleted; 0 if none was
    /// assigned.
    pub(crate) fn last_number(&self, table: &str) -> Result<i64, StoreError> {
        // Only tables with AUTOINCREMENT are in `sqlite_sequence`, and only once they have had a
        // row.
        let last = self.sql().one(
            "SELECT seq FROM sqlite_sequence WHERE name = ?1",
            args![table],
            |row| row.get("seq"),
        );
        Ok(last?.unwrap_or(0))
    }

    /// Reads all rows of a table, and passes them to `write` in batches.
    pub(crate) fn batches(
        &self,
        table: &str,
        columns: &[String],
        write: impl FnMut(&mut [Vec<Cell>]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let batch = RefCell::new(Batch {
            rows: Vec::new(),
            size: 0,
            write,
        });
        let text = format!("SELECT {} FROM {table}", columns.join(", "));
        self.sql().many(&text, &[], |row| {
            let cells = Cell::read_row(row, columns.len())?;
            batch.borrow_mut().add(cells)
        })?;
        batch.into_inner().write()
    }
}

/// Rows that are written together.
struct Batch<F> {
    rows: Vec<Vec<Cell>>,
    size: usize,
    write: F,
}

impl<F: FnMut(&mut [Vec<Cell>]) -> Result<(), StoreError>> Batch<F> {
    fn add(&mut self, row: Vec<Cell>) -> Result<(), StoreError> {
        // Bytes count as well as rows, since stored responses and events vary in size.
        self.size += row.iter().map(Cell::size).sum::<usize>();
        self.rows.push(row);
        let (rows, bytes) = BATCH;
        if self.rows.len() >= rows || self.size >= bytes {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.size = 0;
        let mut rows = mem::take(&mut self.rows);
        if rows.is_empty() {
            Ok(())
        } else {
            (self.write)(&mut rows)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::TABLES;

    fn export(dir: &TempDir, schema: usize) -> Export {
        let path = dir.path().join("conclave.db");
        migrate::create(&path, schema);
        Export::open(&path).unwrap()
    }

    #[test]
    fn every_table_of_the_records_is_exported() {
        let dir = tempfile::tempdir().unwrap();
        let export = export(&dir, migrate::SCHEMA.unsigned_abs().try_into().unwrap());
        let all = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
        let found: Vec<String> = export.sql().many(all, &[], |row| row.get("name")).unwrap();
        let mut known = TABLES;
        known.sort_unstable();
        assert_eq!(found, known);
    }

    #[test]
    fn a_file_with_an_older_schema_is_read_as_a_migrated_copy_and_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let export = export(&dir, 9);
        assert!(
            export
                .columns("projects")
                .unwrap()
                .contains(&"open_rooms".to_owned())
        );
        let original = Connection::open(dir.path().join("conclave.db")).unwrap();
        assert_eq!(migrate::version(&original).unwrap(), 9);
        drop(export);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "the copy is deleted"
        );
    }
}
