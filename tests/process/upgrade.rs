//! Servers with two versions on one database. An additional migration makes the same program the newer version.

use std::path::PathBuf;

use test_postgres::Cluster;

use crate::deployment::Deployment;
use crate::standby::{Waiting, has_room, until};

/// The newer version's changes: a column that the older version ignores, and an index.
const FURTHER: &str = "ALTER TABLE projects ADD COLUMN later TEXT COLLATE \"C\";
    CREATE INDEX IF NOT EXISTS events_ahead ON events (id, room);";

fn migration(folder: &tempfile::TempDir) -> PathBuf {
    let file = folder.path().join("further.sql");
    std::fs::write(&file, FURTHER).unwrap();
    file
}

/// Proves R-23.
#[test]
fn the_server_that_becomes_active_migrates_and_one_of_the_older_version_waits_for_its_upgrade() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, folder) = (cluster.database(), tempfile::tempdir().unwrap());
    let further = migration(&folder);
    let newer = || {
        Deployment::new()
            .sharing(database.url())
            .with("FURTHER_MIGRATIONS", further.to_str().unwrap())
    };
    let older = || Deployment::new().sharing(database.url());
    let version = || {
        database
            .run("SELECT version FROM schema_version")
            .trim()
            .parse::<i64>()
            .unwrap()
    };
    let first = older();
    let mut active = first.start();
    active.room("kept", 600);
    let schema = version();

    // The standby first. It changes nothing while the older one is active.
    let (upgraded, behind) = (newer(), older());
    upgraded.copy_keys(&first);
    behind.copy_keys(&first);
    let starting = upgraded.spawn();
    Waiting::of(&upgraded).until_role("standby");
    let of_behind = behind.spawn();
    let waiting = Waiting::of(&behind);
    waiting.until_role("standby");
    let built = upgraded.run_command(&["migrate"]);
    assert!(
        built
            .lines()
            .any(|line| line.split_whitespace().eq(["events_ahead", "built"])),
        "{built}"
    );
    assert_eq!(version(), schema);
    active.room("beside", 600);

    // Either standby may be next. If it has the older version, it is stopped, too.
    assert_eq!(active.terminate(), Some(0), "{}", first.log());
    let next = until(|| {
        let epoch = database.run("SELECT url FROM leadership WHERE epoch = 2");
        Some(epoch.trim().to_owned()).filter(|url| !url.is_empty())
    });
    let still_waiting = if next == waiting.api {
        assert_eq!(
            of_behind.ready(&behind).terminate(),
            Some(0),
            "{}",
            behind.log()
        );
        None
    } else {
        Some((behind, of_behind))
    };
    let active = starting.ready(&upgraded);
    // Only now: it could become active before the newer one.
    let behind = still_waiting.unwrap_or_else(|| {
        let again = older();
        again.copy_keys(&first);
        let starting = again.spawn();
        (again, starting)
    });
    assert_eq!(version(), schema + 1);
    assert!(has_room(&active, "kept") && has_room(&active, "beside"));
    let refused = Waiting::of(&behind.0).until_role("waiting_for_upgrade");
    assert!(
        refused["obstacle"]
            .as_str()
            .unwrap()
            .contains("install that version"),
        "{refused}"
    );
    let checked = upgraded.run_command(&["check"]);
    assert!(
        checked.contains("cannot take over: waiting_for_upgrade"),
        "{checked}"
    );
    assert!(
        upgraded
            .run_command(&["migrate"])
            .contains("no index has to be built"),
        "the database has them"
    );
    active.kill();
    Waiting::of(&behind.0).until_role("waiting_for_upgrade");
    assert_eq!(version(), schema + 1);
}
