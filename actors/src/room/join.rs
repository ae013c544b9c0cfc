//! Whether a participant may join: a question of the media plane that leaves no record, but keeps a seat.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use conclave_media::{ReportError, RoleGrant};
use conclave_model::participant::Participant;
use conclave_model::role::Role;
use conclave_model::{Identity, ParticipantSid, RoleName};

use super::roster::RoomState;
use super::{RoomActor, RoomMsg};
use crate::mailbox::{Mailbox, Timer};

impl RoomActor {
    /// Decides whether a participant may join, and keeps a seat for it if asked to. The room's maximum of participants is
    /// enforced by the media plane.
    pub(super) async fn request_join(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        mut participant: Participant,
        reserves_seat: bool,
    ) -> Result<(), ReportError> {
        let (store, room) = (&self.context.store, &state.room);
        let roles = store
            .rooms()
            .roles(room.project_id.clone(), room.template_id.clone())
            .await;
        let roles = roles.map_err(|error| self.report_error(&error))?;
        let changed = self.take_last_role(state, &mut participant, &roles).await?;
        check_role(state, &participant, &roles)?;
        // A participant that connects could not be recorded otherwise.
        store
            .server()
            .ping()
            .await
            .map_err(|error| self.report_error(&error))?;
        if reserves_seat {
            self.set_rules_of_join(state, &roles).await?;
            self.set_role_of_join(state, &participant, changed).await?;
            let (sid, identity) = (participant.sid.clone(), participant.identity.clone());
            state.reservations.reserve(
                sid,
                identity,
                participant.role(),
                self.context.clock.monotonic(),
            );
            self.arm_reservation_timer(me, state);
        }
        Ok(())
    }

    /// Releases the seats whose time is over. Their joins have neither completed nor been reported as aborted.
    pub(super) fn drop_expired_reservations(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        state
            .reservations
            .release_expired(self.context.clock.monotonic());
        state.reservation_timer = None;
        self.arm_reservation_timer(me, state);
    }

    /// Arms the timer for the first seat that expires. An armed timer is kept: it fires early enough.
    pub(super) fn arm_reservation_timer(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        let clock = &self.context.clock;
        if state.reservation_timer.is_none()
            && let Some(expiry) = state.reservations.next_expiry()
        {
            let at = clock.now().after(expiry.saturating_sub(clock.monotonic()));
            state.reservation_timer = Some(Timer::arm(
                clock,
                "reservation",
                at,
                me,
                RoomMsg::ReservationExpired,
            ));
        }
    }
}

/// Checks whether the role with which a participant joins exists and has a free seat.
fn check_role(
    state: &RoomState,
    participant: &Participant,
    roles: &BTreeMap<RoleName, Role>,
) -> Result<(), ReportError> {
    if participant
        .role()
        .is_some_and(|role| !roles.contains_key(&role))
    {
        Err(ReportError::RoleRemoved)
    } else if role_is_full(state, participant, roles) {
        Err(ReportError::RoleFull)
    } else {
        Ok(())
    }
}

/// Returns whether the role of a participant has its maximum of other holders. A role that does not exist has none.
pub(super) fn role_is_full(
    state: &RoomState,
    participant: &Participant,
    roles: &BTreeMap<RoleName, Role>,
) -> bool {
    let Some(role) = participant.role().and_then(|name| roles.get(&name)) else {
        return false;
    };
    match usize::try_from(role.max_peer_count.get()) {
        Err(_) => true,
        Ok(0) => false,
        Ok(cap) => state.holders(&role.name, &participant.identity) >= cap,
    }
}

impl RoomActor {
    /// Returns the role that the last change gives a participant that joins; `None` if its own holds. The participant is as if it
    /// had the role. Refused if the template has no such role any more: the token's must not come back by that.
    pub(super) async fn take_last_role(
        &self,
        state: &RoomState,
        participant: &mut Participant,
        roles: &BTreeMap<RoleName, Role>,
    ) -> Result<Option<RoleGrant>, ReportError> {
        let (project, room, identity) = (
            state.room.project_id.clone(),
            state.room.id,
            participant.identity.clone(),
        );
        let last = self
            .context
            .store
            .role_changes()
            .last(project, room, identity)
            .await;
        let last = last.map_err(|error| self.report_error(&error))?;
        let changed = last.and_then(|last| last.role_for(participant.known_role_change()));
        let own = participant.role();
        let Some(changed) = changed.filter(|role| own.as_ref() != Some(role)) else {
            return Ok(None);
        };
        let changed = roles.get(&changed).ok_or(ReportError::RoleRemoved)?;
        if participant.exchange().is_some() {
            let own = own
                .as_ref()
                .and_then(|own| roles.get(own))
                .ok_or(ReportError::RoleRemoved)?;
            if !changed.is_less_than(own) {
                return Ok(None);
            }
        }
        let grant = RoleGrant::from(changed);
        participant.set_role(&grant.role, grant.max_kbps);
        Ok(Some(grant))
    }

    /// Lets the media plane give a participant that joins the role that the last change gave it.
    pub(super) async fn set_role_of_join(
        &self,
        state: &RoomState,
        participant: &Participant,
        grant: Option<RoleGrant>,
    ) -> Result<(), ReportError> {
        let Some(grant) = grant else { return Ok(()) };
        let room = state.room.namespaced_name();
        match self
            .context
            .media
            .set_role_of_join(&room, participant, grant)
            .await
        {
            // Who is gone is reported as gone.
            Ok(_) => Ok(()),
            Err(error) => {
                log::warn!(
                    room = room.as_str(), identity = participant.identity.as_str();
                    "the media plane did not take the role of a participant that joins: {error}"
                );
                Err(ReportError::Unavailable)
            }
        }
    }
}

/// How long a seat is reserved at most.
const LIFETIME: Duration = Duration::from_secs(60);

/// The reserved seats of a room, each by the sid of the join that it is for. An identity has one at most.
#[derive(Debug, Default)]
pub(super) struct Reservations(HashMap<ParticipantSid, Reservation>);

#[derive(Debug)]
struct Reservation {
    identity: Identity,
    role: Option<RoleName>,
    /// The monotonic time from which the seat is free again.
    expires_at: Duration,
}

impl Reservations {
    /// Reserves a seat from the monotonic time `now` on, in place of the one for an earlier join of the same identity.
    pub fn reserve(
        &mut self,
        sid: ParticipantSid,
        identity: Identity,
        role: Option<RoleName>,
        now: Duration,
    ) {
        self.0.retain(|_, seat| seat.identity != identity);
        self.0.insert(
            sid,
            Reservation {
                identity,
                role,
                expires_at: now + LIFETIME,
            },
        );
    }

    /// Releases the seat of a join, if it has one.
    pub fn release(&mut self, sid: &ParticipantSid) {
        self.0.remove(sid);
    }

    /// Releases the seats that expire at the monotonic time `now` or earlier.
    pub fn release_expired(&mut self, now: Duration) {
        self.0.retain(|_, seat| seat.expires_at > now);
    }

    /// Returns the monotonic time at which the next seat expires.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.0.values().map(|seat| seat.expires_at).min()
    }

    /// Returns whether no seat is reserved.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the identities for which a seat of a role is reserved.
    pub fn holders(&self, role: &RoleName) -> impl Iterator<Item = &Identity> {
        self.0
            .values()
            .filter(move |seat| seat.role.as_ref() == Some(role))
            .map(|seat| &seat.identity)
    }

    /// Returns the identities for which a seat is reserved.
    pub fn identities(&self) -> BTreeSet<&Identity> {
        self.0.values().map(|seat| &seat.identity).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn reserve(
        seats: &mut Reservations,
        identity: &str,
        join: u8,
        role: &str,
        now: Duration,
    ) -> ParticipantSid {
        let sid: ParticipantSid = format!("PA_{identity}{join}").parse().unwrap();
        seats.reserve(
            sid.clone(),
            identity.parse().unwrap(),
            Some(role.parse().unwrap()),
            now,
        );
        sid
    }

    fn holders(seats: &Reservations, role: &str) -> Vec<String> {
        let mut holders: Vec<_> = seats
            .holders(&role.parse().unwrap())
            .map(ToString::to_string)
            .collect();
        holders.sort_unstable();
        holders
    }

    #[test]
    fn a_seat_expires_after_a_minute() {
        let mut seats = Reservations::default();
        reserve(&mut seats, "alice", 1, "host", NOW);
        reserve(&mut seats, "bob", 1, "host", NOW + Duration::from_secs(1));
        assert_eq!(seats.next_expiry(), Some(NOW + LIFETIME));
        seats.release_expired(NOW + LIFETIME.saturating_sub(Duration::from_millis(1)));
        assert_eq!(holders(&seats, "host"), ["alice", "bob"]);
        seats.release_expired(NOW + LIFETIME);
        assert_eq!(holders(&seats, "host"), ["bob"]);
    }

    #[test]
    fn an_identity_has_one_seat_and_the_end_of_its_earlier_join_does_not_release_it() {
        let mut seats = Reservations::default();
        let first = reserve(&mut seats, "alice", 1, "host", NOW);
        let second = reserve(&mut seats, "alice", 2, "guest", NOW);
        assert_eq!(
            (holders(&seats, "host"), holders(&seats, "guest")),
            (vec![], vec!["alice".to_owned()])
        );
        seats.release(&first);
        assert!(!seats.is_empty());
        seats.release(&second);
        assert!(seats.is_empty() && seats.next_expiry().is_none());
    }
}
