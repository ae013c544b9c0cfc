//! The media plane's side of a join: from a client's or encoder's request until all others in the room see the participant.
//!
//! ```text
//!  client, encoder           media plane                      control plane (room actor)     media worker
//!       │                         │                                       │                       │
//!       │── token or stream key ─▶│ request: checks, reserves a seat      │                       │
//!       │                         │── JoinRequested ─────────────────────▶│ is the role full,     │
//!       │                         │                                       │ has the room ended?   │
//!       │                         │◀── subscription rules, accepted ──────│ reserves a seat, too  │
//!       │◀── response ────────────│ admit: a member; a minute to connect  │                       │
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
//! - [`phases::request`] and [`phases::conclude`]: the two phases, as tasks that await the control plane without the room's lock.
//! - [`Joins`]: each phase's changes to the room state, under the room's lock. Its caller, the room state, adds the consequences for
//!   others, such as the leave of a replaced participant.
//! - [`CONNECT_TIMEOUT`]: the deadline for the client's media, kept with the room's other deadlines.
//!
//! # Why there are two phases
//!
//! A client learns from an HTTP status whether it may join, so the control plane decides before the WebSocket is opened. Nothing is
//! written at that point. The session, which is billed and reported by webhooks, starts only when the client's media has connected.
//! The control plane may still reject that second report, since the room may have ended meanwhile. So a client that never connects
//! leaves no record, and no event mentions a participant that nobody could hear.
//!
//! Until the second phase is over, the participant occupies a seat and is invisible. A sandbox participant has no media to connect: its
//! join is reported at once ([`Joins::start`]), so that the control plane decides once.
//!
//! # Failures
//!
//! - *The control plane refuses the request or is unavailable.* [`super::room_state::RoomState::cancel_request`] releases the seat, without a
//!   report.
//! - *Another participant gets the identity during the request.* `admit` fails, and `JoinAborted` is reported.
//! - *Media does not connect* within [`CONNECT_TIMEOUT`], or within half of it once signalling is lost. The deadline passes, and
//!   `JoinAborted` is reported.
//! - *The control plane rejects the second report.* [`super::room_state::RoomState::abort_join`] removes the participant without another
//!   report.
//! - *The client disconnects while the control plane decides.* Both phases run in tasks of their own, so that every reserved seat is
//!   either filled or released.
//! - *The process dies.* Before the second report is written, nothing is left to clean up. Afterwards, reconciliation ends the session.

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

/// Time limit for a client's media to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Shorter limit once the client's signalling is lost.
const UNATTENDED_TIMEOUT: Duration = Duration::from_secs(30);

/// A room's state, as far as joins change it.
pub(super) struct Joins<'a> {
    roster: &'a mut Roster,
    deadlines: &'a mut Deadlines,
    outbox: &'a mut Outbox,
    common: &'a Common,
}

/// A completed join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompletedJoin {
    /// Whether the participant has a client. Sandbox participants and encoders have none.
    pub has_client: bool,
}

impl<'a> Joins<'a> {
    /// Borrows the parts of a room.
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

    /// Requests admission for a client, and reserves its seat until [`Joins::admit`] or [`Joins::cancel`].
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
        // Reserved before the control plane decides: otherwise two requests could both count the last free seat.
        let sid = self.roster.unused_sid();
        self.roster.seats_mut().request(sid.clone(), identity);
        let own_metadata = std::mem::take(&mut client.own_metadata);
        let mut joining = LocalParticipant::new(sid.clone(), claims, now).with_client(client);
        // Cannot fail: the metadata was checked against these claims before the request.
        let _ = joining.set_own_metadata(own_metadata);
        self.report_request(&joining, true, now);
        self.add(joining);
        Ok(sid)
    }

    /// Requests the control plane's verdict on a join now, without joining.
    pub fn probe(&mut self, claims: Claims, now: Timestamp) -> Result<(), RoomStateError> {
        self.check(&claims)?;
        if self.roster.seats().is_full_for(&claims.identity) {
            return Err(RoomStateError::RoomFull);
        }
        // The sid only completes the report.
        let probed = LocalParticipant::new(self.roster.unused_sid(), claims, now);
        self.report_request(&probed, false, now);
        Ok(())
    }

    fn report_request(&mut self, joining: &LocalParticipant, reserves_seat: bool, now: Timestamp) {
        self.outbox.report(
            now,
            MediaEvent::JoinRequested {
                participant: Box::new(joining.as_active()),
                reserves_seat,
            },
        );
    }

    /// Admits a client that the control plane has accepted. Returns the member with the same identity, if any, which
    /// the client replaces. Fails if the client was disconnected in the meantime, or if another participant has taken
    /// the identity from its room code.
    pub fn admit(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<Option<ParticipantSid>, RoomStateError> {
        // Checked again: the room was not locked while the control plane decided.
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
        // The replaced member keeps its seat until here, so a rejected join leaves it connected.
        let replaced = seats.get(&identity).cloned();
        seats.insert(identity, sid.clone(), now);
        Ok(replaced)
    }

    /// Sets the deadline for an admitted client's media.
    pub fn await_media(&mut self, sid: &ParticipantSid) {
        // On the monotonic clock: a changed system time must not end joins.
        let until = self.deadlines.reading() + CONNECT_TIMEOUT;
        self.deadlines.set(Deadline::Join(sid.clone()), Some(until));
    }

    /// Brings the deadline forward for a connecting client whose signalling is lost.
    pub fn shorten_deadline(&mut self, sid: &ParticipantSid) {
        let earlier = self.deadlines.reading() + UNATTENDED_TIMEOUT;
        let join = Deadline::Join(sid.clone());
        // Never later: a client must not gain time by reconnecting its signalling repeatedly.
        if self.deadlines.get(&join).is_some_and(|at| at > earlier) {
            self.deadlines.set(join, Some(earlier));
        }
    }

    /// Reports the join of a client whose media has connected. Returns whether it was not reported before.
    pub fn connect(&mut self, sid: &ParticipantSid, now: Timestamp) -> bool {
        // Media workers may report a connection for a participant that was just removed.
        let Ok(joined) = self.roster.present_mut(sid) else {
            return false;
        };
        if joined.is_reported() {
            return false;
        }
        // Marked as reported before the control plane decides: from now on, the end is a leave instead of an abort.
        let participant = Box::new(joined.report());
        self.deadlines.remove(&Deadline::Join(sid.clone()));
        self.outbox
            .report(now, MediaEvent::ParticipantJoined(participant));
        true
    }

    /// Adds a member whose join is reported and requested at the same time. Returns the participant, for
    /// [`Joins::report_started`], and the member with the same identity, which it replaces.
    pub fn start(
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

    /// Reports a join from [`Joins::start`]. Called after the replaced participant's leave was reported.
    pub fn report_started(&mut self, mut joining: LocalParticipant, now: Timestamp) {
        let participant = Box::new(joining.report());
        self.outbox
            .report(now, MediaEvent::ParticipantJoined(participant));
        self.add(joining);
    }

    /// Makes a participant visible, and reports the tracks that it has published already. `None` if the participant was
    /// disconnected in the meantime, or is active.
    pub fn complete(&mut self, sid: &ParticipantSid, now: Timestamp) -> Option<CompletedJoin> {
        let joined = self.roster.get_mut(sid).filter(|p| !p.is_active())?;
        joined.activate();
        let participant = joined.to_ref();
        // A client may publish as soon as its media is connected. Until now, its tracks were not reported.
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
        Some(CompletedJoin { has_client })
    }

    /// Reverts a join that the control plane rejected, without a report about the participant.
    pub fn abort(&mut self, sid: &ParticipantSid) {
        self.common.forget(sid);
        if let Some(refused) = self.roster.take(sid) {
            self.outbox
                .disconnect(&refused, DisconnectCause::JoinRefused);
            self.deadlines.remove(&Deadline::Join(sid.clone()));
            self.roster.release_seat(&refused);
        }
    }

    /// Drops a join request that the control plane refused or did not decide.
    pub fn cancel(&mut self, sid: &ParticipantSid) {
        // No deadline to remove: it is set at the admission.
        self.common.forget(sid);
        if let Some(refused) = self.roster.take(sid) {
            self.roster.release_seat(&refused);
        }
    }

    /// Checks that no other participant has the identity from a room code, and that the server is not stopping.
    fn check(&self, claims: &Claims) -> Result<(), RoomStateError> {
        self.roster
            .check_identity(&claims.identity, claims.exchange())?;
        self.common.check_running()
    }

    /// Adds a joining participant to the roster.
    fn add(&mut self, mut joining: LocalParticipant) {
        // Access starts here, since TURN credentials are part of the response to the join.
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

    /// The parts of an empty room.
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
        fixture.joins().shorten_deadline(&sid);
        assert_eq!(fixture.deadlines.next(), Some(UNATTENDED_TIMEOUT));
        assert!(fixture.joins().connect(&sid, NOW) && !fixture.joins().connect(&sid, NOW));
        assert_eq!(
            (fixture.reports(), fixture.deadlines.next()),
            (vec!["joined"], None)
        );
        assert!(fixture.roster.active(&sid).is_err());
        let completed = fixture.joins().complete(&sid, NOW);
        assert_eq!(completed, Some(CompletedJoin { has_client: true }));
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
