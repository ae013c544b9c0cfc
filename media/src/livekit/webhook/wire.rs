//! A webhook's body: protobuf as JSON.
//!
//! Reading is lenient, so that no event from a newer LiveKit is rejected. A field that is missing, null or of an
//! unexpected type gets its zero value. A 64-bit integer may be a string or a number. An enumeration's unknown value is
//! read as its first value.

use std::collections::HashMap;

use livekit_protocol as proto;
use serde_json::{Map, Value};

/// An event as LiveKit sent it.
pub(super) struct WebhookEvent(Map<String, Value>);

/// An object within an event; `None` if it is absent.
#[derive(Clone, Copy)]
struct Object<'a>(Option<&'a Map<String, Value>>);

impl WebhookEvent {
    /// Reads a body; `None` if it is not an object with an event name.
    pub fn from_json(body: &[u8]) -> Option<Self> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => {
                // Without a name, nothing can be reported; any other JSON object is no event either.
                Some(Self(fields)).filter(|event| !event.name().is_empty())
            }
            _ => None,
        }
    }

    fn object(&self) -> Object<'_> {
        Object(Some(&self.0))
    }

    /// Returns the event's name, such as `participant_joined`.
    pub fn name(&self) -> &str {
        self.object().text("event")
    }

    /// Returns the event's id, which all repetitions share; empty if it has none.
    pub fn id(&self) -> &str {
        self.object().text("id")
    }

    /// Returns the time at which LiveKit queued the event, in seconds since the epoch; 0 if absent.
    pub fn created_at(&self) -> i64 {
        self.object().integer("createdAt")
    }

    /// Returns the room's name, from whichever object contains it; empty if none does.
    pub fn room(&self) -> &str {
        // Egress and ingress events may lack the room object.
        let fields = [
            ("room", "name"),
            ("egressInfo", "roomName"),
            ("ingressInfo", "roomName"),
        ];
        let names = fields.map(|(object, field)| self.object().object(object).text(field));
        names
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default()
    }

    /// Returns the participant's identity in a participant or track event; empty if there is none.
    pub fn identity(&self) -> &str {
        self.object().object("participant").text("identity")
    }

    /// Returns the participant in a participant or track event.
    pub fn participant(&self) -> proto::ParticipantInfo {
        participant(self.object().object("participant"))
    }

    /// Returns the track in a track event.
    pub fn track(&self) -> proto::TrackInfo {
        track(self.object().object("track"))
    }

    /// Returns the egress in an egress event.
    pub fn egress(&self) -> proto::EgressInfo {
        let info = self.object().object("egressInfo");
        proto::EgressInfo {
            egress_id: info.string("egressId"),
            // From the event: the object itself may lack it.
            room_name: self.room().to_owned(),
            status: info.enumeration("status", proto::EgressStatus::from_str_name),
            error: info.string("error"),
            error_code: info.small_integer("errorCode"),
            started_at: info.integer("startedAt"),
            ended_at: info.integer("endedAt"),
            ..Default::default()
        }
    }

    /// Returns the ingress endpoint in an ingress event.
    pub fn ingress(&self) -> proto::IngressInfo {
        let info = self.object().object("ingressInfo");
        let state = info.object("state");
        proto::IngressInfo {
            ingress_id: info.string("ingressId"),
            room_name: self.room().to_owned(),
            input_type: info.enumeration("inputType", proto::IngressInput::from_str_name),
            // Distinguishes an endpoint that waits for the next encoder from a used-up one.
            reusable: info.flag("reusable"),
            state: Some(proto::IngressState {
                status: state.enumeration("status", proto::ingress_state::Status::from_str_name),
                error: state.string("error"),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// Returns the measured bitrate and its limit in a publish limit event, in kbit/s.
    pub fn publish_kbps(&self) -> (u32, u32) {
        // Negative or oversized numbers count as 0, like any unexpected value.
        let kbps = |field| u32::try_from(self.object().integer(field)).unwrap_or_default();
        (kbps("publishKbps"), kbps("publishMaxKbps"))
    }
}

fn participant(info: Object<'_>) -> proto::ParticipantInfo {
    proto::ParticipantInfo {
        sid: info.string("sid"),
        identity: info.string("identity"),
        name: info.string("name"),
        state: info.enumeration("state", proto::participant_info::State::from_str_name),
        kind: info.enumeration("kind", proto::participant_info::Kind::from_str_name),
        metadata: info.string("metadata"),
        attributes: info.string_map("attributes"),
        joined_at: info.integer("joinedAt"),
        joined_at_ms: info.integer("joinedAtMs"),
        is_publisher: info.flag("isPublisher"),
        // Only in the event of a leave.
        disconnect_reason: info
            .enumeration("disconnectReason", proto::DisconnectReason::from_str_name),
        tracks: info.list("tracks").map(track).collect(),
        ..Default::default()
    }
}

#[allow(deprecated)]
fn track(info: Object<'_>) -> proto::TrackInfo {
    // Only the number of layers matters, for `simulcast`.
    let codec = |codec: Object<'_>| proto::SimulcastCodecInfo {
        mime_type: codec.string("mimeType"),
        layers: codec
            .list("layers")
            .map(|_| proto::VideoLayer::default())
            .collect(),
        ..Default::default()
    };
    proto::TrackInfo {
        sid: info.string("sid"),
        r#type: info.enumeration("type", proto::TrackType::from_str_name),
        name: info.string("name"),
        muted: info.flag("muted"),
        width: u32::try_from(info.integer("width")).unwrap_or_default(),
        height: u32::try_from(info.integer("height")).unwrap_or_default(),
        simulcast: info.flag("simulcast"),
        source: info.enumeration("source", proto::TrackSource::from_str_name),
        mime_type: info.string("mimeType"),
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
        let items = self
            .field(name)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        items
            .iter()
            // Entries of an unexpected type are skipped, so that one of them does not hide the others.
            .filter_map(Value::as_object)
            .map(|fields| Self(Some(fields)))
    }

    fn text(self, name: &str) -> &'a str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn string(self, name: &str) -> String {
        self.text(name).to_owned()
    }

    fn flag(self, name: &str) -> bool {
        self.field(name)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    fn integer(self, name: &str) -> i64 {
        // Protobuf's JSON mapping writes 64-bit integers as strings; 32-bit ones are numbers.
        match self.field(name) {
            Some(Value::String(text)) => text.parse().unwrap_or_default(),
            Some(number) => number.as_i64().unwrap_or_default(),
            None => 0,
        }
    }

    fn small_integer(self, name: &str) -> i32 {
        i32::try_from(self.integer(name)).unwrap_or_default()
    }

    /// Reads an enumeration's value, given by name or number; 0 if the name is unknown.
    fn enumeration<E: Into<i32>>(self, name: &str, from_name: fn(&str) -> Option<E>) -> i32 {
        match self.field(name) {
            // Protobuf's JSON mapping writes enumerations by name, and permits numbers.
            Some(Value::String(value)) => from_name(value).map(Into::into).unwrap_or_default(),
            _ => self.small_integer(name),
        }
    }

    fn string_map(self, name: &str) -> HashMap<String, String> {
        let pairs = self.object(name).0.into_iter().flatten();
        pairs
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(fields: &Value) -> WebhookEvent {
        WebhookEvent::from_json(fields.to_string().as_bytes()).unwrap()
    }

    #[test]
    #[allow(deprecated)]
    fn every_field_of_a_participant_and_its_tracks_is_read() {
        let read = event(&json!({"event": "participant_left", "participant": {
            "sid": "PA_1", "identity": "alice", "name": "Alice", "state": "DISCONNECTED", "kind": "AGENT", "metadata": "{}",
            "attributes": {"svc.role": "host", "odd": 7}, "joinedAt": "12", "joinedAtMs": "12345", "isPublisher": true,
            "disconnectReason": "SIGNAL_CLOSE",
            "tracks": [7, {"sid": "TR_1", "type": "VIDEO", "name": "cam", "muted": true, "width": 640, "height": "360",
                           "simulcast": true, "source": "CAMERA", "mimeType": "video/VP8",
                           "codecs": [{"mimeType": "video/AV1", "layers": [{}, {}]}]}]}}));
        let codec = proto::SimulcastCodecInfo {
            mime_type: "video/AV1".into(),
            layers: vec![proto::VideoLayer::default(); 2],
            ..Default::default()
        };
        let track = proto::TrackInfo {
            sid: "TR_1".into(),
            r#type: proto::TrackType::Video.into(),
            name: "cam".into(),
            muted: true,
            width: 640,
            height: 360,
            simulcast: true,
            source: proto::TrackSource::Camera.into(),
            mime_type: "video/VP8".into(),
            codecs: vec![codec],
            ..Default::default()
        };
        let expected = proto::ParticipantInfo {
            sid: "PA_1".into(),
            identity: "alice".into(),
            name: "Alice".into(),
            state: proto::participant_info::State::Disconnected.into(),
            kind: proto::participant_info::Kind::Agent.into(),
            metadata: "{}".into(),
            attributes: [("svc.role".to_owned(), "host".to_owned())].into(),
            joined_at: 12,
            joined_at_ms: 12_345,
            is_publisher: true,
            disconnect_reason: proto::DisconnectReason::SignalClose.into(),
            tracks: vec![track],
            ..Default::default()
        };
        assert_eq!(read.participant(), expected);
    }

    #[test]
    fn every_field_of_an_egress_and_an_ingress_is_read() {
        let read = event(
            &json!({"event": "egress_ended", "id": "EV_1", "createdAt": "7",
            "egressInfo": {"egressId": "EG_1", "roomName": "r", "status": "EGRESS_FAILED", "error": "no disk",
                           "errorCode": 507, "startedAt": "5", "endedAt": 6},
            "ingressInfo": {"ingressId": "IN_1", "inputType": "WHIP_INPUT", "reusable": true,
                            "state": {"status": "ENDPOINT_ERROR", "error": "no picture"}}}),
        );
        assert_eq!(
            (read.name(), read.id(), read.created_at(), read.room()),
            ("egress_ended", "EV_1", 7, "r")
        );
        let egress = proto::EgressInfo {
            egress_id: "EG_1".into(),
            room_name: "r".into(),
            status: proto::EgressStatus::EgressFailed.into(),
            error: "no disk".into(),
            error_code: 507,
            started_at: 5,
            ended_at: 6,
            ..Default::default()
        };
        assert_eq!(read.egress(), egress);
        let state = proto::IngressState {
            status: proto::ingress_state::Status::EndpointError.into(),
            error: "no picture".into(),
            ..Default::default()
        };
        let ingress = proto::IngressInfo {
            ingress_id: "IN_1".into(),
            room_name: "r".into(),
            input_type: proto::IngressInput::WhipInput.into(),
            reusable: true,
            state: Some(state),
            ..Default::default()
        };
        assert_eq!(read.ingress(), ingress);
    }

    #[test]
    fn a_field_of_another_type_or_of_a_value_to_come_has_its_zero_value() {
        let read = event(
            &json!({"event": "track_published", "createdAt": {}, "room": [], "publishKbps": -1,
            "publishMaxKbps": "many", "participant": {"identity": 7, "state": "TO_COME", "kind": 99_999_999_999_i64,
            "isPublisher": "yes", "joinedAt": 1.5, "attributes": [], "tracks": {}}}),
        );
        assert_eq!(
            (
                read.created_at(),
                read.room(),
                read.identity(),
                read.publish_kbps()
            ),
            (0, "", "", (0, 0))
        );
        assert_eq!(read.participant(), proto::ParticipantInfo::default());
        assert_eq!((read.track(), read.id()), (proto::TrackInfo::default(), ""));
        assert!(
            WebhookEvent::from_json(b"{\"event\": \"\"}").is_none()
                && WebhookEvent::from_json(b"[]").is_none()
        );
    }
}
