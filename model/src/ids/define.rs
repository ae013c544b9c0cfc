//! Macros that define id types, their parse error, and the rules for text ids.

/// The text is not an id of the wanted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must match {pattern}")]
pub struct ParseIdError {
    /// Allowed values: a regular expression, or a phrase.
    pub pattern: &'static str,
}

macro_rules! text_id {
    ($(#[doc = $doc:literal])+ $name:ident, $pattern:literal, $lengths:expr, $rule:expr) => {
        text_id!($(#[doc = $doc])+ $name, $pattern, $lengths, $rule, allowed: $pattern);
    };
    ($(#[doc = $doc:literal])+ $name:ident, $pattern:literal, $lengths:expr, $rule:expr, allowed: $allowed:literal) => {
        $(#[doc = $doc])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        // An `Arc`, because ids are cloned into messages and keys of maps.
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// The pattern of every value, as a regular expression.
            pub const PATTERN: &'static str = $pattern;

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ids::ParseIdError;

            fn from_str(text: &str) -> Result<Self, $crate::ids::ParseIdError> {
                let rule: fn(&str) -> bool = $rule;
                if rule(text) { Ok(Self(text.into())) } else { Err($crate::ids::ParseIdError { pattern: $allowed }) }
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        $crate::schema::wire_text!($name, $lengths, concat!($($doc, "\n"),+));
    };
}

macro_rules! uuid_id {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub uuid::Uuid);

        impl $name {
            /// The pattern of every value, as a regular expression.
            // Upper case is accepted and written in lower case.
            pub const PATTERN: &'static str = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

            /// Returns a new id of version 7, so that ids created in sequence are adjacent in an index.
            // A new id is not a default: two calls return different values.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(uuid::Uuid::now_v7())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ids::ParseIdError;

            fn from_str(text: &str) -> Result<Self, $crate::ids::ParseIdError> {
                $crate::ids::define::parse_uuid(text).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&self.0, serializer)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::schema::formatted(concat!($($doc, "\n"),+), utoipa::openapi::KnownFormat::Uuid)
            }
        }

        $crate::schema::read_by_from_str!($name);
    };
}

pub(super) use {text_id, uuid_id};

/// Parses a UUID in its hyphenated form. `Uuid` alone would also accept braces, `urn:` prefixes and no hyphens.
pub(super) fn parse_uuid(text: &str) -> Result<uuid::Uuid, ParseIdError> {
    let refusal = ParseIdError { pattern: "a UUID" };
    // The length excludes all other forms.
    if text.len() == 36 {
        uuid::Uuid::parse_str(text).map_err(|_| refusal)
    } else {
        Err(refusal)
    }
}

pub(super) fn sized(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
}

pub(super) fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

pub(super) fn is_word(text: &str, max: usize) -> bool {
    sized(text, max) && text.bytes().all(word)
}

pub(super) fn is_identity(text: &str) -> bool {
    has_identity_pattern(text) && !is_dot_segment(text)
}

pub(super) fn has_identity_pattern(text: &str) -> bool {
    sized(text, 128) && text.bytes().all(|b| word(b) || b == b'.' || b == b'@')
}

/// Returns whether clients resolve the text as a step in a path, which then names something else.
fn is_dot_segment(text: &str) -> bool {
    matches!(text, "." | "..")
}

pub(super) fn is_prefixed_hex(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|hex| {
        // Lower case only, so that each id has one spelling.
        hex.len() == 12 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

pub(super) fn is_namespaced(text: &str) -> bool {
    text.split_once('.').is_some_and(|(project, room)| {
        is_prefixed_hex(project, super::ProjectId::PREFIX) && is_word(room, 128)
    })
}

/// Returns whether the text can be an id from the media plane: 1 to 128 printable ASCII characters without spaces.
pub(super) fn is_sid(text: &str) -> bool {
    // The media plane chooses these ids, so only size and printability are checked.
    sized(text, 128) && text.bytes().all(|b| b.is_ascii_graphic())
}
