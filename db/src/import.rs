//! `conclave import`: copies a file's records into an empty PostgreSQL database.
//!
//! The schema, the rows, and the comparison of both sides are one transaction, so an interrupted import leaves the database empty.

use std::path::Path;

use crate::engine::postgres::Import;
use crate::engine::sqlite::Export;
use crate::error::{ImportError, StoreError};
use crate::sql::postgres::PostgresServer;
use crate::tables::{Content, TABLES};

/// Tables whose rows are numbered by the engine, with the column of the number.
const NUMBERED: [(&str, &str); 2] = [("events", "id"), ("webhook_deliveries", "seq")];

/// Import progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// Table being copied.
    pub table: &'static str,
    /// Rows copied so far.
    pub rows: u64,
    /// Rows in the table.
    pub total: u64,
}

/// Import result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Tables with their numbers of rows.
    pub tables: Vec<(&'static str, u64)>,
    /// Texts from which U+0000 was removed, which PostgreSQL cannot store.
    pub shortened_texts: u64,
}

/// Copies a file's records into a database without any, and compares all rows. A file with an older schema is migrated as a copy beside it.
/// Blocks; must not be called on a runtime thread. No server may write to the file meanwhile.
///
/// # Errors
/// If the file or the database cannot be used, the database is not empty, or a row differs. In these cases, nothing is imported.
pub fn import_file(
    file: &Path,
    server: &PostgresServer,
    mut progress: impl FnMut(ImportProgress),
) -> Result<Imported, ImportError> {
    let source = Export::open(file)?;
    if !source.has_records() {
        return Err(ImportError::NoRecords(file.display().to_string()));
    }
    let target = Import::begin(server)?;
    let (mut imported, mut contents) = (Imported::default(), Vec::new());
    for table in TABLES {
        let copied = copy_table(
            &source,
            &target,
            table,
            &mut imported.shortened_texts,
            &mut progress,
        );
        contents.push(copied.map_err(|source| ImportError::Table { table, source })?);
    }
    // Rows bring their own numbers, which do not advance the sequence. Events would otherwise reuse a number.
    for (table, column) in NUMBERED {
        target.set_last_number(table, column, source.last_number(table)?)?;
    }
    // Read back from PostgreSQL, so that a value which it stores differently is noticed before the commit.
    target.check_references()?;
    for (table, content) in TABLES.into_iter().zip(contents) {
        let mut stored = Content::default();
        target.rows(table, &source.columns(table)?, |row| stored.add(row))?;
        if stored != content {
            return Err(ImportError::Differs(table));
        }
        imported.tables.push((table, content.rows()));
    }
    target.commit()?;
    Ok(imported)
}

fn copy_table(
    source: &Export,
    target: &Import,
    table: &'static str,
    shortened_texts: &mut u64,
    progress: &mut impl FnMut(ImportProgress),
) -> Result<Content, StoreError> {
    let (columns, total) = (source.columns(table)?, source.count(table)?);
    let mut content = Content::default();
    source.batches(table, &columns, |batch| {
        for row in batch.iter_mut() {
            *shortened_texts += row
                .iter_mut()
                .map(|cell| u64::from(cell.remove_nul()))
                .sum::<u64>();
            content.add(row);
        }
        target.insert(table, &columns, batch)?;
        progress(ImportProgress {
            table,
            rows: content.rows(),
            total,
        });
        Ok(())
    })?;
    Ok(content)
}
