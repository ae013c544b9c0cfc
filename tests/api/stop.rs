//! A stopped server leaves nothing in its process, so that another one can run there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{TestApp, eventually};

/// Returns the files below a folder that this process has open.
fn open_files(folder: &Path) -> Vec<PathBuf> {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    // Another test's descriptor may be closed meanwhile.
    let files = descriptors.filter_map(|descriptor| fs::read_link(descriptor.unwrap().path()).ok());
    files.filter(|file| file.starts_with(folder)).collect()
}

#[test]
fn a_stopped_server_has_no_file_open() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    app.join("standup", "alice", "host");
    let data = app.data().to_owned();
    assert!(!open_files(&data).is_empty());
    drop(app);
    eventually(|| open_files(&data).is_empty());
}
