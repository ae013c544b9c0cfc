use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use conclave_model::Secret;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::backup::{Contents, inspect};
use crate::vault::Vault;

const PROJECT: &str = "INSERT INTO projects (id, name, env, plan, status, created_at) VALUES ('prj_1', 'p', 'test', 'free', 'active', 7)";

fn newest() -> usize {
    usize::try_from(migrate::SCHEMA).unwrap()
}

/// A records file with one project, in a folder of its own.
fn records(schema: usize) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("conclave.db");
    migrate::create(&path, schema);
    Connection::open(&path)
        .unwrap()
        .execute_batch(PROJECT)
        .unwrap();
    (dir, path)
}

fn vault() -> Vault {
    Vault::open(None, &Secret::new("media secret")).unwrap()
}

/// Sorted names of the files beside `path`.
fn beside(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn copy_while(
    from: &Path,
    to: &Path,
    vault: &Vault,
    goes_on: impl Fn() -> bool,
) -> Result<Contents, StoreError> {
    super::copy_checked(from, to, goes_on, |draft| inspect(draft, vault))
}

fn copy(from: &Path, to: &Path) -> Result<Contents, StoreError> {
    copy_while(from, to, &vault(), || true)
}

/// Proves S-86.
#[test]
fn a_copy_is_one_private_file_that_says_what_it_contains() {
    let (_dir, path) = records(newest());
    let to = path.with_file_name("a copy?.db");
    let contents = copy(&path, &to).unwrap();
    assert_eq!(
        (contents.schema, contents.projects, contents.rooms),
        (migrate::SCHEMA, 1, 0)
    );
    assert_eq!(contents.last_change.unwrap().millis(), 7);
    assert_eq!(contents.bytes, to.metadata().unwrap().len());
    assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(beside(&path), ["a copy?.db", "conclave.db"]);
    assert_eq!(
        copy(&to, &path.with_file_name("again.db")).unwrap(),
        contents
    );
}

/// Proves R-24.
#[test]
fn changes_that_are_only_in_the_log_are_copied_and_those_that_come_meanwhile_are_not() {
    let (_dir, path) = records(newest());
    let writer = Connection::open(&path).unwrap();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    // More than one part of a copy.
    let payload = "x".repeat(9 << 20);
    writer
        .execute(
            "INSERT INTO events (project_id, room, type, payload, created_at) VALUES ('prj_1', 'r', 't', ?1, 8)",
            [&payload],
        )
        .unwrap();
    let parts = Cell::new(0);
    let write = || {
        let insert =
            "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, status, created_at)
                      VALUES (?1, 'prj_1', ?1, 0, 1, 'open', 9)";
        writer
            .execute(
                &insert.replacen("(?1,", "(CAST(?1 AS BLOB),", 1),
                [parts.get().to_string()],
            )
            .unwrap();
        parts.set(parts.get() + 1);
        true
    };
    let contents = copy_while(&path, &path.with_file_name("copy.db"), &vault(), write).unwrap();
    assert!(parts.get() >= 3, "the copy had {} parts", parts.get());
    assert_eq!(
        (contents.rooms, contents.last_change.unwrap().millis()),
        (0, 8)
    );
}

#[test]
fn a_copy_that_is_given_up_or_exists_already_leaves_what_was_there() {
    let (_dir, path) = records(newest());
    let to = path.with_file_name("copy.db");
    let error = copy_while(&path, &to, &vault(), || false).unwrap_err();
    assert!(error.to_string().contains("given up"), "{error}");
    assert_eq!(beside(&path), ["conclave.db"]);
    fs::write(&to, "mine").unwrap();
    assert!(
        copy(&path, &to)
            .unwrap_err()
            .to_string()
            .contains("copy.db exists already")
    );
    assert_eq!(fs::read_to_string(&to).unwrap(), "mine");
}

/// Proves R-24.
#[test]
fn a_damaged_file_a_dangling_reference_and_another_file_are_refused_and_nothing_is_kept() {
    let refusal = |spoil: &dyn Fn(&Path)| {
        let (_dir, path) = records(newest());
        spoil(&path);
        let error = copy(&path, &path.with_file_name("copy.db")).unwrap_err();
        assert_eq!(beside(&path), ["conclave.db"]);
        error.to_string()
    };
    let index_lacks_a_row = |path: &Path| {
        let connection = Connection::open(path).unwrap();
        connection
            .pragma_update(None, "writable_schema", true)
            .unwrap();
        let moved =
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'rooms_newest')
                     WHERE name = 'templates_newest'";
        assert_eq!(connection.execute(moved, []).unwrap(), 1);
    };
    assert!(!refusal(&index_lacks_a_row).is_empty());
    let dangling = refusal(&|path| {
        let connection = Connection::open(path).unwrap();
        connection
            .pragma_update(None, "foreign_keys", false)
            .unwrap();
        connection.execute("DELETE FROM projects", []).unwrap();
        let orphan = "INSERT INTO api_keys (prefix, project_id, hash, label, created_at) VALUES ('k', 'prj_1', x'00', '', 1)";
        connection.execute(orphan, []).unwrap();
    });
    assert!(
        dangling.contains("refers to one that is not there"),
        "{dangling}"
    );
    assert!(
        refusal(&|path| fs::write(
            path,
            "no database, but longer than a header of SQLite".repeat(9)
        )
        .unwrap())
        .contains("not a database")
    );
    let empty = refusal(&|path| {
        fs::remove_file(path).unwrap();
        Connection::open(path)
            .unwrap()
            .execute_batch("CREATE TABLE t (a)")
            .unwrap();
    });
    assert!(empty.contains("is not a database of Conclave"), "{empty}");
}

#[test]
fn secrets_that_no_key_opens_are_counted_with_the_keys_that_they_need() {
    let (_dir, path) = records(newest());
    let key = path.with_file_name("encryption.key");
    let (mine, other) = (Vault::open(Some(&key), &Secret::new("m")).unwrap(), vault());
    let connection = Connection::open(&path).unwrap();
    for (name, vault) in [("a", &mine), ("b", &other)] {
        let sealed = vault
            .seal_always(None, b"body", crate::records::idempotency::PURPOSE)
            .unwrap();
        connection
            .execute(
                "INSERT INTO idempotency (project_id, operation, key, caller, fingerprint, status, body, body_key_id, created_at)
                 VALUES ('prj_1', 'o', ?1, '', x'00', 201, ?2, ?3, 1)",
                (name, &sealed.bytes, &sealed.key_id),
            )
            .unwrap();
    }
    let secrets = |vault: &Vault, to: &str| {
        copy_while(&path, &path.with_file_name(to), vault, || true)
            .unwrap()
            .secrets
    };
    let with_both = Vault::open(Some(&key), &Secret::new("media secret")).unwrap();
    assert_eq!(
        (
            secrets(&with_both, "1").total,
            secrets(&with_both, "2").unopenable
        ),
        (2, 0)
    );
    let with_one = secrets(&other, "3");
    assert_eq!((with_one.total, with_one.unopenable), (2, 1));
    assert_eq!(with_one.missing_keys, [mine.key_id().unwrap()]);
}

#[test]
fn a_file_of_an_older_version_is_counted_as_migrated_and_copied_as_it_is() {
    let (_dir, path) = records(9);
    let to = path.with_file_name("copy.db");
    let contents = copy(&path, &to).unwrap();
    assert_eq!((contents.schema, contents.projects), (9, 1));
    assert_eq!(
        migrate::version(&Connection::open(&to).unwrap()).unwrap(),
        9
    );
    assert_eq!(beside(&path), ["conclave.db", "copy.db"]);
}
