//! Indexes of a migration, which can be built ahead, while servers with the older schema run. The migration's own `CREATE INDEX IF NOT
//! EXISTS` then finds them.

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::postgres::Session;
use crate::sql::values::args;

/// Advisory lock, held by a session that builds indexes and by a transaction that migrates: an index that is not valid yet may be under
/// construction.
const HOLD: &str = "SELECT pg_try_advisory_lock(5136919)";
const HOLD_FOR_MIGRATION: &str = "SELECT pg_try_advisory_xact_lock(5136919)";
const IS_VALID: &str = "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE CAST(c.relname AS TEXT) = ?1 AND c.relnamespace = current_schema()::regnamespace";

/// State in which an index was found, and its treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Was there.
    Present,
    /// Was built.
    Built,
    /// Remains of an interrupted build were dropped, and the index was built.
    Rebuilt,
    /// Is on a table that the migration itself changes, which then builds the index.
    Later,
}

impl IndexState {
    /// Returns the state's name in a table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Built => "built",
            Self::Rebuilt => "rebuilt",
            Self::Later => "later",
        }
    }
}

/// Index of an upcoming schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpcomingIndex {
    /// Name of the index, as in its statement.
    pub name: String,
    /// State of the index.
    pub state: IndexState,
}

/// Parsed `CREATE INDEX` statement.
struct IndexStatement {
    unique: &'static str,
    name: String,
    /// Text from `ON` to the end.
    on: String,
}

/// Returns a migration's statements, without comments and with single spaces.
fn statements(migration: &str) -> Vec<String> {
    let code: Vec<_> = migration
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect();
    let code = code.join(" ");
    code.split(';')
        .map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

fn index_statements(statements: &[String]) -> Vec<IndexStatement> {
    // Only statements of this form can be built ahead; the migrations are written that way.
    let parse = |statement: &String| {
        let plain = statement
            .strip_prefix("CREATE INDEX IF NOT EXISTS ")
            .map(|rest| ("", rest));
        let unique = || {
            statement
                .strip_prefix("CREATE UNIQUE INDEX IF NOT EXISTS ")
                .map(|rest| ("UNIQUE ", rest))
        };
        let (unique, rest) = plain.or_else(unique)?;
        let (name, on) = rest.split_once(' ')?;
        Some(IndexStatement {
            unique,
            name: name.to_owned(),
            on: on.to_owned(),
        })
    };
    statements.iter().filter_map(parse).collect()
}

/// Returns the tables that a migration creates or changes.
fn changed_tables(statements: &[String]) -> Vec<&str> {
    let changed = statements.iter().filter_map(|statement| {
        let created = statement
            .strip_prefix("CREATE TABLE ")
            .or_else(|| statement.strip_prefix("ALTER TABLE "))?;
        let named = created
            .strip_prefix("IF NOT EXISTS ")
            .or_else(|| created.strip_prefix("IF EXISTS "));
        named.unwrap_or(created).split([' ', '(']).next()
    });
    changed.collect()
}

impl IndexStatement {
    fn table(&self) -> &str {
        let rest = self.on.strip_prefix("ON ").unwrap_or(&self.on);
        rest.split([' ', '(']).next().unwrap_or_default()
    }

    /// Returns whether the index is usable; `None` if it does not exist.
    fn is_valid(&self, session: &Session) -> Result<Option<bool>, StoreError> {
        Sql::Postgres(session).one(IS_VALID, args![&self.name], |row| row.read(0))
    }

    /// Builds the index without blocking writes. Waits for running transactions.
    fn build(&self, session: &Session) -> Result<IndexState, StoreError> {
        let found = self.is_valid(session)?;
        if found == Some(true) {
            return Ok(IndexState::Present);
        }
        // CONCURRENTLY cannot roll back: an interrupted build leaves an invalid index, which IF NOT EXISTS would take for a good one.
        if found == Some(false) {
            session.batch(&format!("DROP INDEX CONCURRENTLY IF EXISTS {}", self.name))?;
        }
        let Self { unique, name, on } = self;
        session.batch(&format!(
            "CREATE {unique}INDEX CONCURRENTLY IF NOT EXISTS {name} {on}"
        ))?;
        Ok(if found.is_none() {
            IndexState::Built
        } else {
            IndexState::Rebuilt
        })
    }
}

/// Builds those indexes that are on tables as they are now.
pub(super) fn build<'m>(
    session: &Session,
    migrations: impl Iterator<Item = &'m str>,
) -> Result<Vec<UpcomingIndex>, StoreError> {
    if !Sql::Postgres(session).value::<bool>(HOLD, &[])? {
        return Err(StoreError::Unavailable(
            "another conclave migrate is running".into(),
        ));
    }
    let statements: Vec<String> = migrations.flat_map(statements).collect();
    let changed = changed_tables(&statements);
    let mut indexes = Vec::new();
    for index in index_statements(&statements) {
        // An index on a new column or table cannot be built before the migration.
        let is_later = changed.contains(&index.table());
        let state = if is_later {
            IndexState::Later
        } else {
            index.build(session)?
        };
        indexes.push(UpcomingIndex {
            name: index.name,
            state,
        });
    }
    Ok(indexes)
}

/// Drops the remains of interrupted index builds, in the transaction that applies the migration. Otherwise the migration would find them,
/// and skip its own statements.
pub(super) fn drop_invalid(session: &Session, migration: &str) -> Result<(), StoreError> {
    let indexes = index_statements(&statements(migration));
    if indexes.is_empty() {
        return Ok(());
    }
    if !Sql::Postgres(session).value::<bool>(HOLD_FOR_MIGRATION, &[])? {
        let message =
            "conclave migrate is building the indexes of this version: let it finish, or stop it";
        return Err(StoreError::Unavailable(message.into()));
    }
    for index in indexes {
        // Valid indexes stay: they were built ahead.
        if index.is_valid(session)? == Some(false) {
            session.batch(&format!("DROP INDEX IF EXISTS {}", index.name))?;
        }
    }
    Ok(())
}
