//! Generated files: `CONCLAVE_UPDATE_SNAPSHOTS=1` writes them, every other run compares.

use std::fs;
use std::path::PathBuf;

const HOW_TO_UPDATE: &str =
    "run this test with CONCLAVE_UPDATE_SNAPSHOTS=1, and review the difference";

/// Returns whether this run writes the generated files.
pub fn is_update() -> bool {
    std::env::var_os("CONCLAVE_UPDATE_SNAPSHOTS").is_some()
}

/// Returns the text of a file in the repository; empty if it does not exist.
pub fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_default()
}

/// Fails unless the file has this text, or writes it.
#[track_caller]
pub fn check(file: &str, now: &str) {
    if is_update() {
        fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        fs::write(path(file), now).unwrap();
    }
    let reviewed = read(file);
    let differs = now
        .lines()
        .zip(reviewed.lines())
        .position(|(now, then)| now != then);
    assert_eq!(
        differs.map(|line| line + 1),
        None,
        "{file} is stale, first in this line: {HOW_TO_UPDATE}"
    );
    assert_eq!(
        now.lines().count(),
        reviewed.lines().count(),
        "{file} is stale: {HOW_TO_UPDATE}"
    );
}

fn path(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), file].iter().collect()
}
