//! Property tests: no webhook makes the receiver panic, or request a repetition.

use conclave_media::livekit::WebhookOutcome;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::webhooks::{deliver_event, deliver_to};
use super::{ROOM, TestPlane};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![
            Just(ROOM.to_owned()),
            "[A-Z]{2}_[a-z0-9]{3}",
            any::<String>()
        ]
        .prop_map(Value::from),
    ];
    let field = prop_oneof![
        Just("name"),
        Just("sid"),
        Just("identity"),
        Just("tracks"),
        Just("state"),
        Just("kind"),
        Just("attributes"),
        Just("egressId"),
        Just("roomName"),
        Just("status"),
        Just("ingressId"),
        Just("joinedAt"),
        Just("joinedAtMs"),
        Just("disconnectReason"),
        Just("startedAt"),
        Just("codecs"),
        Just("layers"),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(field.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_event() -> impl Strategy<Value = Value> {
    let events = prop_oneof![
        Just("participant_joined"),
        Just("participant_left"),
        Just("participant_connection_aborted"),
        Just("track_published"),
        Just("egress_updated"),
        Just("ingress_started"),
        Just("participant_publish_limit_exceeded"),
    ];
    (events, any_json(), any_json(), any_json(), any_json()).prop_map(|(event, participant, track, info, number)| {
        json!({"event": event, "room": {"name": ROOM}, "participant": participant, "track": track,
               "egressInfo": info, "ingressInfo": info, "createdAt": number, "publishKbps": number})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_json_causes_a_panic_or_a_repetition(event in prop_oneof![any_json(), any_event()]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async { deliver_event(&TestPlane::new(), event).await.0 });
        prop_assert!(matches!(outcome, WebhookOutcome::Accepted | WebhookOutcome::Ignored | WebhookOutcome::Malformed));
    }

    /// Proves S-83.
    #[test]
    fn no_bytes_cause_a_panic(authorization in any::<String>(), body in any::<Vec<u8>>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let test = TestPlane::new();
        prop_assert_eq!(runtime.block_on(deliver_to(&test.plane, &authorization, &body)), WebhookOutcome::Unsigned);
        let signed = test.double.sign(&body);
        let outcome = runtime.block_on(deliver_to(&test.plane, &signed.authorization, &body));
        prop_assert!(matches!(outcome, WebhookOutcome::Ignored | WebhookOutcome::Malformed));
    }
}
