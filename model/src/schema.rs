//! OpenAPI schemas for the model's text types and for callers' http URLs, and the two macros that
//! make a type text on the wire.
//!
//! `wire_text!` is for a type with `FromStr`, `as_str` and `PATTERN`; `word_enum!` declares an enum whose variants are fixed words. Each
//! states the accepted text once: parser, JSON and description are derived from it.

use std::fmt::{self, Display, Formatter};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::{KnownFormat, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// The text is not among an enum's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {allowed}")]
pub struct ParseWordError {
    /// Allowed words, separated by commas.
    pub allowed: &'static str,
}

/// Parses a string with the type's `FromStr`, whose message becomes the error. `expected` is the
/// error for anything but a string. serde's own `Deserialize` of an enum would also take `{"word":
/// null}` for a word.
pub(crate) fn read_text<'de, D, T>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    deserializer.deserialize_str(TextVisitor {
        expected,
        text: PhantomData,
    })
}

struct TextVisitor<T> {
    expected: &'static str,
    text: PhantomData<T>,
}

impl<T: FromStr<Err: Display>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        // The type's own message names the allowed values.
        text.parse().map_err(E::custom)
    }
}

/// Describes a string with this pattern, and with a length in characters within `lengths`.
pub(crate) fn text(doc: &str, pattern: &str, lengths: RangeInclusive<usize>) -> RefOr<Schema> {
    string(doc)
        .pattern(Some(pattern))
        .min_length(Some(*lengths.start()))
        .max_length(Some(*lengths.end()))
        .into()
}

/// Describes a string in a format that OpenAPI defines.
pub(crate) fn formatted(doc: &str, format: KnownFormat) -> RefOr<Schema> {
    string(doc)
        .format(Some(SchemaFormat::KnownFormat(format)))
        .into()
}

/// Describes a string that is one of these words.
pub(crate) fn words(doc: &str, words: impl IntoIterator<Item = &'static str>) -> RefOr<Schema> {
    string(doc).enum_values(Some(words)).into()
}

/// Describes a string.
pub(crate) fn string(doc: &str) -> ObjectBuilder {
    // Doc comments reach macros with a leading space on each line.
    let lines: Vec<_> = doc.lines().map(str::trim).collect();
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(lines.join("\n").trim_end()))
}

/// An absolute http or https URL, in the description. The place that uses the URL checks its host.
pub struct HttpUrl;

impl PartialSchema for HttpUrl {
    fn schema() -> RefOr<Schema> {
        let doc = "An absolute http or https URL without user name and password.";
        // No `@` before the path, which would end a user name, and no backslash, which some parsers read as a slash.
        let pattern = concat!(
            r"^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\\\s\u0000-\u001f\u007f-\u009f]+",
            r"([/?#][^\\\s\u0000-\u001f\u007f-\u009f]*)?$"
        );
        string(doc).pattern(Some(pattern)).into()
    }
}

impl ToSchema for HttpUrl {}

/// Implements `Serialize`, `Deserialize` through `FromStr`, and a schema with the type's `PATTERN`.
macro_rules! wire_text {
    ($name:ident, $lengths:expr, $doc:expr) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::schema::text($doc, Self::PATTERN, $lengths)
            }
        }

        $crate::schema::read_by_from_str!($name);
    };
}

/// Implements `Deserialize` by [`read_text`], and names the type's schema. The expectation in
/// errors is "a string" by default.
macro_rules! read_by_from_str {
    ($name:ident) => {
        $crate::schema::read_by_from_str!($name, "a string");
    };
    ($name:ident, $expected:expr) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::schema::read_text(deserializer, $expected)
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

/// Declares an enum of fixed words: `FromStr`, `Display`, serde and the description all use these words.
macro_rules! word_enum {
    ($(#[doc = $doc:literal])+ $name:ident {
        $(#[doc = $first_doc:literal])+ $first:ident = $first_word:literal
        $(, $(#[doc = $variant_doc:literal])+ $variant:ident = $word:literal)* $(,)?
    }) => {
        $(#[doc = $doc])+
        // Without `Deserialize`, which `read_by_from_str` implements: serde's own would accept a map.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub enum $name {
            $(#[doc = $first_doc])+ #[serde(rename = $first_word)] $first,
            $($(#[doc = $variant_doc])+ #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All variants, in declaration order.
            pub const ALL: &'static [Self] = &[Self::$first, $(Self::$variant,)*];
            /// All words, separated by commas, for messages.
            pub const WORDS: &'static str = concat!($first_word, $(", ", $word),*);

            /// Returns the word by which the variant is stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { Self::$first => $first_word, $(Self::$variant => $word,)* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::schema::ParseWordError;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $first_word => Ok(Self::$first),
                    $($word => Ok(Self::$variant),)*
                    _ => Err($crate::schema::ParseWordError { allowed: Self::WORDS }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::schema::words(concat!($($doc, "\n"),+), Self::ALL.iter().map(|value| value.as_str()))
            }
        }

        $crate::schema::read_by_from_str!($name, concat!("one of ", $first_word $(, ", ", $word)*));
    };
}

pub(crate) use {read_by_from_str, wire_text, word_enum};

#[cfg(test)]
mod tests {
    use serde_json::json;
    use utoipa::PartialSchema;

    use crate::egress::EgressStatus;
    use crate::{Identity, RoomName};

    #[test]
    fn a_word_parses_serializes_and_is_described_alike() {
        for status in EgressStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
            assert_eq!(json!(status), json!(status.to_string()));
        }
        let words: Vec<_> = EgressStatus::WORDS.split(", ").collect();
        assert_eq!(json!(EgressStatus::schema())["enum"], json!(words));
        assert_eq!(
            "paused".parse::<EgressStatus>().unwrap_err().allowed,
            EgressStatus::WORDS
        );
    }

    /// Proves R-40.
    #[test]
    fn a_word_is_read_from_a_string_alone() {
        assert_eq!(
            serde_json::from_str::<EgressStatus>(r#""active""#).unwrap(),
            EgressStatus::Active
        );
        for other in [
            r#"{"active":null}"#,
            r#"["active"]"#,
            "null",
            "1",
            r#""Active""#,
        ] {
            let refusal = serde_json::from_str::<EgressStatus>(other)
                .unwrap_err()
                .to_string();
            assert!(
                refusal.contains(&format!("one of {}", EgressStatus::WORDS)),
                "{other}: {refusal}"
            );
        }
    }

    #[test]
    fn an_id_is_described_by_its_pattern_and_refused_with_it() {
        let schema = json!(RoomName::schema());
        assert_eq!(
            (&schema["type"], &schema["pattern"]),
            (&json!("string"), &json!(RoomName::PATTERN))
        );
        assert_eq!(
            (&schema["minLength"], &schema["maxLength"]),
            (&json!(1), &json!(128))
        );
        let refusal = serde_json::from_value::<Identity>(json!("a b"))
            .unwrap_err()
            .to_string();
        assert_eq!(refusal, "must match ^[a-zA-Z0-9_.@-]{1,128}$");
    }
}
