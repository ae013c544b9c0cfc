//! Webhooks: acceptance, and the reports for each event.

use conclave_media::livekit::{LivekitPlane, WebhookOutcome};
use conclave_media::{MediaEvent, MediaPlane, ReportError};
use conclave_model::egress::EgressStatus;
use conclave_model::event::Departure;
use conclave_model::ingress::IngressStatus;
use conclave_model::participant::TrackSource;
use livekit_double::{Joining, Webhook};
use livekit_protocol as proto;
use proto::{DisconnectReason as Reason, TrackType};
use serde_json::{Value, json};

use super::{ROOM, TestPlane, eventually, room};

async fn deliver(test: &TestPlane, webhook: &Webhook) -> WebhookOutcome {
    deliver_to(&test.plane, &webhook.authorization, &webhook.body).await
}

/// Delivers a webhook as an HTTP server does: the body is read only after the signature has been verified.
pub(super) async fn deliver_to(
    plane: &LivekitPlane,
    authorization: &str,
    body: &[u8],
) -> WebhookOutcome {
    match plane.verify_webhook(authorization) {
        Some(signature) => plane.handle_webhook(&signature, body).await,
        None => WebhookOutcome::Unsigned,
    }
}

async fn deliver_all(test: &TestPlane) -> Vec<WebhookOutcome> {
    let mut outcomes = Vec::new();
    for webhook in test.double.webhooks() {
        outcomes.push(deliver(test, &webhook).await);
    }
    outcomes
}

/// Signs an event and delivers it. Returns the outcome and the reports.
pub(super) async fn deliver_event(
    test: &TestPlane,
    event: Value,
) -> (WebhookOutcome, Vec<MediaEvent>) {
    let webhook = test.double.sign(event.to_string().as_bytes());
    (deliver(test, &webhook).await, test.sink.take_events())
}

fn disconnected(event: &str, reason: &str) -> Value {
    json!({"event": event, "room": {"name": ROOM}, "createdAt": "1700000000",
           "participant": {"sid": "PA_1", "identity": "alice", "state": "DISCONNECTED", "disconnectReason": reason,
                           "attributes": {"svc.role": "host"}}})
}

#[tokio::test]
async fn events_are_reported_in_their_order() {
    let test = TestPlane::new();
    let sid = test.double.join(
        ROOM,
        &Joining {
            attributes: &[("svc.role", "host")],
            ..Joining::participant("alice")
        },
    );
    let track = test.double.publish(
        ROOM,
        "alice",
        TrackType::Audio,
        proto::TrackSource::Microphone,
    );
    test.double.leave(ROOM, "alice", Reason::ClientInitiated);
    use WebhookOutcome::{Accepted, Ignored};
    assert_eq!(
        deliver_all(&test).await,
        [Ignored, Accepted, Accepted, Accepted, Accepted]
    );
    let reports = test.sink.take_reports();
    assert!(reports.iter().all(|report| report.room == room()));
    let MediaEvent::ParticipantJoined(joined) = &reports[0].event else {
        panic!("the first report is a join")
    };
    assert_eq!(
        (joined.sid.as_str(), joined.role().unwrap().as_str()),
        (sid.as_str(), "host")
    );
    assert_eq!(Some(reports[0].at), joined.joined_at);
    let MediaEvent::TrackPublished {
        participant,
        track: published,
    } = &reports[1].event
    else {
        panic!("the second report is a track")
    };
    assert_eq!(
        (participant.sid.as_str(), published.sid.as_str()),
        (sid.as_str(), track.as_str())
    );
    assert_eq!(
        (published.source, published.muted),
        (TrackSource::Microphone, false)
    );
    assert!(
        matches!(&reports[2].event, MediaEvent::TrackUnpublished { track, .. } if track.sid == published.sid)
    );
    assert!(
        matches!(&reports[3].event, MediaEvent::ParticipantLeft { participant, departure: Departure::Left } if participant.sid.as_str() == sid)
    );
}

#[tokio::test]
async fn a_repeated_event_is_accepted_and_reported_once() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    let joined = test.double.webhooks().pop().unwrap();
    assert_eq!(deliver(&test, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(deliver(&test, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(test.sink.take_reports().len(), 1);
}

#[tokio::test]
async fn an_event_that_could_not_be_recorded_is_accepted_when_it_is_repeated() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    let joined = test.double.webhooks().pop().unwrap();
    test.sink.fail_next(ReportError::Unavailable);
    assert_eq!(deliver(&test, &joined).await, WebhookOutcome::Unavailable);
    assert_eq!(deliver(&test, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(test.sink.take_reports().len(), 2);
}

#[tokio::test]
async fn without_a_report_sink_every_event_has_to_be_repeated() {
    let test = TestPlane::new();
    let unconnected = super::plane(&test.double.url(), &test.double.api_secret, super::AMPLE);
    test.double.join(ROOM, &Joining::participant("alice"));
    let joined = test.double.webhooks().pop().unwrap();
    assert_eq!(
        deliver_to(&unconnected, &joined.authorization, &joined.body).await,
        WebhookOutcome::Unavailable
    );
}

#[tokio::test]
async fn a_refused_join_is_removed_from_livekit() {
    for error in [ReportError::RoleFull, ReportError::RoomEnded] {
        let test = TestPlane::new();
        test.double.join(ROOM, &Joining::participant("alice"));
        let joined = test.double.webhooks().pop().unwrap();
        test.sink.fail_next(error);
        assert_eq!(deliver(&test, &joined).await, WebhookOutcome::Accepted);
        assert_eq!(
            test.plane.participants(&room()).await.unwrap(),
            [],
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn only_the_join_of_an_invalid_identity_is_reported_and_it_is_removed_when_refused() {
    for (identity, answer, left) in [
        ("alice#camera", ReportError::InvalidIdentity, 0),
        ("..", ReportError::InvalidIdentity, 0),
        ("alice#camera", ReportError::RoomEnded, 0),
        ("alice#camera", ReportError::UnknownRoom, 1),
    ] {
        let test = TestPlane::new();
        test.double.join(ROOM, &Joining::participant(identity));
        test.double.publish(
            ROOM,
            identity,
            TrackType::Audio,
            proto::TrackSource::Microphone,
        );
        test.sink.fail_next(answer);
        use WebhookOutcome::{Accepted, Ignored};
        assert_eq!(
            deliver_all(&test).await,
            [Ignored, Accepted, Ignored],
            "the room, the join, the track"
        );
        assert_eq!(test.sink.take_events(), [MediaEvent::InvalidIdentity]);
        assert_eq!(
            test.double.room(ROOM).unwrap().num_participants,
            left,
            "{answer:?}"
        );
        deliver_all(&test).await;
        assert_eq!(test.sink.take_events(), [], "nor its leave");
    }
}

#[tokio::test]
async fn a_join_to_a_room_without_a_record_is_left_alone() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    let joined = test.double.webhooks().pop().unwrap();
    test.sink.fail_next(ReportError::UnknownRoom);
    assert_eq!(deliver(&test, &joined).await, WebhookOutcome::Accepted);
    assert_eq!(test.plane.participants(&room()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_webhook_without_a_valid_signature_is_refused() {
    let test = TestPlane::new();
    let body = disconnected("participant_left", "CLIENT_INITIATED").to_string();
    let signed = test.double.sign(body.as_bytes());
    let now = conclave_model::Clock::system().now().millis() / 1_000;
    let claims = |change: Value| {
        use base64::Engine as _;
        use sha2::Digest as _;
        let sha256 =
            base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(body.as_bytes()));
        let mut claims =
            json!({"iss": "APIdouble", "nbf": now, "exp": now + 300, "sha256": sha256});
        claims
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        test.double.sign_with(&claims, body.as_bytes())
    };
    let mut changed = signed.clone();
    changed.body.push(b' ');
    for (case, webhook) in [
        ("a changed body", changed),
        (
            "no token",
            Webhook {
                authorization: String::new(),
                ..signed.clone()
            },
        ),
        ("another issuer", claims(json!({"iss": "APIother"}))),
        ("an expired token", claims(json!({"exp": now - 61}))),
        (
            "a token that is not valid yet",
            claims(json!({"nbf": now + 90})),
        ),
        ("another hash", claims(json!({"sha256": "AAAA"}))),
        ("no hash", claims(json!({"sha256": ""}))),
    ] {
        assert_eq!(
            deliver(&test, &webhook).await,
            WebhookOutcome::Unsigned,
            "{case}"
        );
    }
    assert_eq!(test.sink.take_reports(), []);
    for (case, webhook) in [
        ("unchanged claims", claims(json!({}))),
        ("a clock that is behind", claims(json!({"nbf": now + 30}))),
        ("a clock that is ahead", claims(json!({"exp": now - 30}))),
        (
            "with Bearer",
            Webhook {
                authorization: format!("Bearer {}", signed.authorization),
                ..signed.clone()
            },
        ),
    ] {
        assert_eq!(
            deliver(&test, &webhook).await,
            WebhookOutcome::Accepted,
            "{case}"
        );
    }
}

#[tokio::test]
async fn events_of_other_rooms_are_ignored_and_incomplete_events_are_malformed() {
    let test = TestPlane::new();
    for event in [
        json!({"event": "participant_joined", "room": {"name": "not-a-conclave-room"}, "participant": {"sid": "PA_1"}}),
        json!({"event": "room_finished", "room": {"name": ROOM}}),
        json!({"event": "agent_job_started", "room": {"name": ROOM}}),
        json!({"event": "egress_ended", "room": {"name": ROOM}, "egressInfo": {"status": "EGRESS_FAILED"}}),
    ] {
        assert_eq!(
            deliver_event(&test, event.clone()).await,
            (WebhookOutcome::Ignored, vec![]),
            "{event}"
        );
    }
    for event in [
        json!({}),
        json!([1]),
        json!({"event": 7}),
        json!({"event": "participant_joined", "room": {"name": ROOM}}),
        json!({"event": "track_published", "room": {"name": ROOM}, "participant": {"sid": "PA_1", "identity": "a"}}),
    ] {
        assert_eq!(
            deliver_event(&test, event.clone()).await,
            (WebhookOutcome::Malformed, vec![]),
            "{event}"
        );
    }
    let webhook = test.double.sign(b"no json");
    assert_eq!(deliver(&test, &webhook).await, WebhookOutcome::Malformed);
}

#[tokio::test]
async fn a_leave_is_clean_if_it_was_on_purpose() {
    let test = TestPlane::new();
    for (reason, on_purpose) in [
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
        let (outcome, events) =
            deliver_event(&test, disconnected("participant_left", reason)).await;
        assert_eq!(outcome, WebhookOutcome::Accepted);
        assert!(
            matches!(&events[..], [MediaEvent::ParticipantLeft { departure, .. }] if (*departure == Departure::Left) == on_purpose),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn an_aborted_connection_is_reported_as_a_leave_and_as_an_aborted_join() {
    let test = TestPlane::new();
    let (_, events) = deliver_event(
        &test,
        disconnected("participant_connection_aborted", "JOIN_FAILURE"),
    )
    .await;
    let [
        MediaEvent::ParticipantLeft {
            participant,
            departure: Departure::Lost,
        },
        MediaEvent::JoinAborted { participant: same },
    ] = &events[..]
    else {
        panic!("two events: {events:?}")
    };
    assert_eq!(participant, same);
    assert_eq!(participant.role.as_ref().unwrap().as_str(), "host");
}

#[tokio::test]
async fn a_join_is_reported_with_the_tracks_in_its_event() {
    let test = TestPlane::new();
    let (_, events) = deliver_event(
        &test,
        json!({"event": "participant_joined", "room": {"name": ROOM}, "participant": {
            "sid": "PA_1", "identity": "alice", "state": "ACTIVE", "kind": "BRIDGE", "joinedAt": "1700000000",
            "tracks": [{"sid": "TR_1", "muted": true, "type": "VIDEO", "source": "CAMERA", "width": 640}]}}),
    )
    .await;
    let [
        MediaEvent::ParticipantJoined(joined),
        MediaEvent::TrackPublished { track, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(joined.joined_at.unwrap().millis(), 1_700_000_000_000);
    assert_eq!((joined.tracks[0].width, track.muted), (Some(640), true));
}

#[tokio::test]
async fn tracks_and_a_leave_that_arrive_before_their_join_are_reported_after_it() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.publish(
        ROOM,
        "alice",
        TrackType::Audio,
        proto::TrackSource::Microphone,
    );
    test.double
        .publish(ROOM, "alice", TrackType::Video, proto::TrackSource::Camera);
    test.double.leave(ROOM, "alice", Reason::ClientInitiated);
    let mut webhooks = test.double.webhooks();
    webhooks.retain(|webhook| webhook.event != "room_started");
    let join = webhooks.remove(0);
    assert_eq!(join.event, "participant_joined");
    for webhook in webhooks.iter().rev() {
        deliver(&test, webhook).await;
    }
    test.sink.take_reports();
    assert_eq!(deliver(&test, &join).await, WebhookOutcome::Accepted);
    let names: Vec<_> = test.sink.take_events().iter().map(event_name).collect();
    assert_eq!(
        names,
        [
            "joined",
            "published",
            "published",
            "unpublished",
            "unpublished",
            "left"
        ]
    );
}

#[tokio::test]
async fn a_track_is_reported_with_a_repeated_join_if_the_first_could_not_be_recorded() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.publish(
        ROOM,
        "alice",
        TrackType::Audio,
        proto::TrackSource::Microphone,
    );
    let webhooks = test.double.webhooks();
    let [_, join, track] = &webhooks[..] else {
        panic!("three webhooks")
    };
    test.sink.fail_next(ReportError::Unavailable);
    assert_eq!(deliver(&test, join).await, WebhookOutcome::Unavailable);
    assert_eq!(deliver(&test, track).await, WebhookOutcome::Accepted);
    test.sink.take_reports();
    for _ in 0..2 {
        test.sink.fail_next(ReportError::Unavailable);
        assert_eq!(deliver(&test, join).await, WebhookOutcome::Unavailable);
        let names: Vec<_> = test.sink.take_events().iter().map(event_name).collect();
        assert_eq!(
            names,
            ["joined", "published"],
            "the join is reported again until it is accepted"
        );
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
async fn egresses_and_ingresses_are_reported_although_fields_are_missing() {
    let test = TestPlane::new();
    let egress = json!({"event": "egress_started", "egressInfo": {"egressId": "EG_1", "roomName": ROOM,
                        "startedAt": "1700000000123000000", "endedAt": 0, "status": "EGRESS_STATUS_TO_COME"}});
    let (_, events) = deliver_event(&test, egress).await;
    let [MediaEvent::Egress(state)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (state.status, state.started_at.millis()),
        (EgressStatus::Starting, 1_700_000_000_123)
    );
    let ended = json!({"event": "egress_ended", "room": {"name": ROOM}, "egressInfo": {"egressId": "EG_1",
                       "status": "EGRESS_FAILED", "endedAt": "1700000001000000000", "errorCode": 412}});
    let (_, events) = deliver_event(&test, ended).await;
    assert!(matches!(&events[..], [MediaEvent::Egress(state)]
        if state.status == EgressStatus::Failed && state.error.as_deref() == Some("LiveKit reported error code 412")));
    let ingress = json!({"event": "ingress_ended", "ingressInfo": {"ingressId": "IN_1", "roomName": ROOM,
                         "reusable": true, "state": {"status": "ENDPOINT_COMPLETE", "error": null}}});
    let (_, events) = deliver_event(&test, ingress).await;
    assert!(matches!(&events[..], [MediaEvent::Ingress(state)]
        if state.status == IngressStatus::Inactive && state.error.is_none()));
}

#[tokio::test]
async fn publish_limits_are_reported() {
    let test = TestPlane::new();
    for (event, crossed) in [
        ("participant_publish_limit_exceeded", true),
        ("participant_publish_limit_cleared", false),
    ] {
        let (_, events) = deliver_event(
            &test,
            json!({"event": event, "room": {"name": ROOM}, "participant": {"sid": "PA_1", "identity": "alice"},
                   "track": {"sid": "TR_1"}, "publishKbps": 900, "publishMaxKbps": "500"}),
        )
        .await;
        let [MediaEvent::PublishLimit { limit, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(
            (limit.exceeded, limit.kbps, limit.max_kbps),
            (crossed, 900, 500)
        );
        assert_eq!(limit.track.as_ref().unwrap().as_str(), "TR_1");
    }
}

#[tokio::test]
async fn webhooks_of_a_closed_room_are_accepted_or_ignored() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.plane.close_room(&room()).await.unwrap();
    eventually(|| test.double.room(ROOM).is_none()).await;
    let mut late = test.double.webhooks();
    late.reverse();
    for webhook in &late {
        assert!(matches!(
            deliver(&test, webhook).await,
            WebhookOutcome::Accepted | WebhookOutcome::Ignored
        ));
    }
}
