//! The schema, as numbered migrations. `user_version` of the file says how many it has had.

use rusqlite::Connection;

use crate::StoreError;
use crate::error::OrStoreError;

/// Every migration, in order. One that has shipped is never edited; a change is a new file.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_init.sql"),
    include_str!("migrations/0002_role_changes.sql"),
    include_str!("migrations/0003_codes.sql"),
    include_str!("migrations/0004_usage.sql"),
    include_str!("migrations/0005_destinations.sql"),
    include_str!("migrations/0006_egresses.sql"),
    include_str!("migrations/0007_ingresses.sql"),
    include_str!("migrations/0008_refusals.sql"),
];

/// The schema this program writes.
pub(crate) const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Brings a file up to date, each migration in a transaction of its own.
///
/// # Errors
/// [`StoreError::NewerSchema`] for a file that a newer program has written; it is left as it is.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let found = version(connection)?;
    for (done, sql) in (1i64..).zip(MIGRATIONS).filter(|(number, _)| *number > found) {
        let tx = connection.transaction().or_store_error()?;
        tx.execute_batch(sql).or_store_error()?;
        tx.pragma_update(None, "user_version", done).or_store_error()?;
        tx.commit().or_store_error()?;
    }
    Ok(())
}

/// The schema of a file.
///
/// # Errors
/// [`StoreError::NewerSchema`] when this program does not know it.
pub(crate) fn version(connection: &Connection) -> Result<i64, StoreError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0)).or_store_error()?;
    if found > SCHEMA { Err(StoreError::NewerSchema { found, known: SCHEMA }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(version(&connection).unwrap(), SCHEMA);
    }

    #[test]
    fn answers_that_were_kept_before_refusals_had_a_caller_belong_to_their_key() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS[..7].concat()).unwrap();
        connection.pragma_update(None, "user_version", 7).unwrap();
        connection
            .execute_batch(
                "INSERT INTO projects (id, name, env, plan, status, created_at) VALUES ('prj_1', 'p', 'test', 'free', 'active', 1);
                 INSERT INTO idempotency VALUES ('prj_1', 'create_room', 'k', x'07', 201, x'7b7d', NULL, 2);",
            )
            .unwrap();
        migrate(&mut connection).unwrap();
        let row = connection.query_row("SELECT key, caller, status, body, created_at FROM idempotency", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        });
        let kept: (String, String, u16, Vec<u8>, i64) = row.unwrap();
        assert_eq!(kept, ("k".into(), String::new(), 201, b"{}".to_vec(), 2));
    }

    #[test]
    fn a_newer_file_is_refused_with_a_message_that_says_so() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
        let refusal = migrate(&mut connection).unwrap_err();
        assert!(refusal.to_string().contains("written by a newer version"), "{refusal}");
    }
}
