//! The registry of typed ids. Signatures never say `String` for an id.
//!
//! Patterns are those of the contract ("Endpoints" and "Limits"). A text id is parsed once with [`str::parse`] and is
//! cheap to clone.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that does not match the pattern of the id it was to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must match {pattern}")]
pub struct ParseIdError {
    /// The pattern, as a regular expression people can read.
    pub pattern: &'static str,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $pattern:literal, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The pattern every value matches.
            pub const PATTERN: &'static str = $pattern;

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let rule: fn(&str) -> bool = $rule;
                if rule(text) { Ok(Self(text.into())) } else { Err(ParseIdError { pattern: $pattern }) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseIdError;

            fn try_from(text: String) -> Result<Self, ParseIdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A fresh id. Version 7, so that ids made one after another lie side by side in an index.
            #[must_use]
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                // Only the hyphenated form is a UUID of this API: `Uuid` would also take braces and urn: prefixes.
                if text.len() != 36 {
                    return Err(ParseIdError { pattern: "a UUID" });
                }
                Uuid::parse_str(text).map(Self).map_err(|_| ParseIdError { pattern: "a UUID" })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

fn sized(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_word(text: &str, max: usize) -> bool {
    sized(text, max) && text.bytes().all(word)
}

fn is_identity(text: &str) -> bool {
    sized(text, 128) && text.bytes().all(|b| word(b) || b == b'.' || b == b'@')
}

fn is_prefixed_hex(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|hex| hex.len() == 12 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

fn is_namespaced(text: &str) -> bool {
    text.split_once('.')
        .is_some_and(|(project, room)| is_prefixed_hex(project, ProjectId::PREFIX) && is_word(room, 128))
}

/// A sid the media plane gave: opaque, printable, bounded.
fn is_sid(text: &str) -> bool {
    sized(text, 128) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// What stands in front of a project's id: `prj_`.
impl ProjectId {
    /// What every project id starts with.
    pub const PREFIX: &'static str = "prj_";

    /// A fresh project id.
    #[must_use]
    pub fn new() -> Self {
        Self(format!("{}{}", Self::PREFIX, random_hex12()).into())
    }
}

impl Default for ProjectId {
    fn default() -> Self {
        Self::new()
    }
}

impl TemplateId {
    /// A fresh template id.
    #[must_use]
    pub fn new() -> Self {
        Self(format!("tpl_{}", random_hex12()).into())
    }
}

impl Identity {
    /// Somebody who came by a room code and named nobody: `guest-` and eight random characters.
    #[must_use]
    pub fn guest() -> Self {
        const RANDOM_CHARACTERS: usize = 8;
        let random = crate::secret::random_text(RANDOM_CHARACTERS, crate::secret::UNAMBIGUOUS);
        Self(format!("guest-{random}").into())
    }
}

impl Default for TemplateId {
    fn default() -> Self {
        Self::new()
    }
}

impl DestinationId {
    /// A fresh destination id.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(format!("dst_{}", random_hex12()).into())
    }
}

impl NamespacedRoom {
    /// The media plane's name of a project's room: project id, a dot, then the room name.
    #[must_use]
    pub fn new(project: &ProjectId, room: &RoomName) -> Self {
        Self(format!("{project}.{room}").into())
    }

    /// The project and the room this name is made of.
    #[must_use]
    pub fn split(&self) -> (ProjectId, RoomName) {
        // The pattern guarantees the dot; an empty tail would not have parsed.
        let (project, room) = self.0.split_once('.').unwrap_or((&self.0, ""));
        (ProjectId(project.into()), RoomName(room.into()))
    }
}

/// Six random bytes as twelve lower-case hex digits.
fn random_hex12() -> String {
    let bytes: [u8; 6] = crate::secret::random_bytes();
    hex::encode(bytes)
}

text_id!(
    /// A project: `prj_` and twelve hex digits.
    ProjectId, "^prj_[0-9a-f]{12}$", |t| is_prefixed_hex(t, "prj_")
);
text_id!(
    /// A room's name, used once per project.
    RoomName, "^[a-zA-Z0-9_-]{1,128}$", |t| is_word(t, 128)
);
text_id!(
    /// The name the media plane knows a room by.
    NamespacedRoom, "^prj_[0-9a-f]{12}\\.[a-zA-Z0-9_-]{1,128}$", is_namespaced
);
text_id!(
    /// Who a participant is.
    Identity, "^[a-zA-Z0-9_.@-]{1,128}$", is_identity
);
text_id!(
    /// A template: `tpl_` and twelve hex digits.
    TemplateId, "^tpl_[0-9a-f]{12}$", |t| is_prefixed_hex(t, "tpl_")
);
text_id!(
    /// A template's name, unique in the project.
    TemplateName, "^[a-zA-Z0-9_-]{1,64}$", |t| is_word(t, 64)
);
text_id!(
    /// A role's name, unique in its template.
    RoleName, "^[a-zA-Z0-9_-]{1,64}$", |t| is_word(t, 64)
);
text_id!(
    /// A destination: `dst_` and twelve hex digits.
    DestinationId, "^dst_[0-9a-f]{12}$", |t| is_prefixed_hex(t, "dst_")
);
text_id!(
    /// A destination's name, unique in its template.
    DestinationName, "^[a-zA-Z0-9_-]{1,64}$", |t| is_word(t, 64)
);
text_id!(
    /// A bucket or container of somebody's object storage. It can become part of a host name, so it holds nothing that
    /// would end one.
    BucketName, "^[a-zA-Z0-9._$-]{1,255}$", |t| sized(t, 255) && t.bytes().all(|b| word(b) || b == b'.' || b == b'$')
);
text_id!(
    /// A region or an account of somebody's object storage. It can become part of a host name, as a bucket can.
    StorageLabel, "^[a-zA-Z0-9_-]{1,64}$", |t| is_word(t, 64)
);
text_id!(
    /// The media plane's id of one join.
    ParticipantSid, "1 to 128 printable characters", is_sid
);
text_id!(
    /// The media plane's id of one track.
    TrackSid, "1 to 128 printable characters", is_sid
);

text_id!(
    /// The media plane's id of one recording or broadcast.
    EgressId, "1 to 128 printable characters", is_sid
);
text_id!(
    /// The media plane's id of one ingress endpoint.
    IngressId, "1 to 128 printable characters", is_sid
);

uuid_id!(
    /// A room's row.
    RoomId
);
uuid_id!(
    /// The row of a recording or a broadcast.
    EgressRowId
);
uuid_id!(
    /// The row of an ingress endpoint.
    IngressRowId
);
uuid_id!(
    /// One participant's one join.
    SessionId
);
uuid_id!(
    /// A room code's row.
    CodeId
);
uuid_id!(
    /// One change of one participant's role.
    RoleChangeId
);
uuid_id!(
    /// A webhook receiver.
    EndpointId
);
uuid_id!(
    /// One event on its way to one receiver.
    DeliveryId
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_namespaced_room_splits_into_what_it_was_made_of() {
        let (project, room): (ProjectId, RoomName) = (ProjectId::new(), "stand-up_1".parse().unwrap());
        assert_eq!(NamespacedRoom::new(&project, &room).split(), (project, room));
    }

    #[test]
    fn only_the_hyphenated_form_is_a_uuid() {
        let id = SessionId::new();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.0.simple().to_string().parse::<SessionId>().is_err());
        assert!(id.0.urn().to_string().parse::<SessionId>().is_err());
    }

    #[test]
    fn a_guest_is_an_identity_with_eight_random_characters() {
        let guest = Identity::guest();
        assert_eq!(guest.as_str().strip_prefix("guest-").unwrap().len(), 8);
        assert_eq!(guest.as_str().parse(), Ok(guest.clone()));
        assert_ne!(guest, Identity::guest());
    }

    proptest! {
        #[test]
        fn a_room_name_is_exactly_its_pattern(text in "\\PC{0,140}") {
            let fits = (1..=128).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            prop_assert_eq!(text.parse::<RoomName>().is_ok(), fits);
        }

        #[test]
        fn an_identity_is_exactly_its_pattern(text in "[ -~é]{0,140}") {
            let fits = (1..=128).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.@-".contains(c));
            prop_assert_eq!(text.parse::<Identity>().is_ok(), fits);
        }

        #[test]
        fn no_text_makes_an_id_parser_panic(text in any::<String>()) {
            let _ = text.parse::<ProjectId>();
            let _ = text.parse::<TemplateId>();
            let _ = text.parse::<DestinationId>();
            let _ = text.parse::<NamespacedRoom>();
            let _ = text.parse::<SessionId>();
        }
    }
}
