//! Files with stream keys that earlier versions' broadcasts left in the temporary directory after a crash.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Maximum size of such a file. It has two lines, an application and a stream key: parts of a URL.
const MAX_BYTES: u64 = 8 << 10;

/// Deletes such files, and logs their number.
pub(super) async fn remove() {
    let removed =
        // Only this user's: the temporary directory is shared, and other servers may run as other users.
        tokio::task::spawn_blocking(|| remove_from(&std::env::temp_dir(), geteuid().as_raw()))
            .await;
    match removed {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(count)) => {
            log::info!(files = count; "deleted the files with stream keys that an earlier version left");
        }
        Ok(Err(error)) => log::warn!(
            "the temporary directory is not searched for files with stream keys: {error}"
        ),
    }
}

/// Deletes a user's files in a directory, and returns their number. A file that cannot be read or deleted stays.
fn remove_from(directory: &Path, user: u32) -> io::Result<usize> {
    let entries = fs::read_dir(directory)?.filter_map(Result::ok);
    // By name first, which is cheaper than opening the file.
    let ours = entries.filter(|entry| has_our_name(entry) && is_ours(entry, user).unwrap_or(false));
    Ok(ours
        .filter(|entry| fs::remove_file(entry.path()).is_ok())
        .count())
}

/// Returns whether a name is `.tmp` and six letters or digits: the `tempfile` crate's default.
fn has_our_name(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let random = name.to_str().and_then(|name| name.strip_prefix(".tmp"));
    random.is_some_and(|random| {
        random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Returns whether this is the user's regular file with a stream key. Symbolic links are not followed.
fn is_ours(entry: &DirEntry, user: u32) -> io::Result<bool> {
    if !entry.file_type()?.is_file() {
        return Ok(false);
    }
    // Anyone may create files there. A named pipe must not block the start, and a link must not lead elsewhere.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(entry.path())?;
    let metadata = file.metadata()?;
    // Checked again on the open file, since the entry may have been replaced.
    Ok(metadata.is_file()
        && metadata.uid() == user
        && metadata.len() <= MAX_BYTES
        && has_stream_key(file)?)
}

fn has_stream_key(file: File) -> io::Result<bool> {
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    let mut lines = text.trim_ascii_end().split(|byte| *byte == b'\n');
    let starts = [lines.next(), lines.next()].map(Option::unwrap_or_default);
    Ok(starts[0].starts_with(b"rtmp_app=")
        && starts[1].starts_with(b"rtmp_playpath=")
        // Another program's file may start alike.
        && lines.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "rtmp_app=live\nrtmp_playpath=secret\n";

    /// Proves S-70.
    #[test]
    fn files_with_stream_keys_are_deleted_and_nothing_else() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (of, kept) = (
            |name: &str| directory.path().join(name),
            elsewhere.path().join("kept"),
        );
        let user = geteuid().as_raw();
        let ours = [".tmpAbc123", ".tmp000000"];
        ours.iter()
            .for_each(|name| fs::write(of(name), KEY).unwrap());
        let others = [
            (".tmpAbc1234", KEY),
            (".tmpAbc12", KEY),
            (".tmpAbc12_", KEY),
            ("tmpAbc123", KEY),
            (".tmpOther1", "rtmp_app=live\n"),
            (".tmpOther2", "a\nrtmp_app=live\nrtmp_playpath=secret\n"),
            (".tmpOther3", "rtmp_app=live\nrtmp_playpath=secret\nmore\n"),
            (".tmpOther4", ""),
        ];
        others
            .iter()
            .for_each(|(name, text)| fs::write(of(name), text).unwrap());
        fs::write(&kept, KEY).unwrap();
        std::os::unix::fs::symlink(&kept, of(".tmpLinked")).unwrap();
        fs::create_dir(of(".tmpFolder")).unwrap();
        assert_eq!(
            remove_from(directory.path(), user + 1).unwrap(),
            0,
            "the files belong to another user"
        );
        assert_eq!(remove_from(directory.path(), user).unwrap(), ours.len());
        assert!(ours.iter().all(|name| !of(name).exists()));
        assert!(others.iter().all(|(name, _)| of(name).exists()));
        assert!(kept.exists() && of(".tmpLinked").exists() && of(".tmpFolder").exists());
        assert_eq!(remove_from(directory.path(), user).unwrap(), 0);
        assert!(remove_from(&of("missing"), user).is_err());
    }
}
