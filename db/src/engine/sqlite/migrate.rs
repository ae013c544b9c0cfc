//! Schema migrations, by number. The file's `user_version` is the number of the last one applied.

use rusqlite::Connection;

use crate::error::StoreError;

/// All migrations, in order. A released migration is never edited; a schema change is a new file.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_init.sql"),
    include_str!("../../migrations/sqlite/0002_role_changes.sql"),
    include_str!("../../migrations/sqlite/0003_codes.sql"),
    include_str!("../../migrations/sqlite/0004_usage.sql"),
    include_str!("../../migrations/sqlite/0005_destinations.sql"),
    include_str!("../../migrations/sqlite/0006_egresses.sql"),
    include_str!("../../migrations/sqlite/0007_ingresses.sql"),
    include_str!("../../migrations/sqlite/0008_refusals.sql"),
    include_str!("../../migrations/sqlite/0009_list_indexes.sql"),
    include_str!("../../migrations/sqlite/0010_open_rooms.sql"),
    include_str!("../../migrations/sqlite/0011_heartbeat.sql"),
    include_str!("../../migrations/sqlite/0012_delivery_queue.sql"),
    include_str!("../../migrations/sqlite/0013_open_rooms_index.sql"),
    include_str!("../../migrations/sqlite/0014_ascending_indexes.sql"),
    include_str!("../../migrations/sqlite/0015_newest_projects.sql"),
    include_str!("../../migrations/sqlite/0016_uploads.sql"),
    include_str!("../../migrations/sqlite/0017_order_of_open_rooms.sql"),
    include_str!("../../migrations/sqlite/0018_upload_nodes.sql"),
    include_str!("../../migrations/sqlite/0019_events_of_projects.sql"),
    include_str!("../../migrations/sqlite/0020_local_files.sql"),
    include_str!("../../migrations/sqlite/0021_bans.sql"),
    include_str!("../../migrations/sqlite/0022_room_limits.sql"),
    include_str!("../../migrations/sqlite/0023_auto_record.sql"),
    include_str!("../../migrations/sqlite/0024_event_history.sql"),
    include_str!("../../migrations/sqlite/0025_webhook_endpoint_changes.sql"),
    include_str!("../../migrations/sqlite/0026_session_quality.sql"),
    include_str!("../../migrations/sqlite/0027_erasures_and_key_use.sql"),
    include_str!("../../migrations/sqlite/0028_rows_of_rooms.sql"),
];

/// Number of the schema that this program writes.
pub(crate) const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Applies missing migrations, each in its own transaction.
///
/// # Errors
/// [`StoreError::NewerSchema`] if a newer version has written the file, which stays unchanged.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let found = version(connection)?;
    for (done, sql) in (1i64..)
        .zip(MIGRATIONS)
        .filter(|(number, _)| *number > found)
    {
        // Each by itself, since a later migration may be long, and the earlier ones need not be repeated.
        let tx = connection.transaction()?;
        tx.execute_batch(sql)?;
        // The number is in the file's header, so it is part of the transaction: a crash leaves the file at a whole schema.
        tx.pragma_update(None, "user_version", done)?;
        tx.commit()?;
    }
    Ok(())
}

/// Reads the number of a file's schema; 0 for a new file.
///
/// # Errors
/// [`StoreError::NewerSchema`] if this program does not know the schema.
pub(crate) fn version(connection: &Connection) -> Result<i64, StoreError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    // The file may have tables and values that this program would misread.
    if found > SCHEMA {
        Err(StoreError::NewerSchema {
            found,
            known: SCHEMA,
        })
    } else {
        Ok(found)
    }
}

/// Creates a file with an older schema.
#[cfg(test)]
pub(crate) fn create(path: &std::path::Path, schema: usize) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(&MIGRATIONS[..schema].concat())
        .unwrap();
    connection
        .pragma_update(None, "user_version", i64::try_from(schema).unwrap())
        .unwrap();
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
    fn responses_stored_before_refusals_had_a_caller_belong_to_the_whole_project() {
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
        let row = connection.query_row(
            "SELECT key, caller, status, body, created_at FROM idempotency",
            [],
            |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                ))
            },
        );
        let stored: (String, String, u16, Vec<u8>, i64) = row.unwrap();
        assert_eq!(stored, ("k".into(), String::new(), 201, b"{}".to_vec(), 2));
    }

    #[test]
    fn the_open_rooms_of_an_older_file_are_counted() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS[..9].concat()).unwrap();
        connection.pragma_update(None, "user_version", 9).unwrap();
        connection
            .execute_batch(
                "INSERT INTO projects (id, name, env, plan, status, created_at)
                     VALUES ('prj_1', 'p', 'test', 'free', 'active', 1), ('prj_2', 'p', 'test', 'free', 'active', 1);
                 INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, status, created_at)
                     VALUES (x'01', 'prj_1', 'a', 0, 1, 'open', 1), (x'02', 'prj_1', 'b', 0, 1, 'open', 1),
                            (x'03', 'prj_1', 'c', 0, 1, 'ended', 1);",
            )
            .unwrap();
        migrate(&mut connection).unwrap();
        let mut statement = connection
            .prepare("SELECT open_rooms FROM projects ORDER BY id")
            .unwrap();
        let counts: Vec<i64> = statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(counts, [2, 0]);
    }

    #[test]
    fn the_participants_of_an_older_files_events_are_found_in_their_payloads() {
        let mut connection = Connection::open_in_memory().unwrap();
        let earlier = MIGRATIONS
            .iter()
            .position(|text| text.contains("events ADD COLUMN identity"))
            .unwrap();
        connection
            .execute_batch(&MIGRATIONS[..earlier].concat())
            .unwrap();
        connection
            .pragma_update(None, "user_version", i64::try_from(earlier).unwrap())
            .unwrap();
        connection
            .execute_batch(
                r#"INSERT INTO projects (id, name, env, plan, status, created_at) VALUES ('prj_1', 'p', 'test', 'free', 'active', 1);
                 INSERT INTO events (project_id, room, type, payload, created_at) VALUES
                     ('prj_1', 'a', 'room.started', '{"type":"room.started","room":"a"}', 1),
                     ('prj_1', 'a', 'participant.joined', '{"room":"a","participant_identity":"ada@b.c"}', 1),
                     ('prj_1', 'a', 'ingress.started', '{"room":"a","participant_identity":"encoder"}', 1);"#,
            )
            .unwrap();
        migrate(&mut connection).unwrap();
        let mut statement = connection
            .prepare("SELECT identity FROM events ORDER BY id")
            .unwrap();
        let identities: Vec<Option<String>> = statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(
            identities,
            [None, Some("ada@b.c".into()), Some("encoder".into())]
        );
    }

    #[test]
    fn a_file_of_any_earlier_version_is_migrated() {
        for earlier in 0..MIGRATIONS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            connection
                .execute_batch(&MIGRATIONS[..earlier].concat())
                .unwrap();
            connection
                .pragma_update(None, "user_version", i64::try_from(earlier).unwrap())
                .unwrap();
            migrate(&mut connection).unwrap();
            assert_eq!(version(&connection).unwrap(), SCHEMA);
        }
    }

    #[test]
    fn a_newer_file_is_refused_with_a_message_that_says_so() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .pragma_update(None, "user_version", SCHEMA + 1)
            .unwrap();
        let refusal = migrate(&mut connection).unwrap_err();
        assert!(
            refusal.to_string().contains("written by a newer version"),
            "{refusal}"
        );
    }
}
