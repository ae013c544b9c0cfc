//! The intake: what is taken, what is refused, and what each event comes to.

use conclave_media::livekit::WebhookOutcome;
use conclave_media::{MediaEvent, MediaPlane, ReportError};
use conclave_model::egress::EgressStatus;
use conclave_model::ingress::IngressStatus;
use conclave_model::participant::TrackSource;
use livekit_double::{Joining, Webhook};
use livekit_protocol as proto;
use proptest::prelude::*;
use proto::{DisconnectReason as Reason, TrackType};
use serde_json::{Value, json};

use super::{ROOM, Stage, eventually, room};

async fn hand(stage: &Stage, webhook: &Webhook) -> WebhookOutcome {
    stage.plane.handle_webhook(&webhook.authorization, &webhook.body).await
}

async fn hand_all(stage: &Stage) -> Vec<WebhookOutcome> {
    let mut outcomes = Vec::new();
    for webhook in stage.double.webhooks() {
        outcomes.push(hand(stage, &webhook).await);
    }
    outcomes
}

/// Signs an event and hands it over.
async fn told(stage: &Stage, event: Value) -> (WebhookOutcome, Vec<MediaEvent>) {
    let webhook = stage.double.sign(event.to_string().as_bytes());
    (hand(stage, &webhook).await, stage.sink.facts())
}

fn gone(event: &str, reason: &str) -> Value {
    json!({"event": event, "room": {"name": ROOM}, "createdAt": "1700000000",
           "participant": {"sid": "PA_1", "identity": "alice", "state": "DISCONNECTED", "disconnectReason": reason,
                           "attributes": {"svc.role": "host"}}})
}

#[tokio::test]
async fn a_story_is_reported_in_its_order() {
    let stage = Stage::new();
    let sid =
        stage.double.join(ROOM, &Joining { attributes: &[("svc.role", "host")], ..Joining::participant("alice") });
    let track = stage.double.publish(ROOM, "alice", TrackType::Audio, proto::TrackSource::Microphone);
    stage.double.leave(ROOM, "alice", Reason::ClientInitiated);
    use WebhookOutcome::{Accepted, Ignored};
    assert_eq!(hand_all(&stage).await, [Ignored, Accepted, Accepted, Accepted, Accepted]);
    let reports = stage.sink.take();
    assert!(reports.iter().all(|report| report.room == room()));
    let MediaEvent::ParticipantJoined(joined) = &reports[0].event else { panic!("a join comes first") };
    assert_eq!((joined.sid.as_str(), joined.role().unwrap().as_str()), (sid.as_str(), "host"));
    assert_eq!(Some(reports[0].at), joined.joined_at);
    let MediaEvent::TrackPublished { participant, track: published } = &reports[1].event else {
        panic!("then a track")
    };
    assert_eq!((participant.sid.as_str(), published.sid.as_str()), (sid.as_str(), track.as_str()));
    assert_eq!((published.source, published.muted), (TrackSource::Microphone, false));
    assert!(matches!(&reports[2].event, MediaEvent::TrackUnpublished { track, .. } if track.sid == published.sid));
    assert!(
        matches!(&reports[3].event, MediaEvent::ParticipantLeft { participant, clean: true } if participant.sid.as_str() == sid)
    );
}

#[tokio::test]
async fn an_event_that_comes_again_is_taken_and_reported_once() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    let joined = stage.double.webhooks().pop().unwrap();
    assert_eq!(hand(&stage, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(hand(&stage, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(stage.sink.take().len(), 1);
}

#[tokio::test]
async fn an_event_that_could_not_be_written_is_to_be_sent_again_and_then_taken() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    let joined = stage.double.webhooks().pop().unwrap();
    stage.sink.refuse_next(ReportError::Unavailable);
    assert_eq!(hand(&stage, &joined).await, WebhookOutcome::Unavailable);
    assert_eq!(hand(&stage, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(stage.sink.take().len(), 2);
}

#[tokio::test]
async fn a_plane_that_nobody_listens_to_has_everything_sent_again() {
    let stage = Stage::new();
    let deaf = super::plane(&stage.double.url(), &stage.double.api_secret, std::time::Duration::from_secs(1));
    stage.double.join(ROOM, &Joining::participant("alice"));
    let joined = stage.double.webhooks().pop().unwrap();
    assert_eq!(deaf.handle_webhook(&joined.authorization, &joined.body).await, WebhookOutcome::Unavailable);
}

#[tokio::test]
async fn a_join_that_the_records_refuse_is_ended_on_livekit_too() {
    for refusal in [ReportError::RoleFull, ReportError::RoomEnded] {
        let stage = Stage::new();
        stage.double.join(ROOM, &Joining::participant("alice"));
        let joined = stage.double.webhooks().pop().unwrap();
        stage.sink.refuse_next(refusal);
        assert_eq!(hand(&stage, &joined).await, WebhookOutcome::Accepted);
        assert_eq!(stage.plane.participants(&room()).await.unwrap(), [], "{refusal:?}");
    }
}

#[tokio::test]
async fn what_is_not_signed_with_our_key_is_refused() {
    let stage = Stage::new();
    let body = gone("participant_left", "CLIENT_INITIATED").to_string();
    let signed = stage.double.sign(body.as_bytes());
    let now = conclave_model::Clock::system().now().millis() / 1_000;
    let claims = |change: Value| {
        use base64::Engine as _;
        use sha2::Digest as _;
        let sha256 = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(body.as_bytes()));
        let mut claims = json!({"iss": "APIdouble", "nbf": now, "exp": now + 300, "sha256": sha256});
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        stage.double.sign_with(&claims, body.as_bytes())
    };
    let mut changed = signed.clone();
    changed.body.push(b' ');
    for (case, webhook) in [
        ("a changed body", changed),
        ("no token", Webhook { authorization: String::new(), ..signed.clone() }),
        ("another issuer", claims(json!({"iss": "APIother"}))),
        ("an expired token", claims(json!({"exp": now - 61}))),
        ("a token for later", claims(json!({"nbf": now + 90}))),
        ("another hash", claims(json!({"sha256": "AAAA"}))),
        ("no hash", claims(json!({"sha256": ""}))),
    ] {
        assert_eq!(hand(&stage, &webhook).await, WebhookOutcome::Unsigned, "{case}");
    }
    assert_eq!(stage.sink.take(), []);
    for (case, webhook) in [
        ("as it came", claims(json!({}))),
        ("a clock that is behind", claims(json!({"nbf": now + 30}))),
        ("a clock that is ahead", claims(json!({"exp": now - 30}))),
        ("with Bearer", Webhook { authorization: format!("Bearer {}", signed.authorization), ..signed.clone() }),
    ] {
        assert_eq!(hand(&stage, &webhook).await, WebhookOutcome::Accepted, "{case}");
    }
}

#[tokio::test]
async fn what_is_none_of_ours_is_ignored_and_what_is_no_event_is_malformed() {
    let stage = Stage::new();
    for event in [
        json!({"event": "participant_joined", "room": {"name": "somebody-elses"}, "participant": {"sid": "PA_1"}}),
        json!({"event": "room_finished", "room": {"name": ROOM}}),
        json!({"event": "agent_job_started", "room": {"name": ROOM}}),
        json!({"event": "egress_ended", "room": {"name": ROOM}, "egressInfo": {"status": "EGRESS_FAILED"}}),
    ] {
        assert_eq!(told(&stage, event.clone()).await, (WebhookOutcome::Ignored, vec![]), "{event}");
    }
    for event in [
        json!({}),
        json!([1]),
        json!({"event": 7}),
        json!({"event": "participant_joined", "room": {"name": ROOM}}),
        json!({"event": "track_published", "room": {"name": ROOM}, "participant": {"sid": "PA_1", "identity": "a"}}),
    ] {
        assert_eq!(told(&stage, event.clone()).await, (WebhookOutcome::Malformed, vec![]), "{event}");
    }
    let webhook = stage.double.sign(b"no json");
    assert_eq!(hand(&stage, &webhook).await, WebhookOutcome::Malformed);
}

#[tokio::test]
async fn a_leave_is_clean_when_somebody_meant_it() {
    let stage = Stage::new();
    for (reason, meant) in [
        ("CLIENT_INITIATED", true),
        ("DUPLICATE_IDENTITY", true),
        ("PARTICIPANT_REMOVED", true),
        ("ROOM_DELETED", true),
        ("A_REASON_TO_COME", true),
        ("SIGNAL_CLOSE", false),
        ("CONNECTION_TIMEOUT", false),
        ("STATE_MISMATCH", false),
        ("JOIN_FAILURE", false),
        ("MEDIA_FAILURE", false),
        ("SERVER_SHUTDOWN", false),
    ] {
        let (outcome, facts) = told(&stage, gone("participant_left", reason)).await;
        assert_eq!(outcome, WebhookOutcome::Accepted);
        assert!(matches!(&facts[..], [MediaEvent::ParticipantLeft { clean, .. }] if *clean == meant), "{reason}");
    }
}

#[tokio::test]
async fn a_connection_that_never_stood_leaves_if_it_was_known_and_failed_if_not() {
    let stage = Stage::new();
    let (_, facts) = told(&stage, gone("participant_connection_aborted", "JOIN_FAILURE")).await;
    let [MediaEvent::ParticipantLeft { participant, clean: false }, MediaEvent::JoinAborted { participant: same }] =
        &facts[..]
    else {
        panic!("two facts: {facts:?}")
    };
    assert_eq!(participant, same);
    assert_eq!(participant.role.as_ref().unwrap().as_str(), "host");
}

#[tokio::test]
async fn a_join_brings_the_tracks_that_came_before_it() {
    let stage = Stage::new();
    let (_, facts) = told(
        &stage,
        json!({"event": "participant_joined", "room": {"name": ROOM}, "participant": {
            "sid": "PA_1", "identity": "alice", "state": "ACTIVE", "kind": "BRIDGE", "joinedAt": "1700000000",
            "tracks": [{"sid": "TR_1", "muted": true, "type": "VIDEO", "source": "CAMERA", "width": 640}]}}),
    )
    .await;
    let [MediaEvent::ParticipantJoined(joined), MediaEvent::TrackPublished { track, .. }] = &facts[..] else {
        panic!("{facts:?}")
    };
    assert_eq!(joined.joined_at.unwrap().millis(), 1_700_000_000_000);
    assert_eq!((joined.tracks[0].width, track.muted), (Some(640), true));
}

#[tokio::test]
async fn tracks_and_a_leave_that_arrive_before_their_join_are_reported_after_it() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.publish(ROOM, "alice", TrackType::Audio, proto::TrackSource::Microphone);
    stage.double.publish(ROOM, "alice", TrackType::Video, proto::TrackSource::Camera);
    stage.double.leave(ROOM, "alice", Reason::ClientInitiated);
    let mut webhooks = stage.double.webhooks();
    webhooks.retain(|webhook| webhook.event != "room_started");
    let join = webhooks.remove(0);
    assert_eq!(join.event, "participant_joined");
    for webhook in webhooks.iter().rev() {
        hand(&stage, webhook).await;
    }
    stage.sink.take();
    assert_eq!(hand(&stage, &join).await, WebhookOutcome::Accepted);
    let names: Vec<_> = stage.sink.facts().iter().map(event_name).collect();
    assert_eq!(names, ["joined", "published", "published", "unpublished", "unpublished", "left"]);
}

#[tokio::test]
async fn a_track_is_reported_with_a_repeated_join_if_the_first_could_not_be_recorded() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.publish(ROOM, "alice", TrackType::Audio, proto::TrackSource::Microphone);
    let webhooks = stage.double.webhooks();
    let [_, join, track] = &webhooks[..] else { panic!("three webhooks") };
    stage.sink.refuse_next(ReportError::Unavailable);
    assert_eq!(hand(&stage, join).await, WebhookOutcome::Unavailable);
    assert_eq!(hand(&stage, track).await, WebhookOutcome::Accepted);
    stage.sink.take();
    for _ in 0..2 {
        stage.sink.refuse_next(ReportError::Unavailable);
        assert_eq!(hand(&stage, join).await, WebhookOutcome::Unavailable);
        let names: Vec<_> = stage.sink.facts().iter().map(event_name).collect();
        assert_eq!(names, ["joined", "published"], "it is reported until the join is accepted");
    }
}

fn event_name(event: &MediaEvent) -> &'static str {
    match event {
        MediaEvent::ParticipantJoined(_) => "joined",
        MediaEvent::TrackPublished { .. } => "published",
        MediaEvent::TrackUnpublished { .. } => "unpublished",
        MediaEvent::ParticipantLeft { .. } => "left",
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn jobs_and_endpoints_are_reported_with_their_zero_values_filled_in() {
    let stage = Stage::new();
    let egress = json!({"event": "egress_started", "egressInfo": {"egressId": "EG_1", "roomName": ROOM,
                        "startedAt": "1700000000123000000", "endedAt": 0, "status": "EGRESS_STATUS_TO_COME"}});
    let (_, facts) = told(&stage, egress).await;
    let [MediaEvent::Egress(state)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!((state.status, state.started_at.millis()), (EgressStatus::Starting, 1_700_000_000_123));
    let ended = json!({"event": "egress_ended", "room": {"name": ROOM}, "egressInfo": {"egressId": "EG_1",
                       "status": "EGRESS_FAILED", "endedAt": "1700000001000000000", "errorCode": 412}});
    let (_, facts) = told(&stage, ended).await;
    assert!(matches!(&facts[..], [MediaEvent::Egress(state)]
        if state.status == EgressStatus::Failed && state.error.as_deref() == Some("LiveKit gave error code 412")));
    let ingress = json!({"event": "ingress_ended", "ingressInfo": {"ingressId": "IN_1", "roomName": ROOM,
                         "reusable": true, "state": {"status": "ENDPOINT_COMPLETE", "error": null}}});
    let (_, facts) = told(&stage, ingress).await;
    assert!(matches!(&facts[..], [MediaEvent::Ingress(state)]
        if state.status == IngressStatus::Inactive && state.error.is_none()));
}

#[tokio::test]
async fn a_media_node_that_measures_reports_limits() {
    let stage = Stage::new();
    for (event, crossed) in [("participant_publish_limit_exceeded", true), ("participant_publish_limit_cleared", false)]
    {
        let (_, facts) = told(
            &stage,
            json!({"event": event, "room": {"name": ROOM}, "participant": {"sid": "PA_1", "identity": "alice"},
                   "track": {"sid": "TR_1"}, "publishKbps": 900, "publishMaxKbps": "500"}),
        )
        .await;
        let [MediaEvent::PublishLimit { limit, .. }] = &facts[..] else { panic!("{facts:?}") };
        assert_eq!((limit.exceeded, limit.kbps, limit.max_kbps), (crossed, 900, 500));
        assert_eq!(limit.track.as_ref().unwrap().as_str(), "TR_1");
    }
}

#[tokio::test]
async fn webhooks_of_a_closed_room_are_as_harmless_as_any() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.plane.close_room(&room()).await.unwrap();
    eventually(|| stage.double.room(ROOM).is_none()).await;
    let mut late = stage.double.webhooks();
    late.reverse();
    for webhook in &late {
        assert!(matches!(hand(&stage, webhook).await, WebhookOutcome::Accepted | WebhookOutcome::Ignored));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just(ROOM.to_owned()), "[A-Z]{2}_[a-z0-9]{3}", any::<String>()].prop_map(Value::from),
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
    fn no_json_makes_the_intake_panic_or_ask_for_more(event in prop_oneof![any_json(), any_event()]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async { told(&Stage::new(), event).await.0 });
        prop_assert!(matches!(outcome, WebhookOutcome::Accepted | WebhookOutcome::Ignored | WebhookOutcome::Malformed));
    }

    #[test]
    fn no_bytes_make_the_intake_panic(authorization in any::<String>(), body in any::<Vec<u8>>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stage = Stage::new();
        prop_assert_eq!(runtime.block_on(stage.plane.handle_webhook(&authorization, &body)), WebhookOutcome::Unsigned);
        let signed = stage.double.sign(&body);
        let outcome = runtime.block_on(stage.plane.handle_webhook(&signed.authorization, &body));
        prop_assert!(matches!(outcome, WebhookOutcome::Ignored | WebhookOutcome::Malformed));
    }
}
