mod clients;

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::RoleName;
use conclave_model::event::{Departure, PublishLimit};
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::participant::{DataKind, ParticipantKind, ParticipantState, TrackKind, TrackSource};
use conclave_model::role::RoleSubscribe;

use super::*;
use crate::embedded::inbox::{InboxEntry, Notice};
use crate::embedded::publish::NewTrack;
use crate::port::{IngressRequest, ServerData};
use crate::token::{Claims, Grants, RoomConfig};

pub(in crate::embedded) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Returns the monotonic reading at a time of a clock that is never set.
pub(in crate::embedded) fn reading(now: Timestamp) -> Duration {
    now.since(Timestamp::from_millis(0))
}

/// A room without the sandbox.
impl Default for Machine {
    fn default() -> Self {
        Self::new(room(), Arc::new(Common::new(100, false)))
    }
}

impl Machine {
    /// Sets the reading of a clock that is never set.
    pub(super) fn at(&mut self, now: Timestamp) -> &mut Self {
        self.set_reading(reading(now));
        self
    }

    pub(super) fn tick_at(&mut self, now: Timestamp) {
        self.at(now).tick(now);
    }
}

/// A machine that keeps what the sandbox shows.
pub(in crate::embedded) fn sandbox_machine() -> Machine {
    Machine::new(room(), Arc::new(Common::new(100, true)))
}

pub(in crate::embedded) fn room() -> NamespacedRoom {
    "prj_0123456789ab.stand-up".parse().unwrap()
}

pub(in crate::embedded) fn claims(room: &NamespacedRoom, identity: &str, max_participants: Option<u32>) -> Claims {
    Claims {
        room: room.clone(),
        identity: identity.parse().unwrap(),
        name: String::new(),
        metadata: String::new(),
        attributes: BTreeMap::new(),
        kind: ParticipantKind::Standard,
        grants: Grants::default(),
        room_config: Some(RoomConfig { empty_timeout_seconds: 330, departure_timeout_seconds: 330, max_participants }),
        expires_at: NOW.after(Duration::from_secs(60)),
    }
}

/// A role that receives the tracks of these roles.
pub(super) fn to_roles(roles: &[RoleName]) -> RoleSubscribe {
    RoleSubscribe { to_roles: Some(roles.to_vec()), max_kbps: None }
}

fn with(mut claims: Claims, attribute: &str, value: &str) -> Claims {
    claims.attributes.insert(attribute.into(), value.into());
    claims
}

pub(super) fn hidden(mut claims: Claims) -> Claims {
    claims.grants.hidden = true;
    claims
}

fn without_subscribing(mut claims: Claims) -> Claims {
    claims.grants.can_subscribe = false;
    claims
}

/// Creates an ingress endpoint, and returns the hash of its key.
pub(in crate::embedded) fn endpoint(machine: &mut Machine, input_type: InputType) -> StreamKeyHash {
    let (_, key) = machine.create_ingress(IngressRequest {
        room: room(),
        max_participants: None,
        input_type,
        identity: "studio".parse().unwrap(),
        name: None,
        enable_transcoding: None,
    });
    StreamKeyHash::from_key(key.reveal())
}

pub(super) fn join(machine: &mut Machine, claims: Claims) -> ParticipantSid {
    let sid = machine.begin_join(claims, NOW).unwrap();
    machine.complete_join(&sid, NOW);
    sid
}

pub(super) fn joined(machine: &mut Machine, identity: &str) -> ParticipantSid {
    join(machine, claims(&room(), identity, None))
}

pub(super) fn camera() -> NewTrack {
    NewTrack { kind: TrackKind::Video, source: TrackSource::Camera, name: None, muted: false }
}

pub(super) fn microphone() -> NewTrack {
    NewTrack { kind: TrackKind::Audio, source: TrackSource::Microphone, name: Some("mic".into()), muted: true }
}

/// Takes the reports; returns a short name and the participant's sid of each.
pub(super) fn take_names(machine: &mut Machine) -> Vec<(&'static str, ParticipantSid)> {
    let name = |report: Report| match report.event.clone() {
        MediaEvent::ParticipantJoined(participant) => ("joined", participant.sid.clone()),
        MediaEvent::ParticipantLeft { participant, departure: Departure::Left } => ("left", participant.sid),
        MediaEvent::ParticipantLeft { participant, departure: Departure::Lost } => ("aborted", participant.sid),
        MediaEvent::JoinAborted { participant } => ("join aborted", participant.sid),
        MediaEvent::TrackPublished { participant, .. } => ("published", participant.sid),
        MediaEvent::TrackUnpublished { participant, .. } => ("unpublished", participant.sid),
        MediaEvent::TrackMuted { participant, track } => {
            (if track.muted { "muted" } else { "unmuted" }, participant.sid)
        }
        MediaEvent::PublishLimit { participant, limit } => {
            (if limit.exceeded { "exceeded" } else { "cleared" }, participant.sid)
        }
        MediaEvent::JoinRequested { participant, .. } => ("requested", participant.sid.clone()),
        MediaEvent::InvalidIdentity | MediaEvent::Egress(_) | MediaEvent::Ingress(_) => {
            panic!("not about a participant: {report:?}")
        }
    };
    machine.take_reports().into_iter().map(name).collect()
}

fn inbox(machine: &Machine, sid: &ParticipantSid) -> Vec<InboxEntry> {
    machine.active_or_left(sid).unwrap().inbox
}

#[test]
fn a_join_is_reported_at_once_and_visible_once_it_is_complete() {
    let mut machine = sandbox_machine();
    let sid = machine.begin_join(claims(&room(), "alice", None), NOW).unwrap();
    let reports = machine.take_reports();
    let [Report { event: MediaEvent::ParticipantJoined(reported), .. }] = reports.as_slice() else {
        panic!("{reports:?}")
    };
    assert_eq!((reported.state, reported.joined_at), (ParticipantState::Active, Some(NOW)));
    assert_eq!(machine.participants(), []);
    assert_eq!(machine.publish(&sid, camera(), NOW), Err(MachineError::NoSuchParticipant));

    machine.complete_join(&sid, NOW);
    assert_eq!(machine.participants(), [(**reported).clone()]);
    assert!(sid.as_str().starts_with("PA_") && sid.as_str().len() == 15);
}

#[test]
fn an_aborted_join_leaves_no_state() {
    let mut machine = sandbox_machine();
    let sid = machine.begin_join(claims(&room(), "alice", Some(1)), NOW).unwrap();
    machine.take_reports();
    machine.abort_join(&sid, NOW);
    assert_eq!(take_names(&mut machine), []);
    assert!(machine.active_or_left(&sid).is_err() && machine.is_unused());
    assert!(machine.begin_join(claims(&room(), "bob", Some(1)), NOW).is_ok());
}

#[test]
fn a_join_that_is_refused_after_its_room_was_closed_leaves_no_inbox() {
    let mut machine = sandbox_machine();
    let sid = machine.begin_join(claims(&room(), "alice", None), NOW).unwrap();
    machine.close(NOW);
    assert!(machine.active_or_left(&sid).is_ok());
    machine.abort_join(&sid, NOW);
    assert!(machine.active_or_left(&sid).is_err());
}

#[test]
fn a_full_room_accepts_only_participants_that_replace_themselves() {
    let mut machine = sandbox_machine();
    let first = join(&mut machine, claims(&room(), "alice", Some(1)));
    machine.publish(&first, camera(), NOW).unwrap();
    machine.publish(&first, microphone(), NOW).unwrap();
    machine.take_reports();
    assert_eq!(machine.begin_join(claims(&room(), "bob", Some(1)), NOW), Err(MachineError::RoomFull));
    assert_eq!(take_names(&mut machine), []);

    let second = join(&mut machine, claims(&room(), "alice", Some(1)));
    let unpublished = ("unpublished", first.clone());
    assert_eq!(
        take_names(&mut machine),
        [unpublished.clone(), unpublished, ("left", first.clone()), ("joined", second.clone())]
    );
    assert_eq!(machine.participants().len(), 1);
    assert_eq!(machine.active_or_left(&first).unwrap().participant.state, ParticipantState::Disconnected);
}

#[test]
fn replacing_the_only_participant_keeps_the_maximum() {
    let mut machine = sandbox_machine();
    join(&mut machine, claims(&room(), "alice", Some(1)));
    join(&mut machine, claims(&room(), "alice", Some(9)));
    assert_eq!(machine.begin_join(claims(&room(), "bob", Some(9)), NOW), Err(MachineError::RoomFull));
}

#[test]
fn tracks_are_reported_when_they_are_published_muted_and_unpublished() {
    let mut machine = sandbox_machine();
    let sid = joined(&mut machine, "alice");
    let track = machine.publish(&sid, microphone(), NOW).unwrap();
    assert_eq!((track.muted, track.name.as_deref()), (true, Some("mic")));
    assert!(machine.participants()[0].is_publisher);
    assert!(!machine.mute(&sid, &track.sid, false, NOW).unwrap().muted);
    assert_eq!(machine.participants()[0].tracks.len(), 1);
    machine.unpublish(&sid, &track.sid, NOW).unwrap();
    assert_eq!(machine.unpublish(&sid, &track.sid, NOW), Err(MachineError::NoSuchTrack));
    assert!(!machine.participants()[0].is_publisher);
    let names: Vec<_> = take_names(&mut machine).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["joined", "published", "unmuted", "unpublished"]);
}

#[test]
fn a_leave_ends_the_tracks_first_and_cannot_be_repeated() {
    let mut machine = sandbox_machine();
    let sid = joined(&mut machine, "alice");
    machine.publish(&sid, camera(), NOW).unwrap();
    machine.take_reports();
    machine.leave(&sid, Departure::Lost, NOW).unwrap();
    assert_eq!(take_names(&mut machine), [("unpublished", sid.clone()), ("aborted", sid.clone())]);
    assert_eq!(machine.leave(&sid, Departure::Left, NOW), Err(MachineError::NoSuchParticipant));
    assert!(machine.is_unused());
}

#[test]
fn a_removed_participant_has_a_notice_in_its_inbox() {
    let mut machine = sandbox_machine();
    let sid = joined(&mut machine, "alice");
    assert!(machine.remove_participant(&sid, NOW) && !machine.remove_participant(&sid, NOW));
    assert_eq!(inbox(&machine, &sid), [InboxEntry { at: NOW, notice: Notice::Removed }]);
    assert_eq!(take_names(&mut machine), [("joined", sid.clone()), ("left", sid)]);
}

#[test]
fn closing_a_room_disconnects_its_participants() {
    let mut machine = sandbox_machine();
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    machine.publish(&bob, camera(), NOW).unwrap();
    machine.take_reports();
    machine.close(NOW);
    machine.close(NOW);
    assert_eq!(
        take_names(&mut machine),
        [("left", alice.clone()), ("unpublished", bob.clone()), ("left", bob.clone())]
    );
    for sid in [alice, bob] {
        assert_eq!(inbox(&machine, &sid), [InboxEntry { at: NOW, notice: Notice::RoomEnded }]);
    }
}

#[test]
fn data_reaches_the_others_that_may_subscribe_without_the_identity_of_a_hidden_sender() {
    let mut machine = sandbox_machine();
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    let unsubscribed = join(&mut machine, without_subscribing(claims(&room(), "dave", None)));
    let hidden = join(&mut machine, hidden(claims(&room(), "hidden", None)));
    machine.send_data(&alice, b"hi".to_vec(), Some("chat"), NOW).unwrap();
    machine.send_data(&hidden, b"bo".to_vec(), None, NOW).unwrap();

    let senders = |sid: &ParticipantSid| -> Vec<Option<String>> {
        let from = |entry: InboxEntry| match entry.notice {
            Notice::Data { from_identity, .. } => from_identity.map(|identity| identity.to_string()),
            other => panic!("{other:?}"),
        };
        inbox(&machine, sid).into_iter().map(from).collect()
    };
    assert_eq!(senders(&bob), [Some("alice".to_owned()), None]);
    assert_eq!(senders(&alice), [None]);
    assert_eq!((senders(&unsubscribed).len(), senders(&hidden).len()), (0, 1));
}

#[test]
fn data_needs_its_grant() {
    let mut machine = sandbox_machine();
    let mut claims = claims(&room(), "alice", None);
    claims.grants.can_publish_data = false;
    let sid = join(&mut machine, claims);
    assert!(matches!(machine.send_data(&sid, b"hi".to_vec(), None, NOW), Err(MachineError::Forbidden(_))));
}

#[test]
fn subscriptions_follow_the_rules_of_the_room() {
    let mut machine = sandbox_machine();
    let (host, guest): (RoleName, RoleName) = ("host".parse().unwrap(), "guest".parse().unwrap());
    // Set before the first join.
    machine.set_subscription_rules(BTreeMap::from([
        (guest.clone(), to_roles(std::slice::from_ref(&host))),
        (host, RoleSubscribe::default()),
    ]));
    let with_role = |identity: &str, role: &str| with(claims(&room(), identity, None), "svc.role", role);
    let alice = join(&mut machine, with_role("alice", "host"));
    let bob = join(&mut machine, with_role("bob", "guest"));
    let carol = join(&mut machine, with_role("carol", "guest"));
    let dave = joined(&mut machine, "dave");
    let hidden = join(&mut machine, hidden(claims(&room(), "hidden", None)));
    let [a, b, c, d, _] =
        [&alice, &bob, &carol, &dave, &hidden].map(|p| machine.publish(p, camera(), NOW).unwrap().sid);

    assert_eq!(machine.subscriptions(&alice), [b.clone(), c.clone(), d.clone()]);
    assert_eq!(machine.subscriptions(&bob), std::slice::from_ref(&a));
    assert_eq!(machine.subscriptions(&dave), [a.clone(), b.clone(), c.clone()]);
    assert_eq!(machine.subscriptions(&hidden), [a, b, c, d]);

    machine.set_subscription_rules(BTreeMap::from([(guest, to_roles(&[]))]));
    assert_eq!(machine.subscriptions(&bob), []);
    machine.close(NOW);
    assert!(machine.is_unused() && machine.subscriptions(&alice).is_empty());
}

#[test]
fn a_participant_that_may_not_subscribe_or_is_still_joining_receives_no_tracks() {
    let mut machine = sandbox_machine();
    let alice = joined(&mut machine, "alice");
    machine.publish(&alice, camera(), NOW).unwrap();
    let unsubscribed = join(&mut machine, without_subscribing(claims(&room(), "bob", None)));
    let joining = machine.begin_join(claims(&room(), "carol", None), NOW).unwrap();
    assert_eq!((machine.subscriptions(&unsubscribed), machine.subscriptions(&joining)), (vec![], vec![]));
    machine.complete_join(&joining, NOW);
    assert_eq!(machine.subscriptions(&joining).len(), 1);
}

#[test]
fn a_room_is_occupied_while_it_has_members_and_not_by_its_rules() {
    let mut machine = sandbox_machine();
    let guest: RoleName = "guest".parse().unwrap();
    machine.set_subscription_rules(BTreeMap::from([(guest, RoleSubscribe::default())]));
    let members = |machine: &Machine| machine.members().iter().count();
    assert_eq!((members(&machine), machine.is_unused()), (0, false));
    let sid = joined(&mut machine, "alice");
    assert_eq!(members(&machine), 1);
    machine.leave(&sid, Departure::Left, NOW).unwrap();
    assert_eq!((members(&machine), machine.is_unused()), (0, false));
}

#[test]
fn an_id_that_is_in_use_is_not_given_again() {
    let tried = std::cell::RefCell::new(Vec::new());
    let id: ParticipantSid = unused_id("PA_", |id: &ParticipantSid| {
        tried.borrow_mut().push(id.clone());
        tried.borrow().len() < 3
    });
    assert_eq!((tried.borrow().len(), tried.borrow().last()), (3, Some(&id)));
}

#[test]
fn a_limit_exceeded_for_five_seconds_is_reported_with_the_only_track() {
    let mut machine = sandbox_machine();
    let at = |seconds| NOW.after(Duration::from_secs(seconds));
    let sid = join(&mut machine, with(claims(&room(), "alice", None), "svc.publish.max_kbps", "100"));
    let track = machine.publish(&sid, camera(), NOW).unwrap().sid;
    machine.take_reports();
    machine.at(NOW).set_bitrate(&sid, 180, NOW).unwrap();
    assert_eq!(machine.next_deadline(), Some(reading(at(5))));
    machine.tick_at(at(4));
    assert_eq!(take_names(&mut machine), []);
    machine.tick_at(at(5));
    let reports = machine.take_reports();
    let limit = PublishLimit { exceeded: true, kbps: 180, max_kbps: 100, track: Some(track) };
    assert!(
        matches!(&reports[..], [Report { event: MediaEvent::PublishLimit { limit: reported, .. }, .. }] if *reported == limit)
    );

    machine.publish(&sid, microphone(), NOW).unwrap();
    machine.take_reports();
    machine.at(at(10)).set_bitrate(&sid, 100, at(10)).unwrap();
    // Without a tick in between, the next measurement reports that the last one lasted.
    machine.at(at(15)).set_bitrate(&sid, 180, at(15)).unwrap();
    let reports = machine.take_reports();
    assert!(matches!(&reports[..], [Report { event: MediaEvent::PublishLimit { limit, .. }, .. }]
        if !limit.exceeded && limit.kbps == 100 && limit.track.is_none()));
    assert_eq!(machine.next_deadline(), Some(reading(at(20))));
    machine.leave(&sid, Departure::Left, at(16)).unwrap();
    assert_eq!(machine.next_deadline(), None);
}

#[test]
fn a_bounded_number_of_participants_that_left_is_kept() {
    let mut machine = sandbox_machine();
    let first = joined(&mut machine, "alice");
    machine.leave(&first, Departure::Left, NOW).unwrap();
    for _ in 0..999 {
        let sid = joined(&mut machine, "bob");
        machine.leave(&sid, Departure::Left, NOW).unwrap();
    }
    assert!(machine.active_or_left(&first).is_ok());
    let sid = joined(&mut machine, "bob");
    machine.leave(&sid, Departure::Left, NOW).unwrap();
    assert!(machine.active_or_left(&first).is_err() && machine.active_or_left(&sid).is_ok());
}

/// Joins and leaves as often as `times`, each time with what a client may say of itself. Returns the sids.
fn come_and_go(machine: &mut Machine, times: usize, metadata: &str) -> Vec<ParticipantSid> {
    let come_and_go = |_| {
        let sid = join(machine, Claims { metadata: metadata.to_owned(), ..claims(&room(), "alice", None) });
        machine.leave(&sid, Departure::Left, NOW).unwrap();
        sid
    };
    (0..times).map(come_and_go).collect()
}

#[test]
fn participants_that_left_are_kept_within_a_bound_of_bytes() {
    let mut machine = sandbox_machine();
    let sids = come_and_go(&mut machine, 40, &"a".repeat(1024 * 1024));
    let kept = sids.iter().filter(|sid| machine.active_or_left(sid).is_ok()).count();
    assert!((10..=16).contains(&kept), "{kept} MiB");
    assert!(machine.active_or_left(sids.last().unwrap()).is_ok(), "the last ones");
    assert!(
        come_and_go(&mut machine, 1, &"a".repeat(20 * 1024 * 1024))
            .iter()
            .all(|sid| machine.active_or_left(sid).is_err())
    );
}

#[test]
fn nothing_is_kept_of_who_left_without_the_sandbox() {
    let mut machine = Machine::default();
    let stays = joined(&mut machine, "bob");
    let message = ServerData { data: vec![1], topic: None, kind: DataKind::Reliable, to: Vec::new() };
    machine.send_server_data(message, NOW);
    assert_eq!(inbox(&machine, &stays), []);
    let sids = come_and_go(&mut machine, 3, "");
    assert!(sids.iter().all(|sid| machine.active_or_left(sid).is_err()));
}
