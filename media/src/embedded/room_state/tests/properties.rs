//! Property test: the reports of any sequence of calls are consistent.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::participant::DataKind;
use conclave_model::{Identity, TrackSid};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::embedded::publish::check_track;
use crate::port::{RoleGrant, ServerData};
use crate::token::Grants;

const CAP: u32 = 2;

#[derive(Debug, Clone)]
enum RoomStep {
    StartJoin { room: bool, index: u8 },
    Complete(Index),
    Abort(Index),
    Publish(Index),
    Unpublish(Index),
    Leave(Index, Departure),
    Remove(Index),
    Mute(Index, bool),
    Data(Index, bool),
    Role(Index, u8),
    Close { room: bool },
    Bitrate(Index, u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = RoomStep> {
    let anyone = any::<Index>;
    prop_oneof![
        4 => (any::<bool>(), 0u8..4).prop_map(|(room, index)| RoomStep::StartJoin { room, index }),
        4 => anyone().prop_map(RoomStep::Complete),
        1 => anyone().prop_map(RoomStep::Abort),
        3 => anyone().prop_map(RoomStep::Publish),
        2 => anyone().prop_map(RoomStep::Unpublish),
        2 => (anyone(), prop_oneof![Just(Departure::Left), Just(Departure::Lost)]).prop_map(|(index, departure)| RoomStep::Leave(index, departure)),
        1 => anyone().prop_map(RoomStep::Remove),
        1 => (anyone(), any::<bool>()).prop_map(|(index, muted)| RoomStep::Mute(index, muted)),
        1 => (anyone(), any::<bool>()).prop_map(|(index, all)| RoomStep::Data(index, all)),
        2 => (anyone(), 0u8..3).prop_map(|(index, role)| RoomStep::Role(index, role)),
        1 => any::<bool>().prop_map(|room| RoomStep::Close { room }),
        2 => (anyone(), 0u32..200).prop_map(|(index, kbps)| RoomStep::Bitrate(index, kbps)),
        2 => (0u64..8).prop_map(RoomStep::Wait),
    ]
}

/// Two rooms' states, and the state that follows from their reports.
struct Model {
    room_states: [RoomState; 2],
    /// All started joins, with their rooms.
    sids: Vec<(ParticipantSid, NamespacedRoom)>,
    /// Joins that are neither complete nor aborted.
    pending: HashSet<ParticipantSid>,
    /// Participants reported as joined: room, tracks, and whether the limit is exceeded.
    joined: HashMap<ParticipantSid, (NamespacedRoom, HashSet<TrackSid>, bool)>,
}

/// Role 1 has a low limit, and role 2 may not publish.
fn grant(role: u8) -> RoleGrant {
    RoleGrant {
        role: format!("r{role}").parse().unwrap(),
        max_kbps: (role == 1).then_some(50),
        grants: Grants {
            can_publish: role != 2,
            ..Grants::default()
        },
    }
}

fn room(other: bool) -> NamespacedRoom {
    format!("prj_0123456789ab.{}", if other { "a" } else { "b" })
        .parse()
        .unwrap()
}

impl Model {
    fn new() -> Self {
        let common = Arc::new(Common::new(100, false));
        let room_states =
            [false, true].map(|other| RoomState::new(room(other), Arc::clone(&common)));
        Self {
            room_states,
            sids: Vec::new(),
            pending: HashSet::new(),
            joined: HashMap::new(),
        }
    }

    fn room_state(&mut self, name: &NamespacedRoom) -> &mut RoomState {
        &mut self.room_states[usize::from(*name == room(true))]
    }

    fn pick(&self, index: &Index) -> (ParticipantSid, NamespacedRoom) {
        let unknown = || ("PA_nobody".parse().unwrap(), room(true));
        if self.sids.is_empty() {
            unknown()
        } else {
            index.get(&self.sids).clone()
        }
    }

    fn picked(&mut self, index: &Index) -> (ParticipantSid, &mut RoomState) {
        let (sid, room) = self.pick(index);
        (sid, self.room_state(&room))
    }

    fn apply(&mut self, step: &RoomStep, now: &mut Timestamp) {
        match step {
            RoomStep::StartJoin { room: which, index } => {
                self.start_join(&room(*which), *index, *now);
            }
            RoomStep::Complete(index) => {
                let (sid, room_state) = self.picked(index);
                room_state.complete_join(&sid, *now);
                self.pending.remove(&sid);
            }
            RoomStep::Abort(index) => self.abort(&self.pick(index)),
            RoomStep::Publish(index) => {
                let (sid, room_state) = self.picked(index);
                let _ = room_state.publish(&sid, camera(), *now);
            }
            RoomStep::Unpublish(index) => self.unpublish(&self.pick(index), *now),
            RoomStep::Leave(index, departure) => {
                let (sid, room_state) = self.picked(index);
                let _ = room_state.leave(&sid, *departure, *now);
            }
            RoomStep::Remove(index) => {
                let (sid, room_state) = self.picked(index);
                room_state.remove_participant(&sid, *now);
            }
            RoomStep::Mute(index, muted) => self.mute(&self.pick(index), *muted, *now),
            RoomStep::Data(index, all) => {
                let picked = self.pick(index);
                let to = self
                    .identity(&picked)
                    .filter(|_| !*all)
                    .into_iter()
                    .collect();
                let message = ServerData {
                    data: vec![1],
                    topic: None,
                    kind: DataKind::Lossy,
                    to,
                };
                self.room_state(&picked.1).send_server_data(message, *now);
            }
            RoomStep::Role(index, role) => {
                let picked = self.pick(index);
                if let Some(identity) = self.identity(&picked) {
                    drop(
                        self.room_state(&picked.1)
                            .set_role(&identity, grant(*role), *now),
                    );
                }
            }
            RoomStep::Close { room: which } => self.room_state(&room(*which)).close(*now),
            RoomStep::Bitrate(index, kbps) => {
                let (sid, room_state) = self.picked(index);
                let _ = room_state.set_bitrate(&sid, *kbps, *now);
            }
            RoomStep::Wait(seconds) => {
                *now = now.after(Duration::from_secs(*seconds));
                self.room_states
                    .iter_mut()
                    .for_each(|room_state| room_state.tick_at(*now));
            }
        }
    }

    fn start_join(&mut self, room: &NamespacedRoom, index: u8, now: Timestamp) {
        let mut claims = claims(room, &format!("p{index}"), Some(CAP));
        claims
            .attributes
            .insert("svc.publish.max_kbps".into(), "100".into());
        if let Ok(sid) = self.room_state(room).start_join(claims, now) {
            self.pending.insert(sid.clone());
            self.sids.push((sid, room.clone()));
        }
    }

    /// Aborts a join, unless it is already complete.
    fn abort(&mut self, (sid, room): &(ParticipantSid, NamespacedRoom)) {
        if self.pending.remove(sid) {
            self.room_state(room)
                .abort_join(sid, Timestamp::from_millis(0));
            self.joined.remove(sid);
        }
    }

    fn unpublish(&mut self, (sid, room): &(ParticipantSid, NamespacedRoom), now: Timestamp) {
        let track = self
            .joined
            .get(sid)
            .and_then(|(_, tracks, _)| tracks.iter().next().cloned());
        if let Some(track) = track {
            self.room_state(room).unpublish(sid, &track, now).unwrap();
        }
    }

    fn identity(&mut self, (sid, room): &(ParticipantSid, NamespacedRoom)) -> Option<Identity> {
        self.room_state(room)
            .roster
            .get(sid)
            .map(|participant| participant.identity().clone())
    }

    fn mute(&mut self, picked: &(ParticipantSid, NamespacedRoom), muted: bool, now: Timestamp) {
        let (sid, room) = picked;
        let track = self
            .joined
            .get(sid)
            .and_then(|(_, tracks, _)| tracks.iter().next().cloned());
        if let Some((track, identity)) = track.zip(self.identity(picked)) {
            let track = self
                .room_state(room)
                .mute_by_server(&identity, &track, muted, now)
                .unwrap();
            assert_eq!(track.muted, muted);
        }
    }

    /// Checks the reports since the last step against the earlier ones.
    fn check(&mut self) -> Result<(), TestCaseError> {
        for Report { room, event, .. } in self
            .room_states
            .iter_mut()
            .flat_map(RoomState::take_reports)
        {
            match event {
                MediaEvent::ParticipantJoined(participant) => {
                    let before = self.joined.insert(
                        participant.sid.clone(),
                        (room.clone(), HashSet::new(), false),
                    );
                    prop_assert!(before.is_none(), "a sid joins once");
                }
                MediaEvent::ParticipantLeft { participant, .. } => {
                    let left = self.joined.remove(&participant.sid);
                    prop_assert!(
                        left.is_some_and(|(_, tracks, _)| tracks.is_empty()),
                        "a participant that leaves had joined, and its tracks have ended"
                    );
                }
                MediaEvent::TrackPublished { participant, track } => {
                    prop_assert!(
                        self.joined
                            .get_mut(&participant.sid)
                            .unwrap()
                            .1
                            .insert(track.sid)
                    );
                }
                MediaEvent::TrackUnpublished { participant, track } => {
                    prop_assert!(
                        self.joined
                            .get_mut(&participant.sid)
                            .unwrap()
                            .1
                            .remove(&track.sid)
                    );
                }
                MediaEvent::TrackMuted { participant, track } => {
                    prop_assert!(
                        self.joined
                            .get(&participant.sid)
                            .unwrap()
                            .1
                            .contains(&track.sid)
                    );
                }
                MediaEvent::PublishLimit { participant, limit } => {
                    let exceeded = &mut self.joined.get_mut(&participant.sid).unwrap().2;
                    prop_assert_ne!(*exceeded, limit.exceeded, "exceeded and cleared alternate");
                    *exceeded = limit.exceeded;
                }
                MediaEvent::JoinRequested { .. }
                | MediaEvent::InvalidIdentity
                | MediaEvent::JoinAborted { .. } => {
                    prop_assert!(false, "the room state admits each join or reports nothing");
                }
                // Egresses and endpoints have their own property test.
                MediaEvent::Egress(_) | MediaEvent::Ingress(_) => continue,
            }
            let count = self.joined.values().filter(|(of, ..)| *of == room).count();
            prop_assert!(count <= CAP as usize);
        }
        self.check_state()
    }

    /// Checks that the room state has the participants that its reports describe, and lists those whose join is
    /// complete.
    fn check_state(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(
            self.room_states
                .iter()
                .map(|room_state| room_state.roster.iter().count())
                .sum::<usize>(),
            self.joined.len()
        );
        let listed: Vec<_> = self
            .room_states
            .iter()
            .flat_map(RoomState::participants)
            .collect();
        for participant in &listed {
            let tracks: HashSet<_> = participant
                .tracks
                .iter()
                .map(|track| track.sid.clone())
                .collect();
            prop_assert_eq!(
                self.joined.get(&participant.sid).map(|(_, open, _)| open),
                Some(&tracks)
            );
        }
        for participant in self
            .room_states
            .iter()
            .flat_map(|room_state| room_state.roster.iter())
        {
            let tracks = &participant.participant().tracks;
            prop_assert!(
                tracks.iter().all(|track| check_track(
                    &participant.grants,
                    track.kind,
                    track.source
                )
                .is_ok())
            );
        }
        let hidden = self
            .joined
            .keys()
            .filter(|sid| self.pending.contains(*sid))
            .count();
        prop_assert_eq!(listed.len() + hidden, self.joined.len());
        let occupied = self
            .joined
            .values()
            .map(|(room, ..)| room)
            .collect::<HashSet<_>>();
        prop_assert_eq!(
            self.room_states
                .iter()
                .filter(|room_state| !room_state.is_unused())
                .map(RoomState::name)
                .collect::<HashSet<_>>(),
            occupied,
            "rooms without participants are dropped"
        );
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_reports_of_any_calls_are_consistent(steps in prop::collection::vec(step(), 0..120)) {
        let mut model = Model::new();
        let mut now = Timestamp::from_millis(1_700_000_000_000);
        for step in &steps {
            model.apply(step, &mut now);
            model.check()?;
        }
    }
}
