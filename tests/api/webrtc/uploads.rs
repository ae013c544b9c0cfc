//! Recording uploads to object storage. A shell script replaces ffmpeg and writes its input into the file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use conclave::config::Config;
use conclave_model::faults::{Fault as ActorFault, arm, left};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_http_server::{Fault, ObjectStorage};

use super::Call;
use crate::console::Browser;
use crate::support::{Hanging, NEVER, TestApp, eventually};
use crate::tools::{Other, default_template, other_project, room_on, template};

const SECRET: &str = "wJalrXUtnFEMIK7MDENG";
/// Number of zeros that the script writes before its input, so that a file has three parts. They are a hole in the file, since the script
/// runs at a low priority and has little time on a busy machine.
pub(super) const PADDING: usize = 20_000_000;

/// A call whose microphone is recorded to a destination.
pub(super) struct Recorded {
    pub(super) call: Call,
    pub(super) storage: ObjectStorage,
    track: String,
    /// Folder with the script and the recordings directory.
    folder: TempDir,
}

/// Writes a program that behaves like ffmpeg when it copies a track.
fn write_ffmpeg(folder: &Path) -> PathBuf {
    let program = folder.join("ffmpeg");
    let script = format!(
        "#!/bin/sh\n\
         case \"$*\" in\n\
         *-version) echo 'ffmpeg version 5.1 of a test' ;;\n\
         *-encoders) echo ' A..... aac' ;;\n\
         *) for last; do :; done; file=${{last#file:}}\n\
            dd of=\"$file\" bs=1 count=0 seek={PADDING} && cat >> \"$file\" ;;\n\
         esac\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

impl Recorded {
    pub(super) fn start() -> Self {
        Self::start_with(|_| {}, |url| url)
    }

    /// Starts with changed settings and a storage at the URL that `reached` returns.
    pub(super) fn start_with(
        change: impl FnOnce(&mut Config),
        reached: impl FnOnce(String) -> String,
    ) -> Self {
        let (folder, storage) = (tempfile::tempdir().unwrap(), ObjectStorage::start());
        let (program, recordings) = (
            write_ffmpeg(folder.path()),
            folder.path().join("recordings"),
        );
        let app = TestApp::start_with_webrtc_and(|config| {
            config.egress.ffmpeg = program.display().to_string();
            // The script may be slow on a busy machine.
            config.egress.stop_timeout = NEVER;
            config.recordings.dir = Some(recordings);
            change(config);
        });
        let (template, url) = (default_template(&app), reached(storage.url()));
        let mut recorded = Self {
            call: Call::new(app),
            storage,
            track: String::new(),
            folder,
        };
        recorded.begin_call(&template, &url);
        recorded
    }

    /// Makes a call whose recordings go to a storage.
    fn begin_call(&mut self, template: &str, storage: &str) {
        let app = &self.call.app;
        let config = json!({
            "type": "s3", "bucket": "calls", "prefix": "2026/", "endpoint": storage, "force_path_style": true,
            "access_key": "AKIAEXAMPLE", "secret": SECRET
        });
        let body = json!({"name": "archive", "kind": "recording", "config": config});
        app.post(&format!("/v1/templates/{template}/destinations"))
            .json(body)
            .send()
            .expect(201);
        room_on(app, "standup", template);
        let alice = self.call.join("alice", "host");
        let track = self.call.speak(alice);
        self.call.wait("the track is known", |call| {
            let shown = call
                .app
                .get("/v1/rooms/standup/participants/alice")
                .send()
                .expect(200);
            shown["tracks"]
                .as_array()
                .unwrap()
                .iter()
                .any(|known| known["sid"] == track)
        });
        self.track = track;
    }

    /// Makes another call, in another project with its own storage, and continues there.
    fn enter_other_project(&mut self, storage: &str) {
        let Other { project, key } = other_project(&self.call.app, "self_hosted");
        (self.call.app.project, self.call.app.key) = (project, key);
        let template = template(&self.call.app, "calls", &json!({"host": {}}));
        self.begin_call(&template, storage);
    }

    /// Starts a recording, and waits until it is active. Returns its id.
    pub(super) fn record(&mut self, filepath: &str) -> String {
        let body = json!({"type": "track", "track_id": self.track, "filepath": filepath, "destination": "archive"});
        let started = self
            .call
            .app
            .post("/v1/rooms/standup/recordings")
            .json(body)
            .send()
            .expect(201);
        let id = started["egress_id"].as_str().unwrap().to_owned();
        self.call.wait("the recording is active", |call| {
            status(&call.app, &id) == "active"
        });
        id
    }

    pub(super) fn stop(&self, id: &str) {
        let stopped = self
            .call
            .app
            .post(&format!("/v1/recordings/{id}/stop"))
            .send()
            .expect(200);
        assert_eq!(stopped["status"], "ending");
    }

    /// Returns the recordings directory.
    pub(super) fn recordings(&self) -> PathBuf {
        self.folder.path().join("recordings")
    }

    /// Returns the file on this machine.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.recordings().join(&self.call.app.project).join(name)
    }

    pub(super) fn restart(self, restart: impl FnOnce(TestApp) -> TestApp) -> Self {
        let Self {
            call,
            storage,
            track,
            folder,
        } = self;
        Self {
            call: Call::new(restart(call.app)),
            storage,
            track,
            folder,
        }
    }
}

pub(super) fn recording(app: &TestApp, id: &str) -> Value {
    app.get(&format!("/v1/recordings/{id}")).send().expect(200)
}

pub(super) fn status(app: &TestApp, id: &str) -> Value {
    recording(app, id)["status"].clone()
}

#[track_caller]
pub(super) fn wait_for_status(app: &TestApp, id: &str, expected: &str) {
    eventually(|| status(app, id) == expected);
}

#[test]
fn an_upload_that_hangs_keeps_no_state_of_the_database() {
    let mut recorded = Recorded::start();
    recorded.storage.fail_parts(&[Fault::Stall]);
    let id = recorded.record("a.ogg");
    recorded.stop(&id);
    eventually(|| recorded.storage.counts().2 == 1);
    // If kept, it prevents the log truncation that each command does at its end.
    recorded.call.app.room("retro");
    eventually(|| !recorded.call.app.records().are_held_by_a_read());
    recorded.storage.release();
}

/// Proves S-67.
#[test]
fn a_recording_below_a_file_is_an_invalid_filepath_and_other_users_read_none() {
    let mut recorded = Recorded::start();
    let id = recorded.record("a/b.ogg");
    for (path, mode) in [("a/b.ogg", 0o640), ("a", 0o750), ("", 0o750)] {
        let found = fs::metadata(recorded.file(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        // The umask can restrict more.
        assert_eq!(found & !mode, 0, "{path}: {found:o}");
    }
    let body = json!({"type": "track", "track_id": recorded.track, "filepath": "a/b.ogg/c.ogg"});
    let mut uploaded = body.clone();
    uploaded["destination"] = json!("archive");
    for body in [body, uploaded] {
        let refused = recorded
            .call
            .app
            .post("/v1/rooms/standup/recordings")
            .json(body)
            .send();
        refused.expect_error(400, "invalid_filepath", Some("filepath"));
    }
    recorded.stop(&id);
}

#[test]
fn a_recording_is_uploaded_in_parts_and_removed_from_this_machine() {
    let mut recorded = Recorded::start();
    let id = recorded.record("talks/monday.ogg");
    let file = recorded.file("talks/monday.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "complete");
    let object = recorded
        .storage
        .object("calls/2026/talks/monday.ogg")
        .unwrap();
    assert!(object.len() > PADDING && object.starts_with(&[0; 64]));
    assert_eq!(recorded.storage.counts(), (1, 3, 0, 0));
    eventually(|| !file.exists());
    let recording = recording(&recorded.call.app, &id);
    assert_eq!(
        (&recording["destination"], &recording["filepath"]),
        (&json!("archive"), &json!("talks/monday.ogg"))
    );
    assert!(recording.get("error").is_none() && recording["ended_at"].is_string());
    // The object's name is not reused, although the local file is gone.
    let again = recorded.record("talks/monday.ogg");
    assert_eq!(
        self::recording(&recorded.call.app, &again)["filepath"],
        "talks/monday-2.ogg"
    );
}

#[test]
fn a_part_that_fails_or_loses_its_connection_is_sent_again() {
    let mut recorded = Recorded::start();
    recorded
        .storage
        .fail_parts(&[Fault::Status(500), Fault::Cut]);
    let id = recorded.record("a.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "complete");
    assert!(recorded.storage.object("calls/2026/a.ogg").unwrap().len() > PADDING);
    assert_eq!(recorded.storage.counts(), (1, 3, 0, 0));
}

/// Proves R-19.
#[test]
fn a_refused_upload_keeps_the_file_says_why_without_secrets_and_is_made_by_the_next_start() {
    let mut recorded = Recorded::start();
    recorded.storage.refuse(Some(403));
    let id = recorded.record("b.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "failed");
    let error = recording(&recorded.call.app, &id)["error"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        error.contains("the storage answered 403 AccessDenied")
            && error.contains("which tries again"),
        "{error}"
    );
    assert!(
        !error.contains("secret") && !error.contains("http"),
        "{error}"
    );
    let file = recorded.file("b.ogg");
    assert!(file.exists());
    recorded.storage.refuse(None);
    let recorded = recorded.restart(TestApp::restart);
    eventually(|| !file.exists());
    assert!(recorded.storage.object("calls/2026/b.ogg").unwrap().len() > PADDING);
    // The status is final, but the error changes.
    let recording = recording(&recorded.call.app, &id);
    assert_eq!(recording["status"], "failed");
    assert!(
        recording["error"]
            .as_str()
            .unwrap()
            .contains("a later attempt has uploaded the file")
    );
}

/// Proves S-92.
#[test]
fn the_file_of_an_erased_participant_that_waits_for_its_upload_is_deleted_and_never_uploaded() {
    let mut recorded = Recorded::start();
    recorded.storage.refuse(Some(403));
    let id = recorded.record("g.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "failed");
    let (app, file) = (&recorded.call.app, recorded.file("g.ogg"));
    // Written at the recording's end by the test's clock.
    let millis = app.clock.now().millis().unsigned_abs();
    let opened = fs::File::options().append(true).open(&file).unwrap();
    opened
        .set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
        .unwrap();
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let erased = app.delete("/ext/v1/identities/alice").send().expect(200);
    assert_eq!(erased["deleted_files"], 1);
    // It is for a destination, which may have got it after all.
    assert_eq!(erased["remaining_recordings"][0]["egress_id"], id.as_str());
    assert!(!file.exists());
    recorded.storage.refuse(None);
    let recorded = recorded.restart(TestApp::restart);
    eventually(|| {
        let error = recording(&recorded.call.app, &id)["error"].clone();
        error
            .as_str()
            .is_some_and(|error| error.contains("the recorded file is gone"))
    });
    assert!(recorded.storage.names().is_empty());
}

/// Proves R-19.
#[test]
fn an_upload_that_a_crash_interrupts_is_made_by_the_next_start_and_what_was_begun_is_aborted() {
    let mut recorded = Recorded::start();
    recorded.storage.fail_parts(&[Fault::Stall]);
    let id = recorded.record("c.ogg");
    recorded.stop(&id);
    eventually(|| recorded.storage.counts().2 == 1);
    assert_eq!(status(&recorded.call.app, &id), "ending");
    let debug = recorded
        .call
        .app
        .actors(&format!("/{}/egress/{id}", recorded.call.app.project));
    assert_eq!(
        (
            &debug["state"]["upload"]["phase"],
            &debug["state"]["upload"]["sent_bytes"]
        ),
        (&json!("running"), &json!(0))
    );
    let metrics = recorded.call.app.admin("GET", "/metrics").send();
    assert!(
        metrics
            .text()
            .contains(&format!("conclave_upload_size_bytes{{egress_id=\"{id}\"}}"))
    );
    let file = recorded.file("c.ogg");
    let recorded = recorded.restart(|app| app.crash_for(Duration::from_secs(5)));
    wait_for_status(&recorded.call.app, &id, "complete");
    assert!(recorded.storage.object("calls/2026/c.ogg").unwrap().len() > PADDING);
    eventually(|| !file.exists());
    // One of the two started uploads was completed and the other one aborted.
    assert_eq!(
        (recorded.storage.counts().0, recorded.storage.counts().3),
        (2, 0)
    );
    recorded.storage.release();
}

#[test]
fn what_was_recorded_before_a_crash_is_uploaded_too_and_the_recording_says_that_it_was_cut_off() {
    let mut recorded = Recorded::start();
    let id = recorded.record("d.ogg");
    eventually(|| {
        recorded
            .file("d.ogg")
            .metadata()
            .is_ok_and(|metadata| metadata.len() >= PADDING as u64)
    });
    let recorded = recorded.restart(|app| app.crash_for(Duration::from_secs(5)));
    wait_for_status(&recorded.call.app, &id, "failed");
    assert!(
        recording(&recorded.call.app, &id)["error"]
            .as_str()
            .unwrap()
            .contains("it was restarted")
    );
    assert_eq!(recorded.storage.names(), ["calls/2026/d.ogg"]);
}

/// Proves R-17.
#[test]
fn a_stop_of_the_server_completes_what_is_recorded_and_the_next_start_uploads_it() {
    let mut recorded = Recorded::start();
    let uploaded = recorded.record("i.ogg");
    let body = json!({"type": "track", "track_id": recorded.track, "filepath": "j.ogg"});
    let started = recorded
        .call
        .app
        .post("/v1/rooms/standup/recordings")
        .json(body)
        .send()
        .expect(201);
    let local = started["egress_id"].as_str().unwrap().to_owned();
    recorded.call.wait("the recording is active", |call| {
        status(&call.app, &local) == "active"
    });
    let (before, file) = (
        recorded.file("j.ogg").metadata().unwrap().len(),
        recorded.file("j.ogg"),
    );
    // Audio from now on is in the file in any case, even if the file already has all earlier audio.
    recorded.call.run(Duration::from_millis(200));
    recorded.storage.refuse(Some(503));
    let recorded = recorded.restart(TestApp::restart);
    let record = recording(&recorded.call.app, &local);
    assert_eq!(
        (&record["status"], record.get("error")),
        (&json!("complete"), None),
        "{record}"
    );
    assert!(
        file.metadata().unwrap().len() > PADDING.max(before as usize) as u64,
        "the rest is in the file"
    );
    assert_eq!(
        status(&recorded.call.app, &uploaded),
        "ending",
        "it was recorded, and has to be uploaded"
    );
    recorded.storage.refuse(None);
    eventually(|| {
        recorded.call.app.advance(Duration::from_secs(1));
        status(&recorded.call.app, &uploaded) == "complete"
    });
    assert!(recorded.storage.object("calls/2026/i.ogg").unwrap().len() > PADDING);
}

/// Returns whether an egress actor was rebuilt once, or will be.
fn has_restarted(app: &TestApp) -> bool {
    app.admin("GET", "/metrics")
        .send()
        .text()
        .contains("conclave_actor_restarts_total{kind=\"egress\"} 1\n")
}

/// Advances the clock until the failed actor is rebuilt. A read would wait for that, and stop the clock meanwhile.
fn rebuilt(app: &TestApp) {
    eventually(|| has_restarted(app));
    eventually(|| {
        app.advance(Duration::from_secs(1));
        let shown = app
            .admin("GET", "/debug/actors?kind=egress")
            .send()
            .expect(200);
        shown["actors"][0]["status"] != "restarting"
    });
}

#[test]
fn an_egress_that_panics_during_its_upload_is_rebuilt_and_completes_it() {
    for (message, refusal) in [("uploaded", None), ("upload_due", Some(503))] {
        let mut recorded = Recorded::start();
        recorded.storage.refuse(refusal);
        let (project, id) = (recorded.call.app.project.clone(), recorded.record("g.ogg"));
        arm(&project, &format!("egress.{message}"), ActorFault::Panic);
        recorded.stop(&id);
        // Small steps: while a slow machine uploads, the call's time limit must not expire.
        eventually(|| {
            recorded.call.app.advance(Duration::from_secs(1));
            left(&project) == 0
        });
        recorded.storage.refuse(None);
        rebuilt(&recorded.call.app);
        eventually(|| status(&recorded.call.app, &id) == "complete");
        assert!(
            recorded.storage.object("calls/2026/g.ogg").unwrap().len() > PADDING,
            "{message}"
        );
        eventually(|| !recorded.file("g.ogg").exists());
        assert!(has_restarted(&recorded.call.app), "{message}: once");
    }
}

#[test]
fn a_storage_that_was_away_for_long_gets_the_file_once_it_is_back() {
    let mut recorded = Recorded::start();
    recorded.storage.refuse(Some(503));
    let id = recorded.record("k.ogg");
    recorded.stop(&id);
    eventually(|| {
        recorded.call.app.advance(Duration::from_secs(300));
        status(&recorded.call.app, &id) == "failed"
    });
    let debug = recorded
        .call
        .app
        .actors(&format!("/{}/egress/{id}", recorded.call.app.project));
    assert_eq!(
        (
            &debug["state"]["upload"]["phase"],
            &debug["timers"][0]["name"]
        ),
        (&json!("waiting"), &json!("upload"))
    );
    let browser = Browser::new(&recorded.call.app);
    let page = browser.page(&format!(
        "/projects/{}/recordings/{id}",
        recorded.call.app.project
    ));
    assert!(page.contains("waiting</a>, next attempt"), "{page}");
    recorded.storage.refuse(None);
    let file = recorded.file("k.ogg");
    eventually(|| {
        recorded.call.app.advance(Duration::from_secs(60));
        !file.exists()
    });
    assert!(recorded.storage.object("calls/2026/k.ogg").unwrap().len() > PADDING);
    let recording = recording(&recorded.call.app, &id);
    assert_eq!(recording["status"], "failed", "a status is final");
    assert!(
        recording["error"]
            .as_str()
            .unwrap()
            .contains("a later attempt has uploaded the file"),
        "{recording}"
    );
}

#[test]
fn an_upload_that_keeps_failing_is_given_up_and_one_whose_destination_was_deleted_for_good() {
    let mut recorded = Recorded::start();
    recorded.storage.refuse(Some(503));
    let id = recorded.record("e.ogg");
    recorded.stop(&id);
    eventually(|| {
        // Retry delays follow the clock, and their requests follow real time.
        recorded.call.app.advance(Duration::from_secs(300));
        status(&recorded.call.app, &id) == "failed"
    });
    assert!(
        recording(&recorded.call.app, &id)["error"]
            .as_str()
            .unwrap()
            .contains("the storage answered 503")
    );
    let path = format!(
        "/v1/templates/{}/destinations/archive",
        default_template(&recorded.call.app)
    );
    recorded.call.app.delete(&path).send().expect_empty(204);
    let recorded = recorded.restart(TestApp::restart);
    eventually(|| {
        recording(&recorded.call.app, &id)["error"]
            .as_str()
            .unwrap()
            .contains("the destination was deleted")
    });
    assert!(recorded.file("e.ogg").exists());
}

/// Proves S-68.
#[test]
fn a_storage_in_the_operators_network_is_not_called_although_its_destination_was_saved() {
    let mut recorded = Recorded::start();
    // The stop ends the recording, whose upload would start at once.
    recorded.storage.refuse(Some(403));
    let id = recorded.record("f.ogg");
    let Recorded {
        call,
        storage,
        track,
        folder,
    } = recorded;
    let app = call
        .app
        .restart_with(|config| config.egress.allow_networks.clear());
    storage.refuse(None);
    let recorded = Recorded {
        call: Call::new(app),
        storage,
        track,
        folder,
    };
    eventually(|| {
        let error = recording(&recorded.call.app, &id)["error"].clone();
        error
            .as_str()
            .is_some_and(|error| error.contains("the storage has an address that is not public"))
    });
    assert_eq!(recorded.storage.counts().0, 0);
}

/// Proves S-63.
#[test]
fn a_storage_that_hangs_delays_no_upload_of_another_project() {
    let (mut recorded, hanging) = (Recorded::start(), Hanging::start());
    recorded.enter_other_project(&hanging.url);
    // As many as the concurrent attempts for all projects.
    let ids = [(); 6].map(|()| recorded.record("a.ogg"));
    ids.iter().for_each(|id| recorded.stop(id));
    let attempts = format!("/{}/egress", recorded.call.app.project);
    for id in &ids {
        eventually(|| {
            recorded.call.app.actors(&format!("{attempts}/{id}"))["state"]["upload"]["phase"]
                == "running"
        });
    }
    eventually(|| hanging.held() == 2);
    let storage = recorded.storage.url();
    recorded.enter_other_project(&storage);
    let id = recorded.record("b.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "complete");
    assert!(recorded.storage.object("calls/2026/b.ogg").unwrap().len() > PADDING);
    assert_eq!(hanging.held(), 2, "the others wait for these");
}
