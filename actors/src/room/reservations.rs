//! Seats that are reserved for participants whose transports are not connected yet.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use conclave_model::{Identity, ParticipantSid, RoleName};

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
