//! The registry of typed ids. Signatures never say `String` for an id.
//!
//! Patterns are part of the API: they are in its OpenAPI description. An id is parsed once, by [`str::parse`] or by serde,
//! with the same error, and is cheap to clone. Each describes itself to OpenAPI by the pattern that its parser accepts.

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
    /// The name of a room on the media plane: project id, dot, room name.
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
    BucketName, "^[a-zA-Z0-9._$-]{1,255}$", 1..=255, is_bucket
);
text_id!(
    /// The name of a region or an account of object storage. It can become part of a host name, as a bucket can.
    StorageLabel, "^[a-zA-Z0-9_-]{1,64}$", 1..=64, |t| is_word(t, 64)
);
text_id!(
    /// The id that the media plane gives to one join of a participant.
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
    /// The id of a webhook endpoint.
    EndpointId
);
uuid_id!(
    /// The id of a webhook delivery: one event for one endpoint.
    DeliveryId
);

/// Whether the text can be a bucket: letters, digits, `_`, `-`, `.` and `$`.
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

impl Identity {
    /// Returns an identity that a record has. Records of earlier versions may have `.` and `..`, which are none to be parsed.
    pub fn from_record(text: &str) -> Option<Self> {
        has_identity_pattern(text).then(|| Self(text.into()))
    }

    /// Returns a random identity for a participant who exchanges a room code without naming one: `guest-` and eight
    /// characters.
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
    /// Returns a new random id.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(format!("dst_{}", random_hex12()).into())
    }
}

impl NamespacedRoom {
    /// Joins project id and room name by a dot.
    pub fn new(project: &ProjectId, room: &RoomName) -> Self {
        Self(format!("{project}.{room}").into())
    }

    /// Returns the project and the room of this name.
    pub fn split(&self) -> (ProjectId, RoomName) {
        // The pattern guarantees the dot; an empty tail would not have parsed.
        let (project, room) = self.0.split_once('.').unwrap_or((&self.0, ""));
        (ProjectId(project.into()), RoomName(room.into()))
    }
}

/// Returns six random bytes as twelve lower-case hex digits.
fn random_hex12() -> String {
    let bytes: [u8; 6] = crate::secret::random_bytes();
    hex::encode(bytes)
}

#[cfg(test)]
mod tests;
