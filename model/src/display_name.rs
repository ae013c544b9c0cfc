//! Display name of a participant that chooses it itself.

use std::fmt;
use std::str::FromStr;

use crate::visible::{deceptive_class, is_deceptive};

/// Maximum length, in bytes.
const LONGEST: usize = 256;

/// Name of 1 to 256 bytes without deceptive characters: all participants in the room read it, and nobody has vouched for its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayName(String);

/// The text is not a display name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {LONGEST} bytes of text without control characters and marks of direction")]
pub struct ParseDisplayNameError;

impl DisplayName {
    /// Pattern for names.
    pub const PATTERN: &'static str = concat!("^[^", deceptive_class!(), "]+$");

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DisplayName {
    type Err = ParseDisplayNameError;

    fn from_str(text: &str) -> Result<Self, ParseDisplayNameError> {
        if (1..=LONGEST).contains(&text.len()) && !text.contains(is_deceptive) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseDisplayNameError)
        }
    }
}

impl From<DisplayName> for String {
    fn from(name: DisplayName) -> Self {
        name.0
    }
}

impl fmt::Display for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::schema::wire_text!(
    DisplayName,
    1..=LONGEST,
    "The display name of the participant: 1 to 256 bytes of text without control characters and marks of direction."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_256_bytes_in_any_script() {
        for name in [
            "A",
            "François-Noël Müller",
            "李雷",
            "أحمد",
            "👩\u{200d}🍳",
            " ",
        ] {
            assert_eq!(name.parse::<DisplayName>().unwrap().as_str(), name);
        }
        assert!("é".repeat(128).parse::<DisplayName>().is_ok());
        for refused in [String::new(), "é".repeat(128) + "x"] {
            assert_eq!(refused.parse::<DisplayName>(), Err(ParseDisplayNameError));
        }
    }

    #[test]
    fn the_pattern_says_which_characters_the_parser_accepts() {
        let pattern = regex::Regex::new(DisplayName::PATTERN).unwrap();
        for text in [
            "a\0",
            "a\nb",
            "\u{7f}",
            "\u{9b}31m",
            "a\u{202e}b",
            "\u{200f}",
            "\u{2028}",
            "\u{2069}",
            "é",
            "a b",
            "\u{200d}",
        ] {
            assert_eq!(
                pattern.is_match(text),
                text.parse::<DisplayName>().is_ok(),
                "{text:?}"
            );
        }
    }
}
