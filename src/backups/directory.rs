//! Directory for the copies, and their names.

use std::fs;
use std::path::{Path, PathBuf};

use conclave_db::{DRAFT_SUFFIX, private_file};
use conclave_model::Timestamp;

const PREFIX: &str = "conclave-";
const SUFFIX: &str = ".db";
/// Positions of an RFC 3339 timestamp's colons. Names have dashes there, since some file systems do not allow colons.
const COLONS: [usize; 2] = [13, 16];

/// Directory for the copies. Files with other names are ignored.
#[derive(Debug, Clone)]
pub struct BackupDirectory(PathBuf);

/// Complete copy of the database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupCopy {
    /// Time at which it was started.
    pub at: Timestamp,
    /// File path.
    pub path: PathBuf,
}

impl BackupDirectory {
    /// Creates the value for a path, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path for a copy that is started at `at`.
    pub fn path_for(&self, at: Timestamp) -> PathBuf {
        let mut time = at.to_string();
        for colon in COLONS {
            time.replace_range(colon..=colon, "-");
        }
        self.0.join(format!("{PREFIX}{time}{SUFFIX}"))
    }

    /// Creates the directory with mode 0700 if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(&self) -> Result<(), String> {
        private_file::create_directory(&self.0)
            .map_err(|error| format!("{}: {error}", self.0.display()))
    }

    /// Returns the copies, oldest first; none if the directory cannot be read.
    pub fn copies(&self) -> Vec<BackupCopy> {
        // Other files in the directory are ignored, also by the removal.
        let copy = |path: PathBuf| {
            Some(BackupCopy {
                at: time_of(path.file_name()?.to_str()?)?,
                path,
            })
        };
        let mut copies: Vec<_> = self.files().filter_map(copy).collect();
        // By time: names and timestamps sort alike.
        copies.sort();
        copies
    }

    /// Removes the oldest copies until `keep` are left, except the one at `new`. Returns the number of removed copies.
    pub fn remove_oldest(&self, keep: usize, new: &Path) -> usize {
        let copies = self.copies();
        // More than one, if `backup.keep` was lowered since the last start.
        let surplus = copies.len().saturating_sub(keep);
        let oldest = copies
            .into_iter()
            // After the clock was set back, the new copy is not the newest by name.
            .filter(|copy| copy.path != new)
            .take(surplus);
        oldest.filter(|copy| remove(&copy.path)).count()
    }

    /// Removes the unfinished copies of a server that was killed meanwhile.
    pub fn remove_drafts(&self) {
        let is_draft =
            |name: &str| name.starts_with(&format!(".{PREFIX}")) && name.ends_with(DRAFT_SUFFIX);
        let drafts = self.files().filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(is_draft)
        });
        drafts.for_each(|path| _ = remove(&path));
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    }
}

fn remove(path: &Path) -> bool {
    let removed = fs::remove_file(path);
    if let Err(error) = &removed {
        log::warn!("{} cannot be removed: {error}", path.display());
    }
    removed.is_ok()
}

fn time_of(name: &str) -> Option<Timestamp> {
    let mut time = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.to_owned();
    for colon in COLONS {
        if time.get(colon..=colon) != Some("-") {
            return None;
        }
        time.replace_range(colon..=colon, ":");
    }
    time.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + second * 1_000)
    }

    fn directory(seconds: &[i64]) -> (tempfile::TempDir, BackupDirectory) {
        let dir = tempfile::tempdir().unwrap();
        let directory = BackupDirectory::new(dir.path().to_owned());
        seconds
            .iter()
            .for_each(|second| fs::write(directory.path_for(at(*second)), "").unwrap());
        (dir, directory)
    }

    fn seconds(directory: &BackupDirectory) -> Vec<i64> {
        directory
            .copies()
            .iter()
            .map(|copy| (copy.at.millis() - at(0).millis()) / 1_000)
            .collect()
    }

    #[test]
    fn the_name_of_a_copy_has_its_time_and_other_files_are_no_copies() {
        let (dir, directory) = directory(&[5, -3]);
        assert_eq!(
            directory.path_for(at(0)).file_name().unwrap(),
            "conclave-2023-11-14T22-13-20.000Z.db"
        );
        for other in [
            "conclave.db",
            "conclave-mine.db",
            "conclave-é2023-11-14T22-13-20.000Z.db",
            "conclave-2023-11-14T22:13:20.000Z.db",
        ] {
            fs::write(dir.path().join(other), "").unwrap();
        }
        assert_eq!(seconds(&directory), [-3, 5]);
        assert!(
            BackupDirectory::new(dir.path().join("nowhere"))
                .copies()
                .is_empty()
        );
    }

    #[test]
    fn the_oldest_copies_are_removed_and_never_the_new_one() {
        let (dir, directory) = directory(&[1, 2, 3, 4]);
        fs::write(dir.path().join("conclave-mine.db"), "").unwrap();
        assert_eq!(directory.remove_oldest(9, &directory.path_for(at(4))), 0);
        assert_eq!(
            (
                directory.remove_oldest(3, &directory.path_for(at(4))),
                seconds(&directory)
            ),
            (1, vec![2, 3, 4])
        );
        // The clock was set back before the new copy was made.
        assert_eq!(
            (
                directory.remove_oldest(1, &directory.path_for(at(2))),
                seconds(&directory)
            ),
            (2, vec![2])
        );
        assert!(dir.path().join("conclave-mine.db").exists());
    }

    #[test]
    fn only_drafts_of_copies_are_removed() {
        let (dir, directory) = directory(&[1]);
        for name in [
            ".conclave-2023-11-14T22-13-20.000Z.db.aB3.partial",
            ".mine.db.aB3.partial",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        directory.remove_drafts();
        let left = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(
            left,
            [
                ".mine.db.aB3.partial",
                "conclave-2023-11-14T22-13-21.000Z.db"
            ]
        );
    }
}
