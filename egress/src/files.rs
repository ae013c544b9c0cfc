//! Names and formats of recorded files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use conclave_model::ProjectId;
use conclave_model::filepath::FilePath;
use conclave_rtc::Codec;

/// How many names are tried for a file that exists.
const NAMES: u32 = 10_000;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// MP4.
    Mp4,
    /// WebM: VP8 and Opus.
    Webm,
    /// Ogg: Opus alone.
    Ogg,
    /// Matroska, which takes every codec.
    Matroska,
}

/// A file that was created empty for a recording.
#[derive(Debug)]
pub struct ReservedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its path within the directory of the project.
    pub filepath: FilePath,
    /// Its format.
    pub container: Container,
}

impl Container {
    /// Returns the name by which ffmpeg knows the format.
    pub const fn format(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Ogg => "ogg",
            Self::Matroska => "matroska",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Ogg => "ogg",
            Self::Matroska => "mkv",
        }
    }

    fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "mp4" | "m4a" | "m4v" => Some(Self::Mp4),
            "webm" => Some(Self::Webm),
            "ogg" | "oga" | "opus" => Some(Self::Ogg),
            "mkv" | "mka" => Some(Self::Matroska),
            _ => None,
        }
    }

    /// Returns whether the format can have a codec.
    const fn can_have(self, codec: Codec) -> bool {
        match (self, codec) {
            (Self::Matroska, _) | (_, Codec::Opus) | (Self::Mp4, Codec::H264) | (Self::Webm, Codec::Vp8) => true,
            (Self::Ogg | Self::Mp4 | Self::Webm, _) => false,
        }
    }

    const fn default_for(codec: Codec) -> Self {
        match codec {
            Codec::Vp8 => Self::Webm,
            Codec::H264 => Self::Mp4,
            Codec::Opus => Self::Ogg,
        }
    }
}

/// Splits a path before the dot of its extension, if it has one.
fn split_extension(path: &str) -> (&str, Option<&str>) {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    match path[name..].rfind('.').filter(|dot| *dot > 0) {
        Some(dot) => (&path[..name + dot], Some(&path[name + dot + 1..])),
        None => (path, None),
    }
}

/// Returns the format that the extension names, if it can have the codec, and otherwise the usual one with its extension in
/// place of a known one that does not fit, or behind the name.
fn choose(path: &str, codec: Codec) -> (String, String, Container) {
    let (stem, extension) = split_extension(path);
    let named = extension.and_then(Container::from_extension);
    match (named, extension) {
        (Some(container), Some(extension)) if container.can_have(codec) => {
            (stem.to_owned(), extension.to_owned(), container)
        }
        _ => {
            let container = Container::default_for(codec);
            let stem = if named.is_some() { stem } else { path };
            (stem.to_owned(), container.extension().to_owned(), container)
        }
    }
}

/// Creates an empty file for a recording. A file that exists is never used: `-2`, `-3` and so on are put before the extension.
///
/// # Errors
/// The directory or the file cannot be created.
pub fn reserve(recordings: &Path, project: &ProjectId, filepath: &FilePath, codec: Codec) -> io::Result<ReservedFile> {
    let (stem, extension, container) = choose(filepath.as_str(), codec);
    let root = recordings.join(project.as_str());
    for number in 1..=NAMES {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let filepath: FilePath = format!("{stem}{suffix}.{extension}").parse().map_err(io::Error::other)?;
        let path = root.join(filepath.as_str());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match create_new(&path) {
            Ok(_) => return Ok(ReservedFile { path, filepath, container }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many files of this name exist"))
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Returns the path of the copy that is made when a recording ends.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(directory: &Path, filepath: &str, codec: Codec) -> (String, Container) {
        let project = "prj_0123456789ab".parse().unwrap();
        let file = reserve(directory, &project, &filepath.parse().unwrap(), codec).unwrap();
        assert!(file.path.starts_with(directory.join("prj_0123456789ab")) && file.path.exists());
        (file.filepath.to_string(), file.container)
    }

    #[test]
    fn an_existing_file_is_never_used() {
        let directory = tempfile::tempdir().unwrap();
        let names = [(); 3].map(|()| reserved(directory.path(), "a.b/c.mp4", Codec::H264).0);
        assert_eq!(names, ["a.b/c.mp4", "a.b/c-2.mp4", "a.b/c-3.mp4"]);
    }

    #[test]
    fn the_extension_names_the_format_if_that_can_have_the_codec() {
        let directory = tempfile::tempdir().unwrap();
        for (filepath, codec, expected, container) in [
            ("a.webm", Codec::Vp8, "a.webm", Container::Webm),
            ("b.ogg", Codec::H264, "b.mp4", Container::Mp4),
            ("c.mp4", Codec::Vp8, "c.webm", Container::Webm),
            ("d.mp4", Codec::H264, "d.mp4", Container::Mp4),
            ("e.webm", Codec::H264, "e.mp4", Container::Mp4),
            ("f.mp4", Codec::Opus, "f.mp4", Container::Mp4),
            ("g", Codec::Opus, "g.ogg", Container::Ogg),
            (".hidden", Codec::H264, ".hidden.mp4", Container::Mp4),
            ("2.November", Codec::H264, "2.November.mp4", Container::Mp4),
            ("x/i.MKV", Codec::Vp8, "x/i.MKV", Container::Matroska),
        ] {
            assert_eq!(reserved(directory.path(), filepath, codec), (expected.into(), container), "{filepath}");
        }
    }
}
