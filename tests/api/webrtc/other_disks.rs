//! Recordings whose file is on the disk of a replaced server.
//!
//! The new server has the same records and its own data directory: the first server's id and files are moved away meanwhile.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::uploads::{PADDING, Recorded, recording, status, wait_for_status};
use crate::support::{TestApp, eventually};

const NODE: &str = "node.id";
const DAY: Duration = Duration::from_secs(24 * 3_600);

impl Recorded {
    /// Moves the server's disk away.
    fn detach_disk(&self) -> TempDir {
        let disk = tempfile::tempdir().unwrap();
        fs::rename(self.call.app.data().join(NODE), disk.path().join(NODE)).unwrap();
        fs::rename(self.recordings(), disk.path().join("recordings")).unwrap();
        disk
    }

    /// Returns the server's disk.
    fn attach_disk(&self, disk: &TempDir) {
        fs::rename(disk.path().join(NODE), self.call.app.data().join(NODE)).unwrap();
        let _ = fs::remove_dir_all(self.recordings());
        fs::rename(disk.path().join("recordings"), self.recordings()).unwrap();
    }

    /// Returns a recording's upload in the debug endpoint.
    fn upload(&self, id: &str) -> Value {
        let app = &self.call.app;
        // Right after a start there may be no actor yet.
        let path = format!("/debug/actors/{}/egress/{id}", app.project);
        app.admin("GET", &path).send().json()["state"]["upload"].clone()
    }

    /// Makes a completed recording whose upload the storage refuses.
    fn record_to_a_storage_in_trouble(&mut self, filepath: &str) -> String {
        self.storage.refuse(Some(503));
        let id = self.record(filepath);
        self.stop(&id);
        eventually(|| self.upload(&id)["failed_attempts"] == 1);
        self.storage.refuse(None);
        id
    }

    #[track_caller]
    fn wait_until_missed(&self, id: &str) -> Value {
        eventually(|| self.upload(id)["missing_since"].is_string());
        assert_eq!(status(&self.call.app, id), "ending");
        self.upload(id)["missing_since"].clone()
    }
}

/// Proves R-18.
#[test]
fn a_file_on_the_disk_of_another_server_is_uploaded_when_that_server_is_active_again() {
    let mut recorded = Recorded::start();
    let id = recorded.record_to_a_storage_in_trouble("k.ogg");
    let disk = recorded.detach_disk();
    let recorded = recorded.restart(TestApp::restart);
    let since = recorded.wait_until_missed(&id);
    let recorded = recorded.restart(|app| app.restart_after(DAY / 2));
    assert_eq!(
        recorded.wait_until_missed(&id),
        since,
        "another start does not begin to wait anew"
    );
    recorded.attach_disk(&disk);
    let recorded = recorded.restart(TestApp::restart);
    wait_for_status(&recorded.call.app, &id, "complete");
    assert!(recorded.storage.object("calls/2026/k.ogg").unwrap().len() > PADDING);
    eventually(|| !recorded.file("k.ogg").exists());
}

/// Proves R-18.
#[test]
fn a_recording_whose_server_does_not_return_within_a_day_has_failed_and_says_why() {
    let mut recorded = Recorded::start();
    let id = recorded.record_to_a_storage_in_trouble("l.ogg");
    let _disk = recorded.detach_disk();
    let recorded = recorded.restart(TestApp::restart);
    recorded.wait_until_missed(&id);
    recorded.call.app.advance(DAY - Duration::from_secs(1));
    recorded.wait_until_missed(&id);
    recorded.call.app.advance(Duration::from_secs(1));
    wait_for_status(&recorded.call.app, &id, "failed");
    let error = recording(&recorded.call.app, &id)["error"].clone();
    assert!(
        error
            .as_str()
            .unwrap()
            .contains("on the disk of another server"),
        "{error}"
    );
    assert!(recorded.storage.names().is_empty());
}

/// Proves R-18.
#[test]
fn a_file_on_a_disk_that_servers_share_is_uploaded_by_the_next_server_at_once() {
    let mut recorded = Recorded::start();
    let id = recorded.record_to_a_storage_in_trouble("m.ogg");
    fs::remove_file(recorded.call.app.data().join(NODE)).unwrap();
    let recorded = recorded.restart(TestApp::restart);
    wait_for_status(&recorded.call.app, &id, "complete");
    assert_eq!(recorded.storage.names(), ["calls/2026/m.ogg"]);
}

#[test]
fn a_recording_that_ran_on_a_lost_server_has_failed_once_its_file_is_uploaded() {
    let mut recorded = Recorded::start();
    let id = recorded.record("n.ogg");
    eventually(|| {
        recorded
            .file("n.ogg")
            .metadata()
            .is_ok_and(|metadata| metadata.len() >= PADDING as u64)
    });
    let disk = recorded.detach_disk();
    let recorded = recorded.restart(|app| app.crash_for(Duration::from_secs(5)));
    recorded.wait_until_missed(&id);
    recorded.attach_disk(&disk);
    let recorded = recorded.restart(TestApp::restart);
    wait_for_status(&recorded.call.app, &id, "failed");
    assert!(
        recording(&recorded.call.app, &id)["error"]
            .as_str()
            .unwrap()
            .contains("it was restarted")
    );
    assert_eq!(recorded.storage.names(), ["calls/2026/n.ogg"]);
}
