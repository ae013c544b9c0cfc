//! Recordings on this machine: playback, download, and no access to other files.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::Browser;
use crate::support::{TestApp, eventually};

/// Makes a complete recording with `filepath` as its file name. Returns the path to its page.
fn record(app: &TestApp, filepath: &str) -> String {
    let body = json!({"type": "room_composite", "filepath": filepath});
    let recording = app
        .post("/v1/rooms/standup/recordings")
        .json(body)
        .send()
        .expect(201);
    let id = recording["egress_id"].as_str().unwrap().to_owned();
    app.admin("POST", &format!("/sandbox/egress/{id}"))
        .json(json!({"status": "complete"}))
        .send()
        .expect(200);
    eventually(|| app.get(&format!("/v1/recordings/{id}")).send().json()["status"] == "complete");
    format!("/projects/{}/recordings/{id}", app.project)
}

#[test]
fn a_local_recording_is_played_in_ranges_and_downloaded() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let page = record(&app, "talk.mp4");
    assert!(
        browser
            .page(&page)
            .contains("The file is not on this machine.")
    );
    assert_eq!(browser.open(&format!("{page}/file")).status, 404);
    let directory = app.data().join("recordings").join(&app.project);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("talk.mp4"), b"0123456789").unwrap();
    let shown = browser.page(&page);
    assert!(
        shown.contains("<video") && shown.contains("?download=1"),
        "{shown}"
    );

    let whole = browser.open(&format!("{page}/file"));
    assert_eq!(
        (whole.status, whole.body.as_slice()),
        (200, &b"0123456789"[..])
    );
    assert_eq!(whole.headers["content-type"], "video/mp4");
    assert_eq!(
        whole.headers["content-security-policy"],
        "default-src 'none'; sandbox"
    );
    let part = browser
        .request("GET", &format!("{page}/file"))
        .header("range", "bytes=2-4")
        .send();
    assert_eq!((part.status, part.body.as_slice()), (206, &b"234"[..]));
    let saved = browser.open(&format!("{page}/file?download=1"));
    assert_eq!(
        saved.headers["content-disposition"],
        "attachment; filename=\"talk.mp4\""
    );
}

#[test]
fn a_local_file_is_deleted_unless_it_may_be_another_recordings() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let page = record(&app, "talk.mp4");
    let delete = format!("{page}/delete");
    let button = |page: &str| page.contains(&format!("action=\"{delete}\""));
    assert!(!button(&browser.page(&page)), "there is no file");
    let refused = browser.send(&delete, &[]);
    assert_eq!(refused.status, 404, "{}", refused.text());
    let directory = app.data().join("recordings").join(&app.project);
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("talk.mp4");
    let written = |seconds: u64| {
        fs::write(&file, b"0123456789").unwrap();
        let now = Duration::from_millis(app.clock.now().millis().unsigned_abs());
        let file = fs::File::options().append(true).open(&file).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + now + Duration::from_secs(seconds))
            .unwrap();
    };
    written(24 * 3_600);
    let refused = browser.send(&delete, &[]);
    assert!(
        refused.status == 404 && refused.text().contains("another recording"),
        "{}",
        refused.text()
    );
    assert!(file.exists());
    written(1);
    assert!(button(&browser.page(&page)));
    let shown = browser.act(&delete, &[]);
    assert!(
        shown.contains("The recording&#39;s file was deleted")
            || shown.contains("The recording's file was deleted"),
        "{shown}"
    );
    assert!(
        !file.exists() && !button(&shown) && shown.contains("when it was removed"),
        "{shown}"
    );
    let id = page.rsplit('/').next().unwrap();
    let answer = app.get(&format!("/files/recordings/{id}")).send();
    assert!(
        answer.text().contains("its file was removed at"),
        "{}",
        answer.text()
    );
    assert_eq!(
        app.get(&format!("/v1/recordings/{id}")).send().expect(200)["status"],
        "complete",
        "its record stays"
    );
    // A file that comes to the same path later is another recording's.
    written(1);
    assert_eq!(browser.send(&delete, &[]).status, 404);
    assert!(file.exists());
}

#[test]
fn the_file_of_a_running_recording_is_not_deleted() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let body = json!({"type": "room_composite", "filepath": "talk.mp4"});
    let recording = app
        .post("/v1/rooms/standup/recordings")
        .json(body)
        .send()
        .expect(201);
    let directory = app.data().join("recordings").join(&app.project);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("talk.mp4"), b"0123456789").unwrap();
    let id = recording["egress_id"].as_str().unwrap();
    let page = format!("/projects/{}/recordings/{id}", app.project);
    let refused = browser.send(&format!("{page}/delete"), &[]);
    assert!(
        refused.status == 404 && refused.text().contains("has not ended"),
        "{}",
        refused.text()
    );
    assert!(directory.join("talk.mp4").exists());
}

/// Proves S-24.
#[test]
fn a_file_outside_the_directory_of_recordings_is_never_sent() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let page = record(&app, "key.mp4");
    let directory = app.data().join("recordings").join(&app.project);
    fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink(app.data().join("encryption.key"), directory.join("key.mp4"))
        .unwrap();
    assert_eq!(browser.open(&format!("{page}/file")).status, 404);
    assert!(
        browser
            .page(&page)
            .contains("The file is not on this machine.")
    );
    let other = browser.act(
        "/projects",
        &[("name", "other"), ("env", "live"), ("plan", "free")],
    );
    let (_, rest) = other.split_once("/projects/prj_").unwrap();
    let foreign = page.replace(&app.project, &format!("prj_{}", &rest[..12]));
    assert_eq!(
        browser.open(&format!("{foreign}/file")).status,
        404,
        "a recording of another project"
    );
}
