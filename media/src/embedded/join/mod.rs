//! The media plane's side of a join: from the request of a client or an encoder until all others in the room see the participant.
//!
//! ```text
//!  client, encoder           media plane                      control plane (room actor)     media worker
//!       │                         │                                       │                       │
//!       │── token or stream key ─▶│ request: checks, reserves a seat      │                       │
//!       │                         │── JoinRequested ─────────────────────▶│ is the role full,     │
//!       │                         │                                       │ has the room ended?   │
//!       │                         │◀── subscription rules, accepted ──────│ reserves a seat, too  │
//!       │◀── answer, session ─────│ admit: a member; a minute to connect  │                       │
//!       │                         │                                       │                       │
//!       │═══ ICE, DTLS, SRTP ════════════════════════════════════════════════════════════════════▶│
//!       │                         │◀── Connected ─────────────────────────────────────────────────│
//!       │                         │ connect: the deadline is removed      │                       │
//!       │                         │── ParticipantJoined ─────────────────▶│ writes the session    │
//!       │                         │                                       │ and its events        │
//!       │                         │◀── accepted ──────────────────────────│                       │
//!       │◀── others, tracks ──────│ complete: active, visible to all      │                       │
//! ```
//!
//! # Parts
//!
//! - [`phases::request`] and [`phases::conclude`]: the two phases, as tasks that wait for the control plane without holding the room's
//!   lock.
//! - [`Joins`]: the changes that each phase makes to the room, under its lock. The machine adds the consequences for others, such as
//!   the end of a participant that is replaced.
//! - [`CONNECT_TIMEOUT`]: the deadline for the client's media, kept by the machine.
//!
//! # Why there are two phases
//!
//! Two things are decided at two times. A client has to learn by an HTTP status that it may not join, so the control plane is asked
//! before the WebSocket is opened; nothing is written yet. Only when its media has connected does a session start, which is billed and
//! reported by webhooks, and which may be refused again, because the room may have ended. So a client that never connects leaves no
//! record, and no event mentions a participant that nobody could hear.
//!
//! Until the second phase is over, the machine counts the participant and does not show it. A sandbox participant has no media that
//! would have to connect: its join is reported at once ([`Joins::begin`]), and the control plane decides only then.
//!
//! # Failures
//!
//! - The control plane refuses the request or is unavailable: [`super::room_state::RoomState::cancel_request`] releases the seat, without a
//!   report.
//! - Another participant gets the identity during the request: `admit` reports `JoinAborted`.
//! - Media does not connect within [`CONNECT_TIMEOUT`], or within half of it once signalling is lost: the machine's deadline reports
//!   `JoinAborted`.
//! - The control plane refuses the report: [`super::room_state::RoomState::abort_join`] removes the participant without another report.
//! - The caller disconnects: both phases run in tasks of their own, so that no seat is reserved without an owner.

pub(super) mod phases;

use std::time::Duration;

use conclave_model::event::TrackSummary;
use conclave_model::{ParticipantSid, Timestamp};

use super::client::Client;
use super::common::Common;
use super::effect::DisconnectCause;
use super::error::RoomStateError;
use super::local_participant::LocalParticipant;
use super::room_state::deadlines::{Deadline, Deadlines};
use super::room_state::outbox::Outbox;
use super::room_state::roster::Roster;
use crate::port::MediaEvent;
use crate::token::Claims;

/// How long a client may take to connect its media.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take once its signalling is gone.
const UNATTENDED_TIMEOUT: Duration = Duration::from_secs(30);

/// What a join does to a room.
pub(super) struct Joins<'a> {
    roster: &'a mut Roster,
    deadlines: &'a mut Deadlines,
    outbox: &'a mut Outbox,
    common: &'a Common,
}

/// A join that is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completed {
    /// Whether the participant has a client of its own.
    pub has_client: bool,
}

impl<'a> Joins<'a> {
    /// Borrows what it works on.
    pub const fn new(
        roster: &'a mut Roster,
        deadlines: &'a mut Deadlines,
        outbox: &'a mut Outbox,
        common: &'a Common,
    ) -> Self {
        Self {
            roster,
            deadlines,
            outbox,
            common,
        }
    }

    /// Asks the control plane whether a client may join. Its seat in the room is held until [`Joins::admit`] or [`Joins::cancel`].
    pub fn request(
        &mut self,
        claims: Claims,
        mut client: Client,
        now: Timestamp,
    ) -> Result<ParticipantSid, RoomStateError> {
        self.check(&claims)?;
        let (identity, most) = (claims.identity.clone(), claims.max_participants());
        let seats = self.roster.seats_mut();
        seats.check_capacity(&identity, most)?;
        let sid = self.roster.unused_sid();
        self.roster.seats_mut().request(sid.clone(), identity);
        let own_metadata = std::mem::take(&mut client.own_metadata);
        let mut joining = LocalParticipant::new(sid.clone(), claims, now).with_client(client);
        // It has been checked against these claims.
        let _ = joining.set_own_metadata(own_metadata);
        self.ask(&joining, true, now);
        self.add(joining);
        Ok(sid)
    }

    /// Asks the control plane whether a client could join now, without joining.
    pub fn probe(&mut self, claims: Claims, now: Timestamp) -> Result<(), RoomStateError> {
        self.check(&claims)?;
        if self.roster.seats().is_full_for(&claims.identity) {
            return Err(RoomStateError::RoomFull);
        }
        let probed = LocalParticipant::new(self.roster.unused_sid(), claims, now);
        self.ask(&probed, false, now);
        Ok(())
    }

    fn ask(&mut self, joining: &LocalParticipant, reserves_seat: bool, now: Timestamp) {
        self.outbox.report(
            now,
            MediaEvent::JoinRequested {
                participant: Box::new(joining.as_active()),
                reserves_seat,
            },
        );
    }

    /// Admits a client that the control plane has let in. Returns the member with its identity, which it replaces. Fails if it has been
    /// disconnected in the meantime, or if another one has got the identity that a room code gave it.
    pub fn admit(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<Option<ParticipantSid>, RoomStateError> {
        self.common.check_running()?;
        let joining = self
            .roster
            .get(sid)
            .ok_or(RoomStateError::NoSuchParticipant)?;
        let identity = joining.identity().clone();
        self.roster
            .check_identity(&identity, joining.participant().exchange())?;
        if let Some(joining) = self.roster.get_mut(sid) {
            joining.admit();
        }
        let seats = self.roster.seats_mut();
        seats.end_request(sid);
        let replaced = seats.get(&identity).cloned();
        seats.insert(identity, sid.clone(), now);
        Ok(replaced)
    }

    /// Gives a client that was admitted a minute to connect its media.
    pub fn await_media(&mut self, sid: &ParticipantSid) {
        let until = self.deadlines.reading() + CONNECT_TIMEOUT;
        self.deadlines.set(Deadline::Join(sid.clone()), Some(until));
    }

    /// The signalling of a client that is still connecting is gone: it has less time.
    pub fn hurry(&mut self, sid: &ParticipantSid) {
        let earlier = self.deadlines.reading() + UNATTENDED_TIMEOUT;
        let join = Deadline::Join(sid.clone());
        if self.deadlines.get(&join).is_some_and(|at| at > earlier) {
            self.deadlines.set(join, Some(earlier));
        }
    }

    /// A client's media is connected: its join is reported. Returns whether this is news.
    pub fn connect(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        let Ok(joined) = self.roster.present_mut(sid) else {
            return false;
        };
        if joined.is_reported() {
            return false;
        }
        let participant = Box::new(joined.report());
        self.deadlines.remove(&Deadline::Join(sid.clone()));
        self.outbox
            .report(now, MediaEvent::ParticipantJoined(participant));
        true
    }

    /// Begins a join whose report is at the same time its request. Returns the participant, to be reported by
    /// [`Joins::report_begun`], and the member with its identity, which it replaces.
    pub fn begin(
        &mut self,
        claims: Claims,
        now: Timestamp,
    ) -> Result<(LocalParticipant, Option<ParticipantSid>), RoomStateError> {
        self.check(&claims)?;
        let (identity, most) = (claims.identity.clone(), claims.max_participants());
        let replaced = self.roster.seats_mut().check_capacity(&identity, most)?;
        let sid = self.roster.unused_sid();
        self.roster.seats_mut().insert(identity, sid.clone(), now);
        Ok((LocalParticipant::new(sid, claims, now), replaced))
    }

    /// Reports a join that was begun, once the participant that it replaces has left.
    pub fn report_begun(&mut self, mut joining: LocalParticipant, now: Timestamp) {
        let participant = Box::new(joining.report());
        self.outbox
            .report(now, MediaEvent::ParticipantJoined(participant));
        self.add(joining);
    }

    /// Makes a join visible, with the tracks that are published already. `None` if the participant has been disconnected in the
    /// meantime, or is active.
    pub fn complete(&mut self, sid: &ParticipantSid, now: Timestamp) -> Option<Completed> {
        let joined = self.roster.get_mut(sid).filter(|p| !p.is_active())?;
        joined.activate();
        let participant = joined.to_ref();
        for track in &joined.participant().tracks {
            self.outbox.report(
                now,
                MediaEvent::TrackPublished {
                    participant: participant.clone(),
                    track: TrackSummary::from(track),
                },
            );
        }
        let has_client = joined.client.is_some();
        Some(Completed { has_client })
    }

    /// Undoes a join that the control plane refused, without a report of the participant.
    pub fn abort(&mut self, sid: &ParticipantSid) {
        self.common.forget(sid);
        if let Some(refused) = self.roster.take(sid) {
            self.outbox
                .disconnect(&refused, DisconnectCause::JoinRefused);
            self.deadlines.remove(&Deadline::Join(sid.clone()));
            self.roster.release_seat(&refused);
        }
    }

    /// Drops a join that the control plane has refused, or could not be asked about.
    pub fn cancel(&mut self, sid: &ParticipantSid) {
        self.common.forget(sid);
        if let Some(refused) = self.roster.take(sid) {
            self.roster.release_seat(&refused);
        }
    }

    /// Checks that the token of a join takes its identity from nobody, and that the server does not stop.
    fn check(&self, claims: &Claims) -> Result<(), RoomStateError> {
        self.roster
            .check_identity(&claims.identity, claims.exchange())?;
        self.common.check_running()
    }

    /// Adds a participant that is joining.
    fn add(&mut self, mut joining: LocalParticipant) {
        let room = self.outbox.room();
        self.common.record_joining(joining.sid(), room);
        joining.set_relay_access(self.common.relay_access(joining.sid(), room));
        self.roster.add(joining);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::room_state::tests::{NOW, claims, room};
    use crate::port::Report;

    /// What a join works on, of an empty room.
    struct Fixture {
        roster: Roster,
        deadlines: Deadlines,
        outbox: Outbox,
        common: Common,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                roster: Roster::new(false),
                deadlines: Deadlines::default(),
                outbox: Outbox::new(room()),
                common: Common::new(100, false),
            }
        }

        fn joins(&mut self) -> Joins<'_> {
            Joins::new(
                &mut self.roster,
                &mut self.deadlines,
                &mut self.outbox,
                &self.common,
            )
        }

        fn request(&mut self, identity: &str) -> Result<ParticipantSid, RoomStateError> {
            let claims = claims(&room(), identity, Some(1));
            self.joins().request(claims, Client::default(), NOW)
        }

        fn reports(&mut self) -> Vec<&'static str> {
            let name = |report: Report| match report.event {
                MediaEvent::JoinRequested { .. } => "requested",
                MediaEvent::ParticipantJoined(_) => "joined",
                other => panic!("{other:?}"),
            };
            self.outbox.take_reports().into_iter().map(name).collect()
        }
    }

    #[test]
    fn both_phases_of_a_join_are_reported_and_its_media_has_a_minute_in_between() {
        let mut fixture = Fixture::new();
        let sid = fixture.request("alice").unwrap();
        assert_eq!(
            (fixture.reports(), fixture.deadlines.next()),
            (vec!["requested"], None)
        );
        assert!(!fixture.joins().connect(&sid, NOW), "it is not admitted");
        assert_eq!(fixture.joins().admit(&sid, NOW), Ok(None));
        fixture.joins().await_media(&sid);
        assert_eq!(fixture.deadlines.next(), Some(CONNECT_TIMEOUT));
        fixture.joins().hurry(&sid);
        assert_eq!(fixture.deadlines.next(), Some(UNATTENDED_TIMEOUT));
        assert!(fixture.joins().connect(&sid, NOW) && !fixture.joins().connect(&sid, NOW));
        assert_eq!(
            (fixture.reports(), fixture.deadlines.next()),
            (vec!["joined"], None)
        );
        assert!(fixture.roster.active(&sid).is_err());
        let completed = fixture.joins().complete(&sid, NOW);
        assert_eq!(completed, Some(Completed { has_client: true }));
        assert!(fixture.roster.active(&sid).is_ok());
        assert_eq!(fixture.joins().complete(&sid, NOW), None, "it is complete");
    }

    #[test]
    fn a_seat_is_held_during_a_join_and_given_back_if_it_is_refused_in_either_phase() {
        let mut fixture = Fixture::new();
        for has_connected in [false, true] {
            let sid = fixture.request("alice").unwrap();
            assert_eq!(fixture.request("bob"), Err(RoomStateError::RoomFull));
            let probed = fixture.joins().probe(claims(&room(), "bob", Some(1)), NOW);
            assert_eq!(probed, Err(RoomStateError::RoomFull));
            if has_connected {
                fixture.joins().admit(&sid, NOW).unwrap();
                fixture.joins().connect(&sid, NOW);
                fixture.joins().abort(&sid);
            } else {
                fixture.joins().cancel(&sid);
            }
            assert!(fixture.roster.is_unused() && fixture.deadlines.next().is_none());
        }
        let replaced = fixture.request("alice").unwrap();
        fixture.joins().admit(&replaced, NOW).unwrap();
        let sid = fixture.request("alice").unwrap();
        assert_eq!(fixture.joins().admit(&sid, NOW), Ok(Some(replaced)));
    }
}
