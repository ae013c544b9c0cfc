//! Independence of a plane's rooms.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use conclave_model::event::Departure;
use conclave_model::role::RoleSubscribe;
use conclave_model::{EgressId, ParticipantSid, Secret};

use tokio::sync::oneshot;

use super::*;
use crate::embedded::client::Client;
use crate::embedded::join::phases::conclude_uncounted;
use crate::embedded::room::Room;
use crate::embedded::room_state::tests::{NOW, claims};
use crate::port::{IngressRequest, MediaPlane, MuteOutcome, Report, ReportError, ReportReply};

/// Bounds waits, to find hangs.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A control plane that accepts everything.
struct Accept;

impl ReportSink for Accept {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let accept = |_| {
            let (sender, answer) = oneshot::channel();
            let _ = sender.send(Ok(()));
            answer
        };
        reports.into_iter().map(accept).collect()
    }
}

/// A control plane that accepts nothing until it is released.
#[derive(Default)]
struct Hold(parking_lot::Mutex<Vec<oneshot::Sender<Result<(), ReportError>>>>);

impl Hold {
    fn accept(&self) {
        self.0
            .lock()
            .drain(..)
            .for_each(|answer| answer.send(Ok(())).unwrap());
    }
}

impl ReportSink for Hold {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let hold = |_| {
            let (sender, answer) = oneshot::channel();
            self.0.lock().push(sender);
            answer
        };
        reports.into_iter().map(hold).collect()
    }
}

fn plane() -> EmbeddedPlane {
    plane_with(Arc::new(Accept))
}

fn plane_with(sink: Arc<dyn ReportSink>) -> EmbeddedPlane {
    let signer = Arc::new(TokenSigner::new("key", &Secret::new("secret")));
    let mut builder = EmbeddedPlane::builder(Clock::manual(NOW), signer, "ws://localhost", sink);
    builder.has_sandbox = true;
    builder.build()
}

fn room(name: &str) -> NamespacedRoom {
    format!("prj_0123456789ab.{name}").parse().unwrap()
}

/// Joins a sandbox participant. Returns its room and its sid.
fn join(
    plane: &EmbeddedPlane,
    name: &NamespacedRoom,
    identity: &str,
) -> (Arc<Room>, ParticipantSid) {
    let (room, sid, _) = plane.inner().enter(name, |room_state, now| {
        let sid = room_state
            .start_join(claims(name, identity, None), now)
            .unwrap();
        room_state.complete_join(&sid, now);
        sid
    });
    (room, sid)
}

/// Uses a room in all ways, including opening and closing it.
async fn use_room(plane: &EmbeddedPlane, name: &NamespacedRoom) {
    let (_, sid) = join(plane, name, "alice");
    assert_eq!(plane.participants(name).await.unwrap().len(), 1);
    assert!(plane.remove_participant(name, &sid).await.unwrap());
    let (_, sid) = join(plane, name, "alice");
    plane.sandbox().leave(&sid, Departure::Left).await.unwrap();
    let stopped = start_egress(plane, name);
    assert!(plane.egress(name, &stopped).await.unwrap().is_some());
    plane.close_room(name).await.unwrap();
    assert!(plane.inner().rooms.get(name).is_none());
}

fn start_egress(plane: &EmbeddedPlane, name: &NamespacedRoom) -> EgressId {
    plane
        .inner()
        .call(name, RoomState::start_egress)
        .0
        .egress_id
}

#[tokio::test]
async fn a_participant_whose_join_is_being_written_is_awaited_and_not_absent() {
    let held = Arc::new(Hold::default());
    let (plane, name) = (plane_with(held.clone()), room("standup"));
    let (room, sid, answers) = plane.inner().enter(&name, |room_state, now| {
        room_state
            .start_join(claims(&name, "alice", None), now)
            .unwrap()
    });
    let concluded = tokio::spawn(conclude_uncounted(
        Arc::clone(plane.inner()),
        room,
        sid,
        answers,
    ));
    let found = tokio::spawn({
        let (plane, name) = (plane.clone(), name.clone());
        async move { plane.participant(&name, &"alice".parse().unwrap()).await }
    });
    assert!(
        plane
            .participant(&name, &"bob".parse().unwrap())
            .await
            .unwrap()
            .is_none(),
        "others are not awaited"
    );
    tokio::task::yield_now().await;
    assert!(!found.is_finished());
    held.accept();
    concluded.await.unwrap().unwrap();
    assert_eq!(
        found.await.unwrap().unwrap().unwrap().identity.as_str(),
        "alice"
    );
}

#[test]
fn an_operation_on_one_room_does_not_wait_for_another() {
    let plane = plane();
    let (held, _) = join(&plane, &room("held"), "alice");
    let (used, done) = mpsc::channel();
    // Locked for longer than all operations on the other room take.
    let guard = held.lock();
    thread::spawn({
        let plane = plane.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            runtime.block_on(use_room(&plane, &room("other")));
            used.send(()).unwrap();
        }
    });
    done.recv_timeout(WAIT_LIMIT).unwrap();
    drop(guard);
}

#[test]
fn a_join_that_meets_the_close_of_its_room_is_in_a_new_one() {
    let (plane, name) = (plane(), room("stand-up"));
    let (closing, _) = join(&plane, &name, "alice");
    let mut state = closing.lock();
    let joining = thread::spawn({
        let (plane, name) = (plane.clone(), name.clone());
        move || join(&plane, &name, "bob")
    });
    // Once the thread has found the room, which the directory and this test have, too, it waits for the lock.
    let deadline = Instant::now() + WAIT_LIMIT;
    while Arc::strong_count(&closing) <= 2 {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    state.room_state.close(NOW);
    plane.inner().rooms.close_if_unused(&closing, &mut state);
    drop(state);
    let (joined, bob) = joining.join().unwrap();
    assert!(
        !Arc::ptr_eq(&joined, &closing)
            && Arc::ptr_eq(&joined, &plane.inner().rooms.get(&name).unwrap())
    );
    assert!(joined.lock().room_state.present(&bob).is_ok());
    assert!(
        closing.lock().room_state.is_unused(),
        "nothing came after its close"
    );
}

#[test]
fn joins_and_closes_at_once_leave_each_participant_in_a_room_that_is_open() {
    let (plane, name) = (plane(), room("stand-up"));
    let joins = |identity: &'static str| {
        let (plane, name) = (plane.clone(), name.clone());
        move || {
            for _ in 0..2_000 {
                let (room, sid) = join(&plane, &name, identity);
                let state = room.lock();
                if state.room_state.present(&sid).is_ok() {
                    assert!(Arc::ptr_eq(&room, &plane.inner().rooms.get(&name).unwrap()));
                }
            }
        }
    };
    let closes = || {
        for _ in 0..2_000 {
            plane.inner().call(&name, RoomState::close);
        }
    };
    thread::scope(|scope| {
        scope.spawn(joins("alice"));
        scope.spawn(joins("bob"));
        scope.spawn(closes);
    });
    plane.inner().call(&name, RoomState::close);
    assert!(plane.inner().rooms.all().is_empty());
}

#[tokio::test]
async fn a_participant_is_found_only_in_its_own_room() {
    let plane = plane();
    let (name, other) = (room("stand-up"), room("other"));
    let (_, sid) = join(&plane, &name, "alice");
    let alice = "alice".parse().unwrap();
    assert!(plane.participant(&other, &alice).await.unwrap().is_none());
    assert!(!plane.remove_participant(&other, &sid).await.unwrap());
    let muted = plane
        .mute_track(&other, &alice, &"TR_1".parse().unwrap(), true)
        .await
        .unwrap();
    assert_eq!(muted, MuteOutcome::NoSuchParticipant);
    let inventory = plane.inventory().await.unwrap();
    assert_eq!(
        inventory.rooms,
        std::slice::from_ref(&name),
        "a question opens no room"
    );
    assert_eq!(plane.participants(&name).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_earlier_deadline_than_the_one_that_is_awaited_is_not_missed() {
    let (plane, name) = (plane(), room("stand-up"));
    let (room, sid, _) = plane.inner().enter(&name, |room_state, now| {
        let sid = room_state
            .request_join(claims(&name, "alice", None), Client::default(), now)
            .unwrap();
        room_state.admit(&sid, now).unwrap();
        sid
    });
    tokio::task::yield_now().await;
    // Shortens the time to connect its media.
    plane
        .inner()
        .call_in(&room, |room_state, _| room_state.signal_lost(&sid));
    plane.inner().clock.advance(Duration::from_secs(30));
    let aborted = async {
        while plane.inner().rooms.get(&name).is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_LIMIT, aborted)
        .await
        .expect("the join is aborted in time");
}

#[tokio::test]
async fn a_room_stays_as_long_as_something_of_it_is_left() {
    let (plane, name) = (plane(), room("stand-up"));
    let is_open = || plane.inner().rooms.get(&name).is_some();
    let guest = || BTreeMap::from([("guest".parse().unwrap(), RoleSubscribe::default())]);
    plane.set_subscription_rules(&name, guest()).await.unwrap();
    assert!(is_open() && plane.inventory().await.unwrap().rooms.is_empty());
    plane.close_room(&name).await.unwrap();
    assert!(!is_open(), "its rules were all that was left");
    let request = IngressRequest {
        room: name.clone(),
        max_participants: None,
        input_type: conclave_model::ingress::InputType::Rtmp,
        identity: "studio".parse().unwrap(),
        name: None,
        enable_transcoding: None,
        public_url: None,
    };
    let endpoint = plane.create_ingress(request).await.unwrap();
    plane.close_room(&name).await.unwrap();
    assert!(is_open(), "an encoder may come");
    assert_eq!(plane.inventory().await.unwrap().ingresses.len(), 1);
    assert!(
        plane
            .sandbox()
            .connect_encoder(endpoint.stream_key.reveal())
            .await
            .is_ok()
    );
    plane.delete_ingress(&endpoint.ingress_id).await.unwrap();
    assert!(!is_open());
    let refused = plane
        .sandbox()
        .connect_encoder(endpoint.stream_key.reveal())
        .await;
    assert_eq!(refused, Err(crate::embedded::SandboxError::NoSuchIngress));
}
