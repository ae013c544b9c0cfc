//! The key file, with one key per line. The first key seals, all keys open.
//!
//! Usually there is one key. During a rotation the new key precedes the old one, so a process that reads the file can open everything at
//! every step, even after a crash. Every process reads the file again before it seals, and when it meets an unknown key id, so a running
//! server uses a new key without a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conclave_model::secret::random_bytes;
use parking_lot::RwLock;

use super::{SealKey, VaultError};
use crate::private_file;

/// Key file, and its keys as last read.
pub(super) struct KeyFile {
    path: PathBuf,
    ring: RwLock<Arc<Ring>>,
}

/// A rotation's key ids.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RotatedKeys {
    pub(crate) old: String,
    pub(crate) new: String,
}

struct Ring {
    /// The file's text hash, which shows whether it has changed.
    text: blake3::Hash,
    current: Arc<SealKey>,
    /// Other keys of the file.
    old: Vec<Arc<SealKey>>,
    /// Keys that the file contained before. A read that started before a rotation may still need one.
    former: Vec<Arc<SealKey>>,
}

impl Ring {
    fn parse(text: &str) -> Option<Self> {
        let mut keys = text.split_whitespace().map(parse_key);
        // A file without keys is refused, as is a line that is not a key.
        let current = Arc::new(SealKey::new(&keys.next()??));
        let old = keys
            .map(|key| key.map(|key| Arc::new(SealKey::new(&key))))
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            text: blake3::hash(text.as_bytes()),
            current,
            old,
            former: Vec::new(),
        })
    }

    /// Returns the file's keys, the first one first.
    fn held(&self) -> impl Iterator<Item = &Arc<SealKey>> {
        std::iter::once(&self.current).chain(&self.old)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<SealKey>> {
        self.held().chain(&self.former)
    }

    fn find(&self, id: &str) -> Option<Arc<SealKey>> {
        self.all().find(|key| key.id == id).cloned()
    }
}

impl KeyFile {
    /// Reads the file. Creates a missing file with mode 0600 and a random key.
    pub(super) fn open(path: &Path) -> Result<Self, VaultError> {
        if !path.exists() {
            private_file::create(path, &random_line()).map_err(|error| failure(path, error))?;
        }
        // Read even if it was just created: another process may have created the file first, with another key.
        let ring = read(path)?;
        Ok(Self {
            path: path.to_owned(),
            ring: RwLock::new(Arc::new(ring)),
        })
    }

    /// Returns the key with this id, or the file's first one.
    ///
    /// Fails if the file cannot be read, even though a key is known: the key may have been rotated in the meantime, and a secret sealed
    /// with the known key would be lost at the next start.
    pub(super) fn sealing(&self, id: Option<&str>) -> Result<Arc<SealKey>, VaultError> {
        let ring = self.reread()?;
        let Some(id) = id else {
            return Ok(Arc::clone(&ring.current));
        };
        let missing = || {
            failure(
                &self.path,
                format!("does not hold the key {id}, with which secrets are encrypted"),
            )
        };
        ring.held()
            // Only keys in the file: a secret must not be sealed with a key that a restart would lose.
            .find(|key| key.id == id)
            .cloned()
            .ok_or_else(missing)
    }

    /// Returns the sealing key's id, at the last read.
    pub(super) fn known_id(&self) -> String {
        self.known().current.id.clone()
    }

    /// Returns the file's key ids, the sealing one first.
    pub(super) fn ids(&self) -> Result<Vec<String>, VaultError> {
        let ring = self.reread()?;
        Ok(ring.held().map(|key| key.id.clone()).collect())
    }

    /// Returns the key with this id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<SealKey>> {
        // Known keys first, so that secrets can still be opened while the file is unreadable.
        self.known()
            .find(id)
            .or_else(|| self.reread().ok()?.find(id))
    }

    /// Returns whether the file contained several keys at the last read.
    pub(super) fn is_rotating(&self) -> bool {
        !self.known().old.is_empty()
    }

    /// Puts a new key before the current one. After an unfinished rotation, it continues with that rotation's new key.
    pub(super) fn begin_rotation(&self) -> Result<RotatedKeys, VaultError> {
        // Never turns a damaged file into a valid one: its keys may still be found in a copy.
        if self.reread()?.old.is_empty() {
            let text =
                fs::read_to_string(&self.path).map_err(|error| failure(&self.path, error))?;
            self.replace(&format!("{}{text}", random_line()))?;
        }
        let ring = self.reread()?;
        let old = ring
            .old
            .first()
            .ok_or_else(|| failure(&self.path, "has changed meanwhile"))?;
        Ok(RotatedKeys {
            old: old.id.clone(),
            new: ring.current.id.clone(),
        })
    }

    /// Deletes all keys but the current one from the file.
    pub(super) fn end_rotation(&self) -> Result<(), VaultError> {
        let text = fs::read_to_string(&self.path).map_err(|error| failure(&self.path, error))?;
        let current = text.split_whitespace().next().unwrap_or_default();
        self.replace(&format!("{current}\n"))?;
        self.reread().map(drop)
    }

    /// Adds a new key to the end of the file.
    pub(super) fn add(&self) -> Result<(), VaultError> {
        // As in a rotation, a damaged file is never turned into a valid one.
        self.reread()?;
        let text = fs::read_to_string(&self.path).map_err(|error| failure(&self.path, error))?;
        self.replace(&format!("{}\n{}", text.trim_end(), random_line()))?;
        self.reread().map(drop)
    }

    /// Deletes all keys except `id`.
    pub(super) fn keep_only(&self, id: &str) -> Result<(), VaultError> {
        // Fails if the file does not contain the key, before anything is deleted.
        self.sealing(Some(id))?;
        let text = fs::read_to_string(&self.path).map_err(|error| failure(&self.path, error))?;
        let is_kept = |line: &&str| parse_key(line).is_some_and(|key| SealKey::new(&key).id == id);
        let kept = text.split_whitespace().find(is_kept).unwrap_or_default();
        self.replace(&format!("{kept}\n"))?;
        self.reread().map(drop)
    }

    fn known(&self) -> Arc<Ring> {
        // Cloned out of the lock, so that no cipher runs under it.
        Arc::clone(&self.ring.read())
    }

    /// Reads the file's current keys.
    fn reread(&self) -> Result<Arc<Ring>, VaultError> {
        let known = self.known();
        // The mode is not checked here: it was when the keys were read.
        let same = |text: String| blake3::hash(text.as_bytes()) == known.text;
        // The file is usually unchanged.
        if fs::read_to_string(&self.path).is_ok_and(same) {
            return Ok(known);
        }
        read(&self.path).map(|ring| self.replace_ring(ring))
    }

    fn replace_ring(&self, mut ring: Ring) -> Arc<Ring> {
        // Keys that are no longer in the file stay usable for reads until the process exits.
        let mut known = self.ring.write();
        ring.former = known
            .all()
            .filter(|key| ring.find(&key.id).is_none())
            .cloned()
            .collect();
        *known = Arc::new(ring);
        Arc::clone(&known)
    }

    fn replace(&self, text: &str) -> Result<(), VaultError> {
        private_file::replace(&self.path, text).map_err(|error| failure(&self.path, error))
    }
}

fn read(path: &Path) -> Result<Ring, VaultError> {
    let text = private_file::read(path).map_err(|error| failure(path, error))?;
    Ring::parse(&text).ok_or_else(|| failure(path, "must hold 64 hex digits a line"))
}

fn failure(path: &Path, reason: impl ToString) -> VaultError {
    VaultError::KeyFile {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

/// Returns a new random key as a line of the file.
fn random_line() -> String {
    format!("{}\n", hex::encode(random_bytes::<32>()))
}

fn parse_key(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    hex::decode_to_slice(text, &mut key).ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("encryption.key")
    }

    fn lines(path: &Path) -> Vec<String> {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(ToOwned::to_owned)
            .collect()
    }

    #[test]
    fn during_a_rotation_the_file_holds_both_keys() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyFile::open(&file(&dir)).unwrap();
        let (first, before) = (keys.known_id(), lines(&file(&dir)));
        let RotatedKeys { old, new } = keys.begin_rotation().unwrap();
        assert_eq!((&old, &keys.sealing(None).unwrap().id), (&first, &new));
        assert_eq!(lines(&file(&dir))[1..], before);
        assert!(keys.is_rotating() && keys.find(&old).is_some());
        // A rotation that starts again after a crash continues with its new key.
        let again = KeyFile::open(&file(&dir))
            .unwrap()
            .begin_rotation()
            .unwrap();
        assert_eq!(
            again,
            RotatedKeys {
                old: old.clone(),
                new: new.clone()
            }
        );
        keys.end_rotation().unwrap();
        assert_eq!((lines(&file(&dir)).len(), keys.is_rotating()), (1, false));
        // A process that has read the old key keeps it. A process that opens the file now does not have it.
        assert!(keys.find(&old).is_some());
        let again = KeyFile::open(&file(&dir)).unwrap();
        assert_eq!(
            (again.known_id().as_str(), again.find(&old).is_none()),
            (new.as_str(), true)
        );
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_process_uses_a_key_that_another_process_created() {
        let dir = tempfile::tempdir().unwrap();
        let (server, command) = (
            KeyFile::open(&file(&dir)).unwrap(),
            KeyFile::open(&file(&dir)).unwrap(),
        );
        let new = command.begin_rotation().unwrap().new;
        assert!(
            server.find(&new).is_some(),
            "an unknown id makes it read the file again"
        );
        command.end_rotation().unwrap();
        assert_eq!(server.sealing(None).unwrap().id, new);
    }

    #[test]
    fn an_unreadable_file_seals_nothing_and_known_keys_still_open() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyFile::open(&file(&dir)).unwrap();
        let id = keys.known_id();
        for bad in ["", "abc", "\u{e9}"] {
            fs::write(file(&dir), bad).unwrap();
            assert!(keys.sealing(None).is_err() && keys.find(&id).is_some());
            assert!(
                KeyFile::open(&file(&dir))
                    .err()
                    .unwrap()
                    .to_string()
                    .contains("64 hex digits")
            );
        }
        fs::remove_file(file(&dir)).unwrap();
        assert!(keys.sealing(None).is_err() && keys.find(&id).is_some());
        assert!(keys.begin_rotation().is_err());
    }

    /// Proves R-43.
    #[test]
    fn a_file_that_holds_no_keys_is_not_changed_by_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyFile::open(&file(&dir)).unwrap();
        for bad in ["", "abc\n", "\u{e9}"] {
            fs::write(file(&dir), bad).unwrap();
            assert!(keys.begin_rotation().is_err());
            assert_eq!(fs::read_to_string(file(&dir)).unwrap(), bad);
        }
    }

    #[test]
    fn the_draft_of_a_rotation_that_crashed_does_not_stop_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyFile::open(&file(&dir)).unwrap();
        fs::write(dir.path().join("encryption.key.new"), "half").unwrap();
        keys.begin_rotation().unwrap();
        assert_eq!(lines(&file(&dir)).len(), 2);
    }

    #[test]
    fn a_key_that_is_added_opens_and_seals_where_it_is_named_and_all_but_one_can_be_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyFile::open(&file(&dir)).unwrap();
        let (first, before) = (keys.known_id(), lines(&file(&dir)));
        keys.add().unwrap();
        let ids = keys.ids().unwrap();
        assert_eq!(
            (lines(&file(&dir)).len(), &lines(&file(&dir))[..1]),
            (2, &before[..])
        );
        assert_eq!(
            (ids[0].as_str(), keys.sealing(None).unwrap().id.as_str()),
            (first.as_str(), first.as_str())
        );
        assert_eq!(keys.sealing(Some(&ids[1])).unwrap().id, ids[1]);
        keys.keep_only(&ids[1]).unwrap();
        assert_eq!(keys.ids().unwrap(), ids[1..]);
        let missing = keys.sealing(Some(&first)).err().unwrap().to_string();
        assert!(
            missing.contains(&format!("does not hold the key {first}")),
            "{missing}"
        );
        assert!(keys.keep_only(&first).is_err() && keys.ids().unwrap() == ids[1..]);
        assert!(
            keys.find(&first).is_some(),
            "what was read before can be opened"
        );
        fs::write(file(&dir), "abc").unwrap();
        assert!(keys.add().is_err());
    }
}
