//! The previous server process with this data directory. It has ended, since its lock is free, so this process can take over its database
//! lease without waiting.
//!
//! The lock file names the process, the file itself and the machine's boot. In a copy of the data directory one of them differs, so a copy
//! never identifies a process that may still run.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;

use conclave_db::lease::Holder;

/// Linux boot id; changes with each start.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Writes this process's id into the locked file. Returns the previous holder's id, if that process can have had no other lock file.
pub(super) fn replace(mut lock: &File, holder: Holder) -> io::Result<Option<Holder>> {
    // Without it, a copied file could not be recognised.
    let Ok(boot) = fs::read_to_string(BOOT) else {
        return Ok(None);
    };
    let metadata = lock.metadata()?;
    let place = format!("{} {}:{}", boot.trim(), metadata.dev(), metadata.ino());
    lock.rewind()?;
    // Any other content was not written by this function.
    let text = io::read_to_string(lock).unwrap_or_default();
    let written = text.trim_end().split_once(' ');
    let predecessor = written
        .filter(|(_, of)| *of == place)
        .and_then(|(holder, _)| holder.parse().ok());
    // After the read. A crash between both writes leaves an empty file: the next start then waits for the lease to expire.
    lock.set_len(0)?;
    lock.write_all(format!("{holder} {place}\n").as_bytes())?;
    Ok(predecessor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> File {
        File::options()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .unwrap()
    }

    #[test]
    fn a_process_learns_which_one_had_the_lock_before_and_nothing_from_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (
            folder.path().join("server.lock"),
            folder.path().join("copy"),
        );
        let [first, second, third] = [Holder::random(), Holder::random(), Holder::random()];
        assert_eq!(replace(&open(&path), first).unwrap(), None);
        fs::copy(&path, &copy).unwrap();
        assert_eq!(replace(&open(&path), second).unwrap(), Some(first));
        assert_eq!(replace(&open(&path), third).unwrap(), Some(second));
        assert_eq!(replace(&open(&copy), third).unwrap(), None);
        fs::write(&path, "7b1e of another boot").unwrap();
        assert_eq!(replace(&open(&path), third).unwrap(), None);
    }
}
