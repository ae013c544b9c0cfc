//! The indexes of a migration, which can be built before it while servers of the older schema run. Its own `CREATE INDEX IF NOT EXISTS`
//! finds them then.

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::postgres::Session;
use crate::sql::values::args;

/// Held for a session while indexes are built, and for a transaction that migrates: an index that is not valid yet may be one that
/// is being built.
const HOLD: &str = "SELECT pg_try_advisory_lock(5136919)";
const HOLD_FOR_MIGRATION: &str = "SELECT pg_try_advisory_xact_lock(5136919)";
const IS_VALID: &str = "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE CAST(c.relname AS TEXT) = ?1 AND c.relnamespace = current_schema()::regnamespace";

/// What was found of an index, and done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// It was there.
    Present,
    /// It was built.
    Built,
    /// What a build that was stopped had left was dropped, and it was built.
    Rebuilt,
    /// It is on a table that the migration itself changes, which builds it.
    Later,
}

impl IndexState {
    /// The word for it in a table.
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

/// An index of a schema that is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpcomingIndex {
    /// The name of the index, as its statement has it.
    pub name: String,
    /// What was done about it.
    pub state: IndexState,
}

/// A statement that creates an index.
struct IndexStatement {
    unique: &'static str,
    name: String,
    /// From `ON` to the end.
    on: String,
}

/// The statements of a migration without comments, with single spaces.
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

/// The tables that a migration creates or changes.
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

    /// Whether the index can be used; `None` if there is none.
    fn is_valid(&self, session: &Session) -> Result<Option<bool>, StoreError> {
        Sql::Postgres(session).one(IS_VALID, args![&self.name], |row| row.read(0))
    }

    /// Builds the index while others write. Waits for the transactions that run.
    fn build(&self, session: &Session) -> Result<IndexState, StoreError> {
        let found = self.is_valid(session)?;
        if found == Some(true) {
            return Ok(IndexState::Present);
        }
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

/// Builds those indexes of migrations that are on tables as they are.
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

/// Drops what a build that was stopped has left of the indexes of a migration, in the transaction that applies it. The migration
/// would find it, and leave it as it is.
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
        if index.is_valid(session)? == Some(false) {
            session.batch(&format!("DROP INDEX IF EXISTS {}", index.name))?;
        }
    }
    Ok(())
}
