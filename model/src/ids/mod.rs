//! Typed ids. No signature has `String` for an id.
//!
//! Patterns are part of the API: they are in its OpenAPI description. An id is parsed once, by [`str::parse`] or by serde with the same
//! error, and is cheap to clone. Its schema has the pattern that its parser accepts.

mod define;

use define::{
    has_identity_pattern, is_identity, is_namespaced, is_prefixed_hex, is_sid, is_word, sized,
    text_id, uuid_id, word,
};

pub use define::ParseIdError;

text_id!(
    /// The id of a project: `prj_` and twelve lower-case hex digits.
    ProjectId, "^prj_[0-9a-f]{12}$", 16..=16, |t| is_prefixed_hex(t, "prj_")
);
text_id!(
    /// The id of a server's data directory: `node_` and twelve lower-case hex digits.
    NodeId, "^node_[0-9a-f]{12}$", 17..=17, |t| is_prefixed_hex(t, "node_")
);
text_id!(
    /// The name of a room, which a project uses once.
    RoomName, "^[a-zA-Z0-9_-]{1,128}$", 1..=128, |t| is_word(t, 128)
);
text_id!(
    /// The start of a room's name.
    // Any start of a name is a name. Not the pattern of names, whose refusal has a code that the contract's list of rooms does not have.
    NamePrefix, "^[0-9A-Za-z_-]{1,128}$", 1..=128, |t| is_word(t, 128)
);
text_id!(
    /// The name of a room on the media plane: project id, dot, room name.
    // At least 16 + 1 + 1 characters, and at most 16 + 1 + 128.
    NamespacedRoom, "^prj_[0-9a-f]{12}\\.[a-zA-Z0-9_-]{1,128}$", 18..=145, is_namespaced
);
text_id!(
    /// The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which HTTP clients resolve
    /// as steps in a path.
    Identity, "^[a-zA-Z0-9_.@-]{1,128}$", 1..=128, is_identity
);
text_id!(
    /// The id of a template: `tpl_` and twelve lower-case hex digits.
    TemplateId, "^tpl_[0-9a-f]{12}$", 16..=16, |t| is_prefixed_hex(t, "tpl_")
);
text_id!(
    /// The name of a template, unique in its project.
    TemplateName, "^[a-zA-Z0-9_-]{1,64}$", 1..=64, |t| is_word(t, 64)
);
text_id!(
    /// The name of a role, unique in its template.
    RoleName, "^[a-zA-Z0-9_-]{1,64}$", 1..=64, |t| is_word(t, 64)
);
text_id!(
    /// The id of a destination: `dst_` and twelve lower-case hex digits.
    DestinationId, "^dst_[0-9a-f]{12}$", 16..=16, |t| is_prefixed_hex(t, "dst_")
);
text_id!(
    /// The name of a destination, unique in its template.
    DestinationName, "^[a-zA-Z0-9_-]{1,64}$", 1..=64, |t| is_word(t, 64)
);
text_id!(
    /// The name of a bucket or container of object storage. It can become part of a host name, so it contains no
    /// character that ends one.
    // S3's oldest buckets have up to 255 characters, Google's contain dots, and Azure's `$web` a dollar sign.
    BucketName, "^[a-zA-Z0-9._$-]{1,255}$", 1..=255, is_bucket
);
text_id!(
    /// The name of a region or an account of object storage. It can become part of a host name, as a bucket can.
    StorageLabel, "^[a-zA-Z0-9_-]{1,64}$", 1..=64, |t| is_word(t, 64)
);
text_id!(
    /// The id that the media plane gives to one join of a participant.
    // The media plane chooses it, so its form is not known in advance.
    ParticipantSid, "^[!-~]{1,128}$", 1..=128, is_sid, allowed: "1 to 128 printable characters"
);
text_id!(
    /// The id that the media plane gives to one published track.
    TrackSid, "^[!-~]{1,128}$", 1..=128, is_sid, allowed: "1 to 128 printable characters"
);

text_id!(
    /// The id that the media plane gives to one recording or broadcast.
    EgressId, "^[!-~]{1,128}$", 1..=128, is_sid, allowed: "1 to 128 printable characters"
);
text_id!(
    /// The id that the media plane gives to one ingress endpoint.
    IngressId, "^[!-~]{1,128}$", 1..=128, is_sid, allowed: "1 to 128 printable characters"
);

uuid_id!(
    /// The key of a room's record.
    RoomId
);
uuid_id!(
    /// The key of a recording's or a broadcast's record.
    EgressRowId
);
uuid_id!(
    /// The key of an ingress endpoint's record.
    IngressRowId
);
uuid_id!(
    /// The id of a session: one join of one participant.
    SessionId
);
uuid_id!(
    /// The id of a room code.
    CodeId
);
uuid_id!(
    /// The id of a change of a participant's role.
    RoleChangeId
);
uuid_id!(
    /// The id of a ban of an identity from a room.
    BanId
);
uuid_id!(
    /// The id of a revocation of an identity's tokens for a room.
    RevocationId
);
uuid_id!(
    /// The id of a webhook endpoint.
    EndpointId
);
uuid_id!(
    /// The id of a webhook delivery: one event for one endpoint.
    DeliveryId
);

/// Returns whether the text can be a bucket: letters, digits, `_`, `-`, `.` and `$`.
fn is_bucket(text: &str) -> bool {
    sized(text, 255) && text.bytes().all(|b| word(b) || b == b'.' || b == b'$')
}

impl ProjectId {
    /// The prefix of every project id.
    pub const PREFIX: &'static str = "prj_";

    /// Returns a new random id.
    pub fn new() -> Self {
        Self(format!("{}{}", Self::PREFIX, random_hex12()).into())
    }
}

impl Default for ProjectId {
    fn default() -> Self {
        Self::new()
    }
}

impl NodeId {
    /// Returns a new random id.
    #[allow(clippy::new_without_default, reason = "a random id is no default")]
    pub fn new() -> Self {
        Self(format!("node_{}", random_hex12()).into())
    }
}

impl TemplateId {
    /// Returns a new random id.
    pub fn new() -> Self {
        Self(format!("tpl_{}", random_hex12()).into())
    }
}

impl EgressId {
    /// Returns a new random id, for a recording that no media plane has accepted.
    pub fn random() -> Self {
        // The form of the embedded media plane's ids.
        let random = crate::secret::random_text(12, crate::secret::BASE62);
        Self(format!("EG_{random}").into())
    }
}

impl Identity {
    /// Returns a record's identity. Earlier versions' records may have `.` and `..`, which are refused in requests.
    pub fn from_record(text: &str) -> Option<Self> {
        has_identity_pattern(text).then(|| Self(text.into()))
    }

    /// Returns a random identity for a participant that exchanges a room code without naming one: `guest-` and eight characters.
    pub fn guest() -> Self {
        // 40 bits, enough to be unique in a room.
        const RANDOM_CHARACTERS: usize = 8;
        let random = crate::secret::random_text(RANDOM_CHARACTERS, crate::secret::UNAMBIGUOUS);
        // Within the identity's pattern, so it needs no check.
        Self(format!("guest-{random}").into())
    }

    /// Returns a random identity that takes an erased identity's place in the records: `erased-` and 24 characters.
    pub fn erased() -> Self {
        // 120 bits. Random rather than derived from the identity, so that no key and no guess leads back to it.
        const RANDOM_CHARACTERS: usize = 24;
        let random = crate::secret::random_text(RANDOM_CHARACTERS, crate::secret::UNAMBIGUOUS);
        Self(format!("erased-{random}").into())
    }
}

impl Default for TemplateId {
    fn default() -> Self {
        Self::new()
    }
}

impl DestinationId {
    /// Returns a new random id.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(format!("dst_{}", random_hex12()).into())
    }
}

impl NamespacedRoom {
    /// Joins project id and room name by a dot.
    pub fn new(project: &ProjectId, room: &RoomName) -> Self {
        // No room name contains a dot, so `split` is unambiguous.
        // `concat` allocates the exact size, where `format!` would grow its buffer. Each read of a room needs the name.
        Self([project.as_str(), ".", room.as_str()].concat().into())
    }

    /// Returns a name in the project that no other room has: 64 random characters, which are 380 bits.
    pub fn random(project: &ProjectId) -> Self {
        const CHARACTERS: usize = 64;
        let name = crate::secret::random_text(CHARACTERS, crate::secret::BASE62);
        Self(format!("{project}.{name}").into())
    }

    /// Splits the name into project and room.
    pub fn split(&self) -> (ProjectId, RoomName) {
        // The pattern guarantees the dot; an empty tail would not have parsed.
        let (project, room) = self.0.split_once('.').unwrap_or((&self.0, ""));
        // Both parts were validated with the whole.
        (ProjectId(project.into()), RoomName(room.into()))
    }
}

/// Returns six random bytes as twelve lower-case hex digits.
fn random_hex12() -> String {
    let bytes: [u8; 6] = crate::secret::random_bytes();
    // 48 bits. Ids are primary keys, so the database would reject a duplicate.
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn a_namespaced_room_splits_into_what_it_was_made_of() {
        let (project, room): (ProjectId, RoomName) =
            (ProjectId::new(), "stand-up_1".parse().unwrap());
        assert_eq!(
            NamespacedRoom::new(&project, &room).split(),
            (project, room)
        );
    }

    #[test]
    fn a_random_room_is_in_its_project_and_parses() {
        let project = ProjectId::new();
        let room = NamespacedRoom::random(&project);
        assert_eq!(room.split().0, project);
        assert_eq!(room.as_str().parse(), Ok(room.clone()));
        assert_ne!(room, NamespacedRoom::random(&project));
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

    #[test]
    fn new_ids_of_projects_parse_and_differ() {
        let (one, another) = (ProjectId::new(), ProjectId::new());
        assert_eq!(one.as_str().parse(), Ok(one.clone()));
        assert_ne!(one, another);
    }

    #[test]
    fn the_characters_and_the_length_of_an_id_are_both_checked() {
        let long = "x".repeat(256);
        for good in ["a.b", "$web", "my-bucket_1", &long[1..]] {
            assert!(good.parse::<BucketName>().is_ok(), "{good}");
        }
        for bad in ["", "a/b", &long] {
            assert!(bad.parse::<BucketName>().is_err(), "{bad}");
        }
        assert!(
            "alice.b@example-1.org_".parse::<Identity>().is_ok()
                && "alice b".parse::<Identity>().is_err()
        );
        assert!(
            "PA_1#".parse::<ParticipantSid>().is_ok() && "PA 1".parse::<ParticipantSid>().is_err()
        );
        assert!(
            long[127..].parse::<ParticipantSid>().is_err()
                && long[127..].parse::<RoomName>().is_err()
        );
        for bad in [
            "prj_0123456789a",
            "prj_0123456789abc",
            "prj_0123456789ag",
            "tpl_0123456789ab",
            "0123456789ab",
        ] {
            assert!(
                bad.parse::<ProjectId>().is_err()
                    && format!("{bad}.room").parse::<NamespacedRoom>().is_err(),
                "{bad}"
            );
        }
        assert!("prj_0123456789ab.".parse::<NamespacedRoom>().is_err());
    }

    proptest! {
        #[test]
        fn a_room_name_is_exactly_its_pattern(text in "\\PC{0,140}") {
            let fits = (1..=128).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            prop_assert_eq!(text.parse::<RoomName>().is_ok(), fits);
        }

        #[test]
        fn an_identity_is_its_pattern_but_no_step_in_a_path(text in "[ -~é]{0,140}|[.a]{0,3}|[a-zA-Z0-9_.@-]{1,130}") {
            let fits = (1..=128).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.@-".contains(c));
            prop_assert_eq!(text.parse::<Identity>().is_ok(), fits && text != "." && text != "..");
            prop_assert_eq!(Identity::from_record(&text).is_some(), fits);
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

    /// Texts near the patterns, and texts far from them.
    const NEAR: &str = "prj_[0-9a-g]{11,13}|tpl_[0-9a-f]{12}\n?|dst_[0-9a-fA]{12}|prj_[0-9a-f]{12}\\.[a-z]{0,3}|[!-~é ]{0,4}|\\PC{0,140}|[a-z]{63,65}|[0-9a-f]{8}(-[0-9a-fG]{4}){3}-[0-9a-f]{12}";

    macro_rules! patterns {
        ($($name:ident)*) => {
            proptest! {
                #[test]
                fn each_pattern_accepts_what_its_parser_accepts(text in NEAR) {
                    $({
                        thread_local!(static PATTERN: Regex = Regex::new($name::PATTERN).unwrap());
                        let matches = PATTERN.with(|pattern| pattern.is_match(&text));
                        prop_assert_eq!(text.parse::<$name>().is_ok(), matches, "{}", stringify!($name));
                    })*
                }
            }
        };
    }

    patterns!(
        ProjectId RoomName NamespacedRoom TemplateId TemplateName RoleName DestinationId DestinationName BucketName
        StorageLabel ParticipantSid TrackSid EgressId IngressId RoomId SessionId CodeId EndpointId DeliveryId
    );
}
