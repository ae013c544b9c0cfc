//! Recording paths: relative names inside a directory.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::secret::{BASE62, unique_text};
use crate::visible::{deceptive_class, is_deceptive};
use crate::{RoomName, Timestamp};

/// Maximum bytes in a requested path.
// The contract's limit.
const LONGEST: usize = 512;
/// Maximum bytes in a path: a number and an extension may be added to the requested one.
// `-2` and so on, and an extension.
const LONGEST_CHOSEN: usize = LONGEST + 16;
/// Maximum bytes in a name between two slashes, as in most file systems.
pub const LONGEST_NAME: usize = 255;

/// Relative path that cannot leave its directory: no `..`, no leading `/`, no backslash, no NUL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePath(Arc<str>);

/// The text is not such a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a relative path of 1 to 512 bytes that names a file: no leading /, no .. component, no component over 255 \
     bytes, no backslash, no character that controls the text or its direction"
)]
pub struct ParseFilePathError;

/// Returns a time as file names have it. Some file systems do not allow colons.
fn time_text(at: Timestamp) -> String {
    at.to_string()
        .chars()
        .filter(|c| !matches!(c, ':' | '-'))
        .collect()
}

impl FilePath {
    /// Parses a requested path. Recorded paths may be longer, and have characters that set the text
    /// direction.
    ///
    /// # Errors
    /// Fails if it is not a path, or no file could have it.
    pub fn requested(text: &str) -> Result<Self, ParseFilePathError> {
        let fits = text.len() <= LONGEST && text.split('/').all(|name| name.len() <= LONGEST_NAME);
        // Operators read paths in terminals and logs.
        let fits = fits && !text.contains(is_deceptive);
        if fits {
            text.parse()
        } else {
            Err(ParseFilePathError)
        }
    }

    /// Returns a recording's default name: `{room}-{UTC time}.mp4`, or `.ogg` for audio only.
    pub fn timestamped(room: &RoomName, at: Timestamp, audio_only: bool) -> Self {
        let extension = if audio_only { "ogg" } else { "mp4" };
        // A room's name is valid in a path, so the result needs no check.
        Self(format!("{room}-{}.{extension}", time_text(at)).into())
    }

    /// Returns the default name with eight random characters, for recordings of a room that may start in the same millisecond.
    pub fn unique(room: &RoomName, at: Timestamp) -> Self {
        let random = unique_text(8, BASE62);
        Self(format!("{room}-{}-{random}.mp4", time_text(at)).into())
    }

    /// Splits the path before its extension's dot, if it has one.
    pub fn split_extension(&self) -> (&str, Option<&str>) {
        let name = self.0.rfind('/').map_or(0, |slash| slash + 1);
        // A name's leading dot marks a hidden file and no extension.
        match self.0[name..].rfind('.').filter(|dot| *dot > 0) {
            Some(dot) => (&self.0[..name + dot], Some(&self.0[name + dot + 1..])),
            None => (&self.0, None),
        }
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FilePath {
    type Err = ParseFilePathError;

    fn from_str(text: &str) -> Result<Self, ParseFilePathError> {
        // A backslash separates folders on Windows.
        let printable = !text.chars().any(|c| c.is_control() || c == '\\');
        // Bytes, since file systems limit bytes.
        let sized = (1..=LONGEST_CHOSEN).contains(&text.len());
        // An empty component is a leading, a trailing or a doubled slash; a lone dot names no file.
        let inside = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if printable && sized && inside {
            Ok(Self(text.into()))
        } else {
            Err(ParseFilePathError)
        }
    }
}

/// Pattern for a character that is none of these, no slash, no backslash, and not deceptive ([`is_deceptive`]).
macro_rules! other_than {
    ($these:literal) => {
        concat!("[^", $these, r"/\\", deceptive_class!(), "]")
    };
}

/// Component pattern: not empty, and neither `.` nor `..`.
macro_rules! component {
    () => {
        concat!(
            r"(\.{0,2}",
            other_than!("."),
            other_than!(""),
            r"*|\.{3}",
            other_than!(""),
            "*)"
        )
    };
}

impl FilePath {
    /// Pattern for requested paths: components between slashes.
    pub const PATTERN: &'static str = concat!("^", component!(), "(/", component!(), ")*$");
}

crate::schema::wire_text!(
    FilePath,
    1..=LONGEST,
    "A relative path of 1 to 512 bytes that names a file; a name in it has 255 bytes at most."
);

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_that_leave_the_directory_or_name_no_file_are_refused() {
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a/..",
            "..",
            ".",
            "a//b",
            "a/",
            "a\\b",
            "a\0b",
            "a\nb",
        ] {
            assert_eq!(bad.parse::<FilePath>(), Err(ParseFilePathError), "{bad:?}");
        }
        for good in ["a.mp4", "2026/03/stand-up 1.mp4", "..a", "a..b/c", "ü.ogg"] {
            assert!(
                good.parse::<FilePath>().is_ok() && FilePath::requested(good).is_ok(),
                "{good:?}"
            );
        }
    }

    #[test]
    fn a_path_that_no_file_can_have_cannot_be_asked_for() {
        let longest = "x".repeat(LONGEST_NAME);
        for good in [
            longest.clone(),
            format!("{longest}/{longest}"),
            format!("{longest}/a/b"),
        ] {
            assert!(FilePath::requested(&good).is_ok(), "{good:?}");
        }
        let umlauts = "ü".repeat(LONGEST_NAME / 2 + 1);
        for bad in [
            "a\u{202e}4pm.exe",
            "\u{200f}/a",
            "a/\u{2066}b\u{2069}",
            "\u{61c}",
            "a\u{2028}",
        ] {
            assert_eq!(FilePath::requested(bad), Err(ParseFilePathError), "{bad:?}");
            assert!(
                bad.parse::<FilePath>().is_ok(),
                "what was recorded can be read: {bad:?}"
            );
        }
        for bad in [
            format!("{longest}x"),
            format!("a/{longest}x/b"),
            umlauts,
            format!("{longest}/{longest}/a"),
            "..".into(),
        ] {
            assert_eq!(
                FilePath::requested(&bad),
                Err(ParseFilePathError),
                "{bad:?}"
            );
        }
        assert!(
            format!("{longest}/{longest}-10000.webm")
                .parse::<FilePath>()
                .is_ok(),
            "what was chosen can be read"
        );
    }

    #[test]
    fn the_default_name_says_room_and_time() {
        let path = FilePath::timestamped(
            &"standup".parse().unwrap(),
            Timestamp::from_millis(1_700_000_000_123),
            false,
        );
        assert_eq!(path.as_str(), "standup-20231114T221320.123Z.mp4");
        assert_eq!(path.to_string(), path.as_str());
    }

    #[test]
    fn recordings_that_start_together_have_names_of_their_own() {
        let (room, at) = ("standup".parse().unwrap(), Timestamp::from_millis(0));
        let path = FilePath::unique(&room, at);
        let stem = path.as_str().strip_suffix(".mp4").unwrap();
        let random = stem.strip_prefix("standup-19700101T000000.000Z-").unwrap();
        assert_eq!(random.len(), 8);
        assert_eq!(FilePath::requested(path.as_str()), Ok(path.clone()));
        assert_ne!(FilePath::unique(&room, at), path);
    }

    proptest! {
        #[test]
        fn the_pattern_says_what_the_parser_accepts(text in "[a./\\\\\u{0}\u{202e}\u{2069}]{1,8}") {
            let pattern = regex::Regex::new(FilePath::PATTERN).unwrap();
            prop_assert_eq!(pattern.is_match(&text), FilePath::requested(&text).is_ok());
        }

        /// Proves S-67.
        #[test]
        fn whatever_is_taken_stays_inside(text in "[a./\\\\]{0,12}") {
            if let Ok(path) = text.parse::<FilePath>() {
                let mut parts = Path::new(path.as_str()).components();
                prop_assert!(parts.all(|part| matches!(part, Component::Normal(_))));
            }
        }
    }
}
