use std::collections::VecDeque;
use std::sync::Mutex;

use conclave_model::Clock;
use conclave_model::participant::{ParticipantState, TrackKind, TrackSource};
use tokio::sync::oneshot;

use super::*;
use crate::embedded::Notice;
use crate::embedded::client::Client;
use crate::embedded::plane::EmbeddedPlane;
use crate::port::{MediaEvent, MediaPlane, Report, ReportInlet, ReportSink};
use crate::token::{Grants, TokenRequest, TokenSigner};

type ReplySender = oneshot::Sender<Result<(), ReportError>>;

/// A control plane that accepts all reports, unless it has queued errors or withholds its replies.
#[derive(Default)]
struct FakeSink {
    reports: Mutex<Vec<Report>>,
    errors: Mutex<VecDeque<ReportError>>,
    held: Mutex<Option<Vec<ReplySender>>>,
}

impl FakeSink {
    fn take_events(&self) -> Vec<MediaEvent> {
        self.reports
            .lock()
            .unwrap()
            .drain(..)
            .map(|report| report.event)
            .collect()
    }

    fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    fn release(&self) -> Vec<ReplySender> {
        self.held.lock().unwrap().take().unwrap_or_default()
    }
}

impl ReportSink for FakeSink {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let accept = |report| {
            let (answer, receiver) = oneshot::channel();
            self.reports.lock().unwrap().push(report);
            if let Some(held) = self.held.lock().unwrap().as_mut() {
                held.push(answer);
            } else {
                let error = self.errors.lock().unwrap().pop_front();
                let _ = answer.send(error.map_or(Ok(()), Err));
            }
            receiver
        };
        reports.into_iter().map(accept).collect()
    }
}

struct TestPlane {
    plane: EmbeddedPlane,
    sink: Arc<FakeSink>,
    clock: Clock,
    signer: Arc<TokenSigner>,
}

fn room() -> NamespacedRoom {
    "prj_0123456789ab.stand-up".parse().unwrap()
}

fn camera() -> NewTrack {
    NewTrack {
        kind: TrackKind::Video,
        source: TrackSource::Camera,
        name: None,
        muted: false,
    }
}

impl TestPlane {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let signer = Arc::new(TokenSigner::new("APIkey", &Secret::new("secret")));
        let sink = Arc::new(FakeSink::default());
        let mut builder = EmbeddedPlane::builder(
            clock.clone(),
            Arc::clone(&signer),
            "ws://localhost",
            sink.clone(),
        );
        builder.has_sandbox = true;
        let plane = builder.build();
        Self {
            plane,
            sink,
            clock,
            signer,
        }
    }

    fn token(&self, identity: &str) -> Secret {
        let request = TokenRequest {
            room: room(),
            identity: identity.parse().unwrap(),
            name: identity.to_owned(),
            metadata: String::new(),
            attributes: std::collections::BTreeMap::new(),
            role: Some("host".parse().unwrap()),
            role_change: None,
            revocation: None,
            exchange: None,
            max_kbps: Some(100),
            grants: Grants::default(),
            ttl: Duration::from_secs(60),
            empty_timeout_seconds: 300,
            max_participants: Some(3),
        };
        self.signer.mint(&request, self.clock.now()).unwrap().token
    }

    async fn join(&self, identity: &str) -> Result<JoinAccepted, SandboxError> {
        self.plane
            .sandbox()
            .join(self.token(identity).reveal())
            .await
    }
}

/// Runs the other tasks until all of them wait.
async fn run_other_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_participant_is_in_the_room_once_the_control_plane_has_accepted_its_join() {
    let test = TestPlane::new();
    test.sink.hold();
    let plane = test.plane.clone();
    let token = test.token("alice");
    let joining = tokio::spawn(async move { plane.sandbox().join(token.reveal()).await });
    run_other_tasks().await;
    assert!(test.plane.participants(&room()).await.unwrap().is_empty() && !joining.is_finished());

    test.sink.release().pop().unwrap().send(Ok(())).unwrap();
    let joined = joining.await.unwrap().unwrap();
    assert_eq!(
        (joined.room.as_str(), joined.identity.as_str()),
        ("stand-up", "alice")
    );
    assert_eq!(joined.role, Some("host".parse().unwrap()));
    let listed = test
        .plane
        .participant(&room(), &joined.identity)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (listed.sid, listed.state),
        (joined.sid, ParticipantState::Active)
    );
}

#[tokio::test]
async fn a_refused_join_leaves_no_participant_in_the_room() {
    let test = TestPlane::new();
    for (answer, error) in [
        (ReportError::RoomEnded, SandboxError::RoomEnded),
        (ReportError::RoleFull, SandboxError::RoleFull),
        (ReportError::Unavailable, SandboxError::Unavailable),
    ] {
        test.sink.errors.lock().unwrap().push_back(answer);
        assert_eq!(test.join("alice").await, Err(error));
        assert!(test.plane.participants(&room()).await.unwrap().is_empty());
    }
    test.sink.take_events();
    assert_eq!(test.join("alice").await.map(|_| ()), Ok(()));
    assert_eq!(
        test.sink.take_events().len(),
        1,
        "no participant was replaced"
    );
}

#[tokio::test]
async fn a_join_is_refused_if_the_sink_drops_its_answer_or_is_missing() {
    let test = TestPlane::new();
    test.sink.hold();
    let (joined, ()) = tokio::join!(test.join("alice"), async {
        run_other_tasks().await;
        drop(test.sink.release());
    });
    assert_eq!(joined, Err(SandboxError::Unavailable));

    let unconnected = Arc::new(ReportInlet::default());
    let plane = EmbeddedPlane::builder(
        test.clock.clone(),
        Arc::clone(&test.signer),
        "ws://localhost",
        unconnected,
    );
    assert_eq!(
        plane
            .build()
            .sandbox()
            .join(test.token("alice").reveal())
            .await,
        Err(SandboxError::Unavailable)
    );
}

#[tokio::test]
async fn a_join_is_completed_even_if_its_caller_disconnects() {
    let test = TestPlane::new();
    test.sink.hold();
    let plane = test.plane.clone();
    let token = test.token("alice");
    let caller = tokio::spawn(async move { plane.sandbox().join(token.reveal()).await });
    run_other_tasks().await;
    caller.abort();
    run_other_tasks().await;
    test.sink.release().pop().unwrap().send(Ok(())).unwrap();
    run_other_tasks().await;
    assert_eq!(test.plane.participants(&room()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_tokens_and_full_rooms_are_different_errors() {
    let test = TestPlane::new();
    assert_eq!(
        test.plane.sandbox().join("nonsense").await,
        Err(SandboxError::BadToken(TokenError::Malformed))
    );
    let old = test.token("alice");
    test.clock.advance(Duration::from_secs(60));
    assert_eq!(
        test.plane.sandbox().join(old.reveal()).await,
        Err(SandboxError::BadToken(TokenError::Expired))
    );
    for identity in ["alice", "bob", "carol"] {
        test.join(identity).await.unwrap();
    }
    assert_eq!(test.join("dave").await, Err(SandboxError::RoomFull));
    assert!(
        test.join("bob").await.is_ok(),
        "a participant that replaces itself fits into a full room"
    );
}

#[tokio::test]
async fn calls_of_the_port_do_not_await_the_answers_to_their_reports() {
    let test = TestPlane::new();
    let (alice, bob) = (
        test.join("alice").await.unwrap().sid,
        test.join("bob").await.unwrap().sid,
    );
    test.sink.hold();
    assert_eq!(
        test.plane.remove_participant(&room(), &alice).await,
        Ok(true)
    );
    assert_eq!(
        test.plane.remove_participant(&room(), &alice).await,
        Ok(false)
    );
    test.plane.close_room(&room()).await.unwrap();
    assert_eq!(test.sink.release().len(), 2);
    let last = |view: ClientView| view.inbox.last().map(|entry| entry.notice.clone());
    assert_eq!(
        last(test.plane.sandbox().view(&alice).await.unwrap()),
        Some(Notice::Removed)
    );
    assert_eq!(
        last(test.plane.sandbox().view(&bob).await.unwrap()),
        Some(Notice::RoomEnded)
    );
}

#[tokio::test]
async fn a_client_has_its_inbox_its_subscriptions_and_a_refreshed_token() {
    let test = TestPlane::new();
    let (alice, bob) = (
        test.join("alice").await.unwrap().sid,
        test.join("bob").await.unwrap().sid,
    );
    let track = test
        .plane
        .sandbox()
        .publish(&alice, camera())
        .await
        .unwrap();
    assert!(
        test.plane
            .sandbox()
            .mute(&alice, &track.sid, true)
            .await
            .unwrap()
            .muted
    );
    test.plane
        .sandbox()
        .send_data(&alice, b"hi".to_vec(), Some("chat"))
        .await
        .unwrap();
    test.clock.advance(Duration::from_secs(59));

    let view = test.plane.sandbox().view(&bob).await.unwrap();
    assert_eq!(
        (view.subscriptions, view.inbox.len()),
        (vec![track.sid.clone()], 1)
    );
    let claims = test
        .signer
        .verify(view.token.reveal(), test.clock.now())
        .unwrap();
    assert_eq!(
        claims.expires_at,
        test.clock.now().after(Duration::from_secs(600))
    );
    assert_eq!(
        (claims.identity.as_str(), claims.max_kbps()),
        ("bob", Some(100))
    );

    test.plane
        .sandbox()
        .unpublish(&alice, &track.sid)
        .await
        .unwrap();
    test.plane
        .sandbox()
        .leave(&bob, Departure::Left)
        .await
        .unwrap();
    test.clock.advance(Duration::from_secs(2));
    let view = test.plane.sandbox().view(&bob).await.unwrap();
    assert_eq!(
        (view.participant.state, view.subscriptions),
        (ParticipantState::Disconnected, vec![])
    );
    let expired = test.signer.verify(view.token.reveal(), test.clock.now());
    assert_eq!(
        expired,
        Err(TokenError::Expired),
        "the token is not refreshed after the leave"
    );
    assert_eq!(
        test.plane.sandbox().leave(&bob, Departure::Left).await,
        Err(SandboxError::NoSuchParticipant)
    );
}

#[tokio::test]
async fn an_exceeded_limit_is_reported_after_five_seconds() {
    let test = TestPlane::new();
    let alice = test.join("alice").await.unwrap().sid;
    test.sink.take_events();
    for (kbps, exceeded) in [(150, true), (80, false), (120, true)] {
        test.plane
            .sandbox()
            .set_bitrate(&alice, kbps)
            .await
            .unwrap();
        run_other_tasks().await;
        test.clock.advance(Duration::from_millis(4_999));
        run_other_tasks().await;
        assert_eq!(test.sink.take_events(), []);
        test.clock.advance(Duration::from_millis(1));
        run_other_tasks().await;
        let events = test.sink.take_events();
        assert!(
            matches!(&events[..], [MediaEvent::PublishLimit { limit, .. }] if limit.exceeded == exceeded),
            "{events:?}"
        );
    }
}

#[tokio::test]
async fn a_step_of_the_clock_is_no_time_for_joins_bitrates_and_egresses() {
    for hours in [1, -1] {
        let test = TestPlane::new();
        let alice = test.join("alice").await.unwrap().sid;
        test.plane.sandbox().set_bitrate(&alice, 200).await.unwrap();
        let inner = test.plane.inner();
        let claims = test
            .signer
            .verify(test.token("bob").reveal(), test.clock.now())
            .unwrap();
        let (bob, replies) = inner.call(&room(), |room_state, now| {
            room_state.request_join(claims, Client::default(), now)
        });
        await_replies(replies).await.unwrap();
        inner
            .call(&room(), |room_state, now| {
                room_state.admit(&bob.unwrap(), now)
            })
            .0
            .unwrap();
        inner.call(&room(), RoomState::start_egress);
        run_other_tasks().await;
        test.sink.take_events();

        test.clock.step(hours * 3_600_000);
        run_other_tasks().await;
        assert_eq!(test.sink.take_events(), [], "{hours} h");
        let mut happened = Vec::new();
        for second in 1..=60 {
            test.clock.advance(Duration::from_secs(1));
            run_other_tasks().await;
            happened.extend(
                test.sink
                    .take_events()
                    .into_iter()
                    .map(|event| match event {
                        MediaEvent::Egress(_) => (second, "egress"),
                        MediaEvent::PublishLimit { .. } => (second, "limit"),
                        MediaEvent::JoinAborted { .. } => (second, "aborted"),
                        other => panic!("{other:?}"),
                    }),
            );
        }
        assert_eq!(
            happened,
            [(1, "egress"), (5, "limit"), (60, "aborted")],
            "{hours} h"
        );
    }
}
