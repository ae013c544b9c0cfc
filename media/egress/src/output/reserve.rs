//! Names, containers and modes for recorded files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use conclave_model::ProjectId;
use conclave_model::filepath::{FilePath, LONGEST_NAME};

use crate::codec::{Container, Content};

/// Maximum names tried for a file.
const MAX_NAMES: u32 = 10_000;

// Recordings are readable by the server's user and group only.
const FILE_MODE: u32 = 0o640;
const DIRECTORY_MODE: u32 = 0o750;
/// Suffix for the copy made when a recording ends.
const UNFINISHED: &str = ".unfinished";

/// Error when no file was created.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// The path is not usable: a component is a file, or a name is too long.
    #[error(
        "no file can have this path: one of its directories is a file, or one of its names is too long"
    )]
    Path,
    /// The recordings directory is not usable.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Empty file created for a recording.
#[derive(Debug)]
pub struct ReservedFile {
    /// Absolute path.
    pub path: PathBuf,
    /// Path within the project's directory.
    pub filepath: FilePath,
    /// File format.
    pub container: Container,
}

/// Returns a file's stem, extension and container. The extension in the path decides if its
/// container can hold the content. A known extension that does not fit is replaced; an unknown one
/// is kept and followed by the default one.
fn choose_container(path: &FilePath, content: Content) -> (String, String, Container) {
    let (stem, extension) = path.split_extension();
    let named = extension.and_then(Container::from_extension);
    match (named, extension) {
        (Some(container), Some(extension)) if container.can_have(content) => {
            (stem.to_owned(), extension.to_owned(), container)
        }
        _ => {
            let container = Container::default_for(content);
            // Unknown extensions belong to the name: `2.November` becomes `2.November.mp4`.
            let stem = if named.is_some() { stem } else { path.as_str() };
            (stem.to_owned(), container.extension().to_owned(), container)
        }
    }
}

/// Returns the container for a recording with this path.
pub fn container(filepath: &FilePath, content: Content) -> Container {
    choose_container(filepath, content).2
}

/// Creates an empty file for a recording. Names of existing files and those in `taken` are never
/// used: `-2`, `-3` and so on are inserted before the extension.
///
/// # Errors
/// Fails if the directory or the file cannot be created.
pub fn reserve(
    recordings: &Path,
    project: &ProjectId,
    (filepath, taken): (&FilePath, &[FilePath]),
    content: Content,
) -> Result<ReservedFile, ReserveError> {
    let (stem, extension, container) = choose_container(filepath, content);
    let root = recordings.join(project.as_str());
    create_directory(&root)?;
    for number in 1..=MAX_NAMES {
        let suffix = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let end = format!("{suffix}.{extension}");
        let filepath: FilePath = format!("{}{end}", shortened(&stem, end.len()))
            .parse()
            .map_err(io::Error::other)?;
        // Uploaded recordings are no longer in this directory, but their names are in use at the destination.
        if taken.contains(&filepath) {
            continue;
        }
        let path = root.join(filepath.as_str());
        // The project's directory exists by now, so an error concerns the requested path.
        path.parent()
            .map_or(Ok(()), create_directory)
            .map_err(path_error)?;
        // Creating the file claims its name: if two egresses start together, one gets the next
        // number.
        match create_new(&path) {
            Ok(_) => {
                return Ok(ReservedFile {
                    path,
                    filepath,
                    container,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(path_error(error)),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "too many files of this name exist",
    )
    .into())
}

/// Cuts a path's last name so that a suffix of this length fits.
fn shortened(stem: &str, end: usize) -> &str {
    let name = stem.rfind('/').map_or(0, |slash| slash + 1);
    let mut length = stem.len().min(name + LONGEST_NAME.saturating_sub(end));
    // The limit is in bytes, but a cut inside a character would not be UTF-8.
    while !stem.is_char_boundary(length) {
        length -= 1;
    }
    &stem[..length]
}

fn path_error(error: io::Error) -> ReserveError {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, NotADirectory};
    match error.kind() {
        // A file has a directory's name.
        AlreadyExists | NotADirectory | InvalidFilename => ReserveError::Path,
        _ => error.into(),
    }
}

fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
}

/// Creates an empty file for ffmpeg to write.
///
/// # Errors
/// Fails if the file exists, or cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Returns the path for the copy made when a recording ends.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    if name.len() + UNFINISHED.len() > LONGEST_NAME {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        // A long name has no room for the suffix, so its hash stands for it.
        name = format!("{:016x}", hasher.finish()).into();
    }
    name.push(UNFINISHED);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use conclave_sfu::Codec;

    use super::*;

    fn reserved(directory: &Path, filepath: &str, content: Content) -> (String, Container) {
        reserved_beside(directory, filepath, &[], content)
    }

    fn reserved_beside(
        directory: &Path,
        filepath: &str,
        taken: &[FilePath],
        content: Content,
    ) -> (String, Container) {
        let project = "prj_0123456789ab".parse().unwrap();
        let file = reserve(
            directory,
            &project,
            (&filepath.parse().unwrap(), taken),
            content,
        )
        .unwrap();
        assert!(file.path.starts_with(directory.join("prj_0123456789ab")) && file.path.exists());
        (file.filepath.to_string(), file.container)
    }

    #[test]
    fn an_existing_file_is_never_used() {
        let directory = tempfile::tempdir().unwrap();
        let names = [(); 3].map(|()| reserved(directory.path(), "a.b/c.mp4", Content::Video).0);
        assert_eq!(names, ["a.b/c.mp4", "a.b/c-2.mp4", "a.b/c-3.mp4"]);
    }

    #[test]
    fn a_taken_name_is_never_used() {
        let directory = tempfile::tempdir().unwrap();
        let taken = ["a.mp4", "a-3.mp4"].map(|name| name.parse().unwrap());
        let names =
            [(); 2].map(|()| reserved_beside(directory.path(), "a.mp4", &taken, Content::Video).0);
        assert_eq!(names, ["a-2.mp4", "a-4.mp4"]);
    }

    #[test]
    fn a_long_name_is_cut_where_a_number_or_an_extension_would_not_fit() {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("a/{}.mp4", "x".repeat(LONGEST_NAME - 4));
        for expected in [
            name.clone(),
            format!("a/{}-2.mp4", "x".repeat(LONGEST_NAME - 6)),
        ] {
            assert_eq!(
                reserved(directory.path(), &name, Content::Video).0,
                expected
            );
        }
        let umlauts = "ü".repeat(LONGEST_NAME / 2);
        let expected = format!("{}.mp4", "ü".repeat(LONGEST_NAME / 2 - 2));
        assert_eq!(
            reserved(directory.path(), &umlauts, Content::Video).0,
            expected
        );
        let copy = unfinished(&directory.path().join(&name[2..]));
        fs::write(&copy, "").unwrap();
        assert_ne!(copy, unfinished(&directory.path().join(&expected)));
    }

    #[test]
    fn a_file_is_no_directory() {
        let directory = tempfile::tempdir().unwrap();
        let project = "prj_0123456789ab".parse().unwrap();
        reserved(directory.path(), "a/b.mp4", Content::Video);
        for below in ["a/b.mp4/c.mp4", "a/b.mp4/c/d.mp4"] {
            let refused = reserve(
                directory.path(),
                &project,
                (&below.parse().unwrap(), &[]),
                Content::Video,
            );
            assert!(matches!(refused, Err(ReserveError::Path)), "{refused:?}");
        }
        // An unusable recordings directory is not the client's fault.
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = reserve(
            &file,
            &project,
            (&"a.mp4".parse().unwrap(), &[]),
            Content::Video,
        );
        assert!(matches!(refused, Err(ReserveError::Io(_))), "{refused:?}");
    }

    /// Proves S-86.
    #[test]
    fn other_users_read_no_recording() {
        let directory = tempfile::tempdir().unwrap();
        let (name, _) = reserved(directory.path(), "a/b.mp4", Content::Video);
        let mut path = directory.path().join("prj_0123456789ab").join(name);
        while path != directory.path() {
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o007,
                0,
                "{}",
                path.display()
            );
            path.pop();
        }
    }

    #[test]
    fn the_extension_names_the_format_if_that_can_have_the_content() {
        let directory = tempfile::tempdir().unwrap();
        for (filepath, content, expected, container) in [
            ("a.webm", Content::Video, "a.webm", Container::Webm),
            ("b.ogg", Content::Video, "b.mp4", Container::Mp4),
            (
                "c.mp4",
                Content::Track(Codec::Vp8),
                "c.webm",
                Container::Webm,
            ),
            (
                "d.mp4",
                Content::Track(Codec::H264),
                "d.mp4",
                Container::Mp4,
            ),
            (
                "e.webm",
                Content::Track(Codec::H264),
                "e.mp4",
                Container::Mp4,
            ),
            ("e", Content::Track(Codec::Av1), "e.webm", Container::Webm),
            (
                "h.webm",
                Content::Track(Codec::H265),
                "h.mp4",
                Container::Mp4,
            ),
            ("i.mp4", Content::Track(Codec::Vp9), "i.mp4", Container::Mp4),
            (
                "f.mp4",
                Content::Track(Codec::Opus),
                "f.mp4",
                Container::Mp4,
            ),
            ("g", Content::Audio, "g.ogg", Container::Ogg),
            (".hidden", Content::Video, ".hidden.mp4", Container::Mp4),
            (
                "2.November",
                Content::Video,
                "2.November.mp4",
                Container::Mp4,
            ),
            (
                "x/i.MKV",
                Content::Track(Codec::Vp8),
                "x/i.MKV",
                Container::Matroska,
            ),
        ] {
            assert_eq!(
                reserved(directory.path(), filepath, content),
                (expected.into(), container),
                "{filepath}"
            );
        }
    }
}
