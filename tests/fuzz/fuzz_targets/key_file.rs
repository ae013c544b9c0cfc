//! The encryption key file: the input is the file's content.
//!
//! A file is accepted exactly if it consists of keys with 64 hex digits, separated by white space. A rotation reduces an accepted file to
//! one key, and leaves a rejected file unchanged.

#![no_main]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use actix::SystemRunner;
use conclave_db::{Location, OlderSchema, Store, StoreMetrics, StoreOptions, Vault};
use conclave_fuzz::jwt::SECRET;
use conclave_fuzz::seeds;
use conclave_model::{Clock, Secret, Timestamp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: write_seeds(), |data: &[u8]| TARGET.with(|target| target.run(data)));

thread_local! {
    static TARGET: Target = Target::start();
}

/// A store whose key file is replaced by each input.
struct Target {
    folder: tempfile::TempDir,
    system: SystemRunner,
    store: Store,
}

fn open(file: &Path) -> Result<Vault, String> {
    Vault::open(Some(file), &Secret::new(SECRET)).map_err(|error| error.to_string())
}

impl Target {
    fn start() -> Self {
        let (folder, system) = (tempfile::tempdir().unwrap(), actix::System::new());
        let store = system.block_on(async {
            Store::open(StoreOptions {
                location: Location::File(folder.path().join("conclave.db")),
                older_schema: OlderSchema::Migrate,
                clock: Clock::manual(Timestamp::from_millis(0)),
                vault: open(&folder.path().join("encryption.key")).unwrap(),
                on_commit: Box::new(|_| ()),
                readers: 1,
                metrics: StoreMetrics::new(&prometheus::Registry::new()).unwrap(),
            })
        });
        Self {
            folder,
            system,
            store: store.unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("encryption.key")
    }

    fn run(&self, data: &[u8]) {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.file())
            .unwrap()
            .write_all(data)
            .unwrap();
        match keys(data) {
            Some(keys) => self.rotate(&keys),
            None => self.refuse(data),
        }
    }

    fn rotate(&self, keys: &[&str]) {
        let vault = open(&self.file()).unwrap();
        assert_eq!(vault.is_rotating(), keys.len() > 1);
        let rotation = self
            .system
            .block_on(self.store.encryption_key().rotate())
            .unwrap();
        let text = fs::read_to_string(self.file()).unwrap();
        assert!(
            text.ends_with('\n') && text.len() == 65,
            "one line: {text:?}"
        );
        let after = open(&self.file()).unwrap();
        assert!(after.key_id().as_ref() == Some(&rotation.new_key_id) && !after.is_rotating());
        if keys.len() > 1 {
            assert_eq!(
                (text.trim_end(), vault.key_id().as_ref()),
                (keys[0], Some(&rotation.new_key_id))
            );
        } else {
            assert_eq!(vault.key_id().as_ref(), Some(&rotation.old_key_id));
            assert_ne!(rotation.new_key_id, rotation.old_key_id);
        }
    }

    fn refuse(&self, data: &[u8]) {
        let error = open(&self.file())
            .err()
            .unwrap_or_else(|| panic!("{data:?} is accepted"));
        let reason =
            error.strip_prefix(&format!("encryption.key_file {}: ", self.file().display()));
        let known = [
            "must hold 64 hex digits a line",
            "stream did not contain valid UTF-8",
        ];
        assert!(
            reason.is_some_and(|reason| known.contains(&reason)),
            "{error:?}"
        );
        assert!(
            self.system
                .block_on(self.store.encryption_key().rotate())
                .is_err()
        );
        assert_eq!(
            fs::read(self.file()).unwrap(),
            data,
            "a file that is refused stays as it is"
        );
    }
}

/// Returns the keys in a valid file.
fn keys(data: &[u8]) -> Option<Vec<&str>> {
    let words: Vec<&str> = std::str::from_utf8(data).ok()?.split_whitespace().collect();
    let is_key = |word: &&str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    (!words.is_empty() && words.iter().all(is_key)).then_some(words)
}

fn write_seeds() {
    let (one, two) = ("0123456789abcdef".repeat(4), "FEDCBA9876543210".repeat(4));
    let texts = [
        format!("{one}\n"),
        format!("{two}\n{one}\n"),
        one.clone(),
        format!("\n {one}\t{two} "),
        "abc\n".into(),
    ];
    seeds::write(
        "key_file",
        texts
            .into_iter()
            .chain([String::new(), format!("{one}\n{one}\n")]),
    );
}
