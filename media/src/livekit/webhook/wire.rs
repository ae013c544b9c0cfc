//! A webhook's body: proto-JSON, as LiveKit writes it and a little more. What is missing, null or of another type than
//! expected is the zero value, 64-bit integers are texts or numbers, and words that are not known read as the first of their
//! kind; so no LiveKit to come can send what does not read.

use livekit_protocol as proto;
use serde_json::{Map, Value};

/// An event.
pub(super) struct Event(Map<String, Value>);

/// An object in an event.
#[derive(Clone, Copy)]
struct Object<'a>(Option<&'a Map<String, Value>>);

impl Event {
    /// Reads a body; `None` when it is no event at all.
    pub fn read(raw: &[u8]) -> Option<Self> {
        match serde_json::from_slice(raw) {
            Ok(Value::Object(fields)) => Some(Self(fields)).filter(|event| !event.name().is_empty()),
            _ => None,
        }
    }

    fn object(&self) -> Object<'_> {
        Object(Some(&self.0))
    }

    /// Which event.
    pub fn name(&self) -> &str {
        self.object().text("event")
    }

    /// Its id, the same each time it is sent; empty when it has none.
    pub fn id(&self) -> &str {
        self.object().text("id")
    }

    /// When it was queued, in seconds.
    pub fn created_at(&self) -> i64 {
        self.object().int("createdAt")
    }

    /// The room's name, wherever the event says it.
    pub fn room(&self) -> &str {
        let named = [("room", "name"), ("egressInfo", "roomName"), ("ingressInfo", "roomName")];
        let names = named.map(|(object, field)| self.object().object(object).text(field));
        names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
    }

    /// Who it is about.
    pub fn participant(&self) -> proto::ParticipantInfo {
        participant(self.object().object("participant"))
    }

    /// Which track it is about.
    pub fn track(&self) -> proto::TrackInfo {
        track(self.object().object("track"))
    }

    /// The job it is about.
    pub fn egress(&self) -> proto::EgressInfo {
        let info = self.object().object("egressInfo");
        proto::EgressInfo {
            egress_id: info.owned("egressId"),
            room_name: self.room().to_owned(),
            status: info.word("status", proto::EgressStatus::from_str_name),
            error: info.owned("error"),
            error_code: info.small("errorCode"),
            started_at: info.int("startedAt"),
            ended_at: info.int("endedAt"),
            ..Default::default()
        }
    }

    /// The endpoint it is about.
    pub fn ingress(&self) -> proto::IngressInfo {
        let info = self.object().object("ingressInfo");
        let state = info.object("state");
        proto::IngressInfo {
            ingress_id: info.owned("ingressId"),
            room_name: self.room().to_owned(),
            input_type: info.word("inputType", proto::IngressInput::from_str_name),
            reusable: info.flag("reusable"),
            state: Some(proto::IngressState {
                status: state.word("status", proto::ingress_state::Status::from_str_name),
                error: state.owned("error"),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// What was measured, and its ceiling, in kilobits a second.
    pub fn publish_kbps(&self) -> (u32, u32) {
        let kbps = |field| u32::try_from(self.object().int(field)).unwrap_or_default();
        (kbps("publishKbps"), kbps("publishMaxKbps"))
    }
}

fn participant(info: Object<'_>) -> proto::ParticipantInfo {
    proto::ParticipantInfo {
        sid: info.owned("sid"),
        identity: info.owned("identity"),
        name: info.owned("name"),
        state: info.word("state", proto::participant_info::State::from_str_name),
        kind: info.word("kind", proto::participant_info::Kind::from_str_name),
        metadata: info.owned("metadata"),
        attributes: info.texts("attributes"),
        joined_at: info.int("joinedAt"),
        joined_at_ms: info.int("joinedAtMs"),
        is_publisher: info.flag("isPublisher"),
        disconnect_reason: info.word("disconnectReason", proto::DisconnectReason::from_str_name),
        tracks: info.list("tracks").map(track).collect(),
        ..Default::default()
    }
}

#[allow(deprecated)]
fn track(info: Object<'_>) -> proto::TrackInfo {
    let codec = |codec: Object<'_>| proto::SimulcastCodecInfo {
        mime_type: codec.owned("mimeType"),
        layers: codec.list("layers").map(|_| proto::VideoLayer::default()).collect(),
        ..Default::default()
    };
    proto::TrackInfo {
        sid: info.owned("sid"),
        r#type: info.word("type", proto::TrackType::from_str_name),
        name: info.owned("name"),
        muted: info.flag("muted"),
        width: u32::try_from(info.int("width")).unwrap_or_default(),
        height: u32::try_from(info.int("height")).unwrap_or_default(),
        simulcast: info.flag("simulcast"),
        source: info.word("source", proto::TrackSource::from_str_name),
        mime_type: info.owned("mimeType"),
        codecs: info.list("codecs").map(codec).collect(),
        ..Default::default()
    }
}

impl<'a> Object<'a> {
    fn field(self, name: &str) -> Option<&'a Value> {
        self.0.and_then(|fields| fields.get(name))
    }

    fn object(self, name: &str) -> Self {
        Self(self.field(name).and_then(Value::as_object))
    }

    fn list(self, name: &str) -> impl Iterator<Item = Self> + use<'a> {
        let items = self.field(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_object).map(|fields| Self(Some(fields)))
    }

    fn text(self, name: &str) -> &'a str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn owned(self, name: &str) -> String {
        self.text(name).to_owned()
    }

    fn flag(self, name: &str) -> bool {
        self.field(name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn int(self, name: &str) -> i64 {
        match self.field(name) {
            Some(Value::String(text)) => text.parse().unwrap_or_default(),
            Some(number) => number.as_i64().unwrap_or_default(),
            None => 0,
        }
    }

    fn small(self, name: &str) -> i32 {
        i32::try_from(self.int(name)).unwrap_or_default()
    }

    /// An enumeration's word, or its number; one that is not known is the first.
    fn word<E: Into<i32>>(self, name: &str, of: fn(&str) -> Option<E>) -> i32 {
        match self.field(name) {
            Some(Value::String(word)) => of(word).map(Into::into).unwrap_or_default(),
            _ => self.small(name),
        }
    }

    fn texts(self, name: &str) -> std::collections::HashMap<String, String> {
        let pairs = self.object(name).0.into_iter().flatten();
        pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }
}
