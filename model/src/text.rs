//! Free text in a request. A database may end a text at U+0000, so stored text never contains it.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::schema::read_by_from_str;

/// Text without the character U+0000, of any length.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(String);

/// The text contains U+0000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must not contain U+0000")]
pub struct ParseTextError;

impl Text {
    /// Pattern for texts.
    pub const PATTERN: &'static str = r"^[^\u0000]*$";

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Text {
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for Text {
    type Error = ParseTextError;

    fn try_from(text: String) -> Result<Self, ParseTextError> {
        // PostgreSQL rejects the character, and C functions stop at it.
        if text.contains('\0') {
            Err(ParseTextError)
        } else {
            Ok(Self(text))
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl utoipa::PartialSchema for Text {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(Self::PATTERN))
            .into()
    }
}

read_by_from_str!(Text);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_u_0000_is_refused_and_any_other_is_read() {
        let refusal = serde_json::from_value::<Text>("a\0b".into())
            .unwrap_err()
            .to_string();
        assert_eq!(refusal, "must not contain U+0000");
        for accepted in ["", "a\nb", "ü 😀", "\u{1}"] {
            let text: Text = accepted.parse().unwrap();
            assert_eq!(
                (text.as_str(), &*text, text.as_ref()),
                (accepted, accepted, accepted)
            );
            assert_eq!(
                (text.to_string(), String::from(text)),
                (accepted.to_owned(), accepted.to_owned())
            );
        }
    }

    #[test]
    fn the_pattern_says_what_the_parser_accepts() {
        let pattern = regex::Regex::new(Text::PATTERN).unwrap();
        for text in ["", "a\nb", "\0", "a\0b", "é"] {
            assert_eq!(
                pattern.is_match(text),
                text.parse::<Text>().is_ok(),
                "{text:?}"
            );
        }
    }
}
