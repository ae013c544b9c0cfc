//! Scheduled database backups: `backup.directory`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use conclave_db::{Contents, Vault};
use conclave_model::Secret;
use test_postgres::Engine;

use crate::console::Browser;
use crate::support::{TestApp, eventually};

const HOUR: Duration = Duration::from_secs(60 * 60);
const WHY: &str = "pg_dump makes the backups of the other";

fn start(directory: &Path) -> TestApp {
    let directory = directory.to_owned();
    TestApp::start_with(move |config| {
        config.backup.directory = Some(directory);
        config.backup.keep = 2;
    })
}

/// Returns the names of the backups, oldest first.
fn copies(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut copies: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    copies.sort();
    copies
}

fn name(time: &str) -> String {
    format!("conclave-2026-03-01T{time}.000Z.db")
}

fn status(app: &TestApp) -> String {
    app.admin("GET", "/readyz").send().expect(200)["parts"]["backup"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn metric(app: &TestApp, name: &str) -> f64 {
    let text = app.admin("GET", "/metrics").send().text();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name}"))
        .rsplit_once(' ')
        .unwrap()
        .1
        .parse()
        .unwrap()
}

/// Returns the contents of a backup, restored with the app's keys.
fn restored(app: &TestApp, copy: &Path) -> Contents {
    let key = app.data().join("encryption.key");
    let dir = tempfile::tempdir().unwrap();
    let vault = Vault::open(Some(&key), &Secret::new("")).unwrap();
    conclave_db::restore(copy, &dir.path().join("conclave.db"), &vault).unwrap()
}

/// Proves R-24.
#[test]
fn the_database_is_copied_at_regular_times_and_the_oldest_copy_is_removed_after_a_new_one() {
    if Engine::Sqlite.is_not_chosen(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("a/backups");
    let app = start(&directory);
    app.room("standup");
    app.endpoint("http://127.0.0.1:1/hook");
    eventually(|| copies(&directory) == [name("12-00-00")]);
    app.advance(HOUR);
    eventually(|| copies(&directory) == [name("12-00-00"), name("13-00-00")]);
    app.advance(HOUR);
    eventually(|| copies(&directory) == [name("13-00-00"), name("14-00-00")]);
    let contents = restored(&app, &directory.join(name("14-00-00")));
    assert_eq!((contents.projects, contents.rooms), (1, 1));
    assert_eq!(
        (contents.secrets.total > 0, contents.secrets.unopenable),
        (true, 0)
    );
    eventually(|| metric(&app, "conclave_backup_attempts_total{outcome=\"kept\"}") == 3.);
    let at = app.clock.now().millis() / 1_000;
    assert_eq!(
        metric(&app, "conclave_backup_last_success_timestamp_seconds").to_string(),
        at.to_string()
    );
    assert!(metric(&app, "conclave_backup_size_bytes") > 4_096.);
    assert_eq!(status(&app), "last good copy at 2026-03-01T14:00:00.000Z");
    let browser = Browser::new(&app);
    let page = browser.page("/server");
    assert!(
        page.contains("last good copy at 2026-03-01T14:00:00.000Z, in "),
        "{page}"
    );
    assert!(browser.page("/").contains("Backups "));
}

#[test]
fn a_restarted_server_continues_where_the_last_one_was_and_removes_what_a_killed_one_left() {
    if Engine::Sqlite.is_not_chosen(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let app = start(dir.path());
    eventually(|| copies(dir.path()) == [name("12-00-00")]);
    let draft = dir.path().join(format!(".{}.x.partial", name("12-30-00")));
    fs::write(&draft, "half a copy").unwrap();
    let app = app.restart_after(HOUR / 2);
    assert!(!draft.exists());
    assert_eq!(status(&app), "last good copy at 2026-03-01T12:00:00.000Z");
    app.advance(HOUR / 2);
    eventually(|| copies(dir.path()) == [name("12-00-00"), name("13-00-00")]);
}

#[test]
fn a_copy_that_cannot_be_made_is_tried_again_and_an_old_one_is_shown_but_does_not_stop_calls() {
    if Engine::Sqlite.is_not_chosen(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("backups");
    fs::write(&directory, "not a directory").unwrap();
    let app = start(&directory);
    let failed = || metric(&app, "conclave_backup_attempts_total{outcome=\"failed\"}");
    eventually(|| failed() == 1.);
    let shown = status(&app);
    assert!(
        shown.starts_with("no good copy yet; the last attempt failed: ")
            && shown.contains("backups"),
        "{shown}"
    );
    assert!(Browser::new(&app).page("/").contains("Backups "));
    app.advance(3 * HOUR);
    eventually(|| failed() == 2.);
    eventually(|| Browser::new(&app).page("/").contains(">old<"));
    fs::remove_file(&directory).unwrap();
    app.advance(Duration::from_secs(5 * 60));
    eventually(|| copies(&directory) == [name("15-05-00")]);
    eventually(|| status(&app) == "last good copy at 2026-03-01T15:05:00.000Z");
    assert_eq!(app.get("/v1/rooms").send().status, 200);
}

#[test]
fn a_copy_is_good_although_secrets_in_the_database_need_a_lost_key() {
    if Engine::Sqlite.is_not_chosen(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let app = start(dir.path());
    app.endpoint("http://127.0.0.1:1/hook");
    eventually(|| copies(dir.path()).len() == 1);
    // Another key replaces the key that sealed the secret.
    let data = app.data().to_owned();
    let app = app.restart_with(move |_| fs::remove_file(data.join("encryption.key")).unwrap());
    app.advance(HOUR);
    eventually(|| copies(dir.path()).len() == 2);
    eventually(|| metric(&app, "conclave_backup_unopenable_secrets") >= 1.);
}
