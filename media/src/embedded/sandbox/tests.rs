use std::collections::VecDeque;
use std::sync::Mutex;

use conclave_model::participant::{ParticipantState, TrackKind, TrackSource};
use conclave_model::{Clock, NamespacedRoom};
use tokio::sync::oneshot;

use super::*;
use crate::embedded::Notice;
use crate::port::{MediaEvent, MediaPlane, Report, ReportSink};
use crate::token::{Grants, TokenRequest, TokenSigner};

type Answer = oneshot::Sender<Result<(), ReportError>>;

/// A control plane that takes everything, unless it was told otherwise or keeps its answers back.
#[derive(Default)]
struct FakeSink {
    reports: Mutex<Vec<Report>>,
    refusals: Mutex<VecDeque<ReportError>>,
    held: Mutex<Option<Vec<Answer>>>,
}

impl FakeSink {
    fn facts(&self) -> Vec<MediaEvent> {
        self.reports.lock().unwrap().drain(..).map(|report| report.event).collect()
    }

    fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    fn release(&self) -> Vec<Answer> {
        self.held.lock().unwrap().take().unwrap_or_default()
    }
}

impl ReportSink for FakeSink {
    fn report(&self, report: Report) -> ReportAnswer {
        let (answer, receiver) = oneshot::channel();
        self.reports.lock().unwrap().push(report);
        if let Some(held) = self.held.lock().unwrap().as_mut() {
            held.push(answer);
        } else {
            let refusal = self.refusals.lock().unwrap().pop_front();
            let _ = answer.send(refusal.map_or(Ok(()), Err));
        }
        receiver
    }
}

struct Stage {
    plane: EmbeddedPlane,
    sink: Arc<FakeSink>,
    clock: Clock,
    signer: Arc<TokenSigner>,
}

fn room() -> NamespacedRoom {
    "prj_0123456789ab.stand-up".parse().unwrap()
}

fn camera() -> NewTrack {
    NewTrack { kind: TrackKind::Video, source: TrackSource::Camera, name: None, muted: false }
}

impl Stage {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let signer = Arc::new(TokenSigner::new("APIkey", &Secret::new("secret")));
        let (plane, sink) =
            (EmbeddedPlane::new(clock.clone(), Arc::clone(&signer), "ws://localhost"), Arc::new(FakeSink::default()));
        assert!(plane.set_report_sink(sink.clone()) && !plane.set_report_sink(sink.clone()));
        Self { plane, sink, clock, signer }
    }

    fn token(&self, who: &str) -> Secret {
        let request = TokenRequest {
            room: room(),
            identity: who.parse().unwrap(),
            name: who.to_owned(),
            metadata: String::new(),
            role: Some("host".parse().unwrap()),
            max_kbps: Some(100),
            grants: Grants::default(),
            ttl: Duration::from_secs(60),
            empty_timeout_seconds: 300,
            max_participants: Some(3),
        };
        self.signer.mint(&request, self.clock.now()).unwrap().token
    }

    async fn join(&self, who: &str) -> Result<JoinAccepted, SandboxError> {
        self.plane.join(self.token(who).reveal()).await
    }
}

/// Lets every other task run until it waits.
async fn others() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_joins_is_in_the_room_once_the_control_plane_has_taken_the_report() {
    let stage = Stage::new();
    stage.sink.hold();
    let plane = stage.plane.clone();
    let token = stage.token("alice");
    let joining = tokio::spawn(async move { plane.join(token.reveal()).await });
    others().await;
    assert!(stage.plane.participants(&room()).await.unwrap().is_empty() && !joining.is_finished());

    stage.sink.release().pop().unwrap().send(Ok(())).unwrap();
    let joined = joining.await.unwrap().unwrap();
    assert_eq!((joined.room.as_str(), joined.identity.as_str()), ("stand-up", "alice"));
    assert_eq!(joined.role, Some("host".parse().unwrap()));
    let listed = stage.plane.participant(&room(), &joined.identity).await.unwrap().unwrap();
    assert_eq!((listed.sid, listed.state), (joined.sid, ParticipantState::Active));
}

#[tokio::test]
async fn a_join_that_is_refused_leaves_nobody_in_the_room() {
    let stage = Stage::new();
    for (refusal, error) in [
        (ReportError::RoomEnded, SandboxError::RoomEnded),
        (ReportError::RoleFull, SandboxError::RoleFull),
        (ReportError::Unavailable, SandboxError::Unavailable),
    ] {
        stage.sink.refusals.lock().unwrap().push_back(refusal);
        assert_eq!(stage.join("alice").await, Err(error));
        assert!(stage.plane.participants(&room()).await.unwrap().is_empty());
    }
    stage.sink.facts();
    assert_eq!(stage.join("alice").await.map(|_| ()), Ok(()));
    assert_eq!(stage.sink.facts().len(), 1, "nobody was there to be replaced");
}

#[tokio::test]
async fn a_sink_that_lets_go_of_a_join_or_is_not_there_has_not_taken_it() {
    let stage = Stage::new();
    stage.sink.hold();
    let (joined, ()) = tokio::join!(stage.join("alice"), async {
        others().await;
        drop(stage.sink.release());
    });
    assert_eq!(joined, Err(SandboxError::Unavailable));

    let lonely = EmbeddedPlane::new(stage.clock.clone(), Arc::clone(&stage.signer), "ws://localhost");
    assert_eq!(lonely.join(stage.token("alice").reveal()).await, Err(SandboxError::Unavailable));
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_leave_a_join_undecided() {
    let stage = Stage::new();
    stage.sink.hold();
    let plane = stage.plane.clone();
    let token = stage.token("alice");
    let caller = tokio::spawn(async move { plane.join(token.reveal()).await });
    others().await;
    caller.abort();
    others().await;
    stage.sink.release().pop().unwrap().send(Ok(())).unwrap();
    others().await;
    assert_eq!(stage.plane.participants(&room()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn bad_tokens_and_full_rooms_are_told_apart() {
    let stage = Stage::new();
    assert_eq!(stage.plane.join("nonsense").await, Err(SandboxError::BadToken(TokenError::Malformed)));
    let old = stage.token("alice");
    stage.clock.advance(Duration::from_secs(60));
    assert_eq!(stage.plane.join(old.reveal()).await, Err(SandboxError::BadToken(TokenError::Expired)));
    for who in ["alice", "bob", "carol"] {
        stage.join(who).await.unwrap();
    }
    assert_eq!(stage.join("dave").await, Err(SandboxError::RoomFull));
    assert!(stage.join("bob").await.is_ok(), "who replaces itself needs no place");
}

#[tokio::test]
async fn the_port_does_not_wait_for_the_answers_to_what_it_causes() {
    let stage = Stage::new();
    let (alice, bob) = (stage.join("alice").await.unwrap().sid, stage.join("bob").await.unwrap().sid);
    stage.sink.hold();
    assert_eq!(stage.plane.remove_participant(&room(), &alice).await, Ok(true));
    assert_eq!(stage.plane.remove_participant(&room(), &alice).await, Ok(false));
    stage.plane.close_room(&room()).await.unwrap();
    assert_eq!(stage.sink.release().len(), 2);
    let last = |view: ClientView| view.inbox.last().map(|entry| entry.notice.clone());
    assert_eq!(last(stage.plane.view(&alice).await.unwrap()), Some(Notice::Removed));
    assert_eq!(last(stage.plane.view(&bob).await.unwrap()), Some(Notice::RoomEnded));
}

#[tokio::test]
async fn a_client_holds_its_inbox_its_tracks_and_a_refreshed_token() {
    let stage = Stage::new();
    let (alice, bob) = (stage.join("alice").await.unwrap().sid, stage.join("bob").await.unwrap().sid);
    let track = stage.plane.publish(&alice, camera()).await.unwrap();
    assert!(stage.plane.mute(&alice, &track.sid, true).await.unwrap().muted);
    stage.plane.send_data(&alice, "aGk=", Some("chat")).await.unwrap();
    stage.clock.advance(Duration::from_secs(59));

    let view = stage.plane.view(&bob).await.unwrap();
    assert_eq!((view.subscriptions, view.inbox.len()), (vec![track.sid.clone()], 1));
    let claims = stage.signer.verify(view.token.reveal(), stage.clock.now()).unwrap();
    assert_eq!(claims.expires_at, stage.clock.now().after(Duration::from_secs(600)));
    assert_eq!((claims.identity.as_str(), claims.max_kbps()), ("bob", Some(100)));

    stage.plane.unpublish(&alice, &track.sid).await.unwrap();
    stage.plane.leave(&bob, true).await.unwrap();
    stage.clock.advance(Duration::from_secs(2));
    let view = stage.plane.view(&bob).await.unwrap();
    assert_eq!((view.participant.state, view.subscriptions), (ParticipantState::Disconnected, vec![]));
    let gone = stage.signer.verify(view.token.reveal(), stage.clock.now());
    assert_eq!(gone, Err(TokenError::Expired), "who is gone gets no new life");
    assert_eq!(stage.plane.leave(&bob, true).await, Err(SandboxError::NoSuchParticipant));
}

#[tokio::test]
async fn a_ceiling_passed_is_reported_when_its_time_has_come() {
    let stage = Stage::new();
    let alice = stage.join("alice").await.unwrap().sid;
    stage.sink.facts();
    for (kbps, exceeded) in [(150, true), (80, false), (120, true)] {
        stage.plane.set_bitrate(&alice, kbps).await.unwrap();
        others().await;
        stage.clock.advance(Duration::from_millis(4_999));
        others().await;
        assert_eq!(stage.sink.facts(), []);
        stage.clock.advance(Duration::from_millis(1));
        others().await;
        let facts = stage.sink.facts();
        assert!(
            matches!(&facts[..], [MediaEvent::PublishLimit { limit, .. }] if limit.exceeded == exceeded),
            "{facts:?}"
        );
    }
}
