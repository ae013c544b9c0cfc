//! The room actor's side of a join: a decision before the participant connects, and the record afterwards.
//!
//! ```text
//! client          media plane                          room actor                           store
//!   │ connect         │                                    │                                  │
//!   ├────────────────>│ JoinRequested                      │                                  │
//!   │                 ├───────────────────────────────────>│ roles, last role change          │
//!   │                 │                                    ├─────────────────────────────────>│
//!   │                 │    subscription rules, last role   │ the role exists, and has a seat  │
//!   │                 │<───────────────────────────────────┤                                  │
//!   │                 │ accepted                           │ reserves the seat for a minute   │
//!   │<───────────────>│<───────────────────────────────────┤                                  │
//!   │ transports      │                                    │                                  │
//!   │                 │ ParticipantJoined                  │ roles, last role change, a seat  │
//!   │                 ├───────────────────────────────────>├─────────────────────────────────>│
//!   │                 │    subscription rules, last role   │                                  │
//!   │                 │<───────────────────────────────────┤ session and events               │
//!   │                 │ accepted                           ├─────────────────────────────────>│
//!   │ visible         │<───────────────────────────────────┤ frees the reserved seat          │
//!   │<────────────────┤                                    │                                  │
//! ```
//!
//! # Parts
//!
//! - [`LiveRoom::request_join`]: the first phase. Writes nothing.
//! - [`LiveRoom::record_join`]: the second phase. Writes the session and its events before it returns.
//! - [`JoinTerms`]: the template's roles, the role from the identity's last role change, and bans. They are read again in each phase.
//! - [`Reservations`]: seats for connecting clients, in memory, for a minute. They keep two clients from connecting for a role's last seat.
//! - [`JoinSource`]: a report, or reconciliation.
//!
//! LiveKit's participants, and participants found by reconciliation, have only the second phase. A request that reserves no seat only
//! checks whether a client could join now.
//!
//! # The role
//!
//! The token's role applies, unless the identity has been given another one in this room since. A token created after a role change names
//! the change, so no clock decides which is newer. A removal alone does not affect a token. With a room code that is not locked to an identity,
//! the client chooses the identity; a token from such a code therefore never gives more than its own role, and a change applies to it only
//! if the new role is less. A role that the template no longer has is refused: otherwise, the token's role would be restored.
//!
//! # Bans
//!
//! A banned identity is refused in both phases, and by reconciliation, so that a ban that is written between them applies. The same holds for
//! a token that was minted before its identity's tokens were revoked; it does not name the revocation. An encoder has no token, so that
//! only a ban keeps it out.
//!
//! # Failures
//!
//! - The store cannot be written: the first phase pings it and refuses, because the participant could not be recorded once connected.
//! - The media plane does not accept the rules or the role: the join is refused as unavailable.
//! - The actor was rebuilt between the phases: its seats are gone, so the second phase decides again, and may refuse a connected client.
//!   Then `participant.connection_aborted` is the only event.
//! - The client never connects: the media plane reports `JoinAborted`, which releases the seat. If that is lost, the seat expires.
//!
//! # Why not simpler
//!
//! A single phase before connecting would record sessions that never had a participant. A single phase after connecting would refuse a
//! client too late, after it had received media. Writing reservations to the database would make every attempt a write. The room's maximum
//! of participants is enforced by the media plane, which counts clients from their first request.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use conclave_db::{Exclusion, JoinRecords, RoomSnapshot, StoreError};
use conclave_media::{MediaError, ReportError, RoleGrant};
use conclave_model::event::ParticipantRef;
use conclave_model::participant::{Participant, ParticipantKind};
use conclave_model::role::Role;
use conclave_model::{Identity, ParticipantSid, RoleName, Timestamp};

use super::commands::subscription_rules;
use super::roster::Roster;
use super::{LiveRoom, RoomMsg};
use crate::mailbox::Timer;

/// Maximum time for which a seat is reserved.
const LIFETIME: Duration = Duration::from_secs(60);

/// Origin of a join.
#[derive(Debug, Clone, Copy)]
pub(super) enum JoinSource {
    /// Reported by the media plane for this time.
    Reported { at: Timestamp },
    /// Found by reconciliation. A session of this join that was closed at `left_before` or earlier is reopened.
    Listed { left_before: Timestamp },
}

/// Join terms: the template's roles, and the participant's role according to the last change.
struct JoinTerms {
    roles: BTreeMap<RoleName, Role>,
    /// Absent if the participant's own role applies.
    grant: Option<RoleGrant>,
    exclusion: Exclusion,
}

impl LiveRoom {
    /// Decides whether a participant may join, and reserves a seat if requested. Writes nothing.
    pub(super) async fn request_join(
        &mut self,
        mut participant: Participant,
        reserves_seat: bool,
    ) -> Result<(), ReportError> {
        let terms = self.join_terms(&mut participant).await?;
        refuse_excluded(&participant, terms.exclusion)?;
        // A role that was removed from the template since the token was minted.
        let role = participant.role();
        if role.is_some_and(|role| !terms.roles.contains_key(&role)) {
            return Err(ReportError::RoleRemoved);
        }
        if self.role_is_full(&participant, &terms) {
            // Connected participants and reserved seats both count.
            return Err(ReportError::RoleFull);
        }
        // Otherwise a participant that connects could not be recorded.
        self.context
            .store
            .server()
            .ping()
            .await
            .map_err(|error| self.report_error(&error))?;
        // Without a seat nothing follows: the request was only a check.
        if reserves_seat {
            self.prepare_plane(&participant, terms).await?;
            let role = participant.role();
            self.reservations.reserve(
                participant.sid,
                participant.identity,
                role,
                self.context.clock.monotonic(),
            );
            self.arm_reservation_timer();
        }
        Ok(())
    }

    /// Writes a join, unless the participant is banned or its role is full. It is durable when this returns `Ok`.
    pub(super) async fn record_join(
        &mut self,
        mut participant: Participant,
        join: JoinSource,
    ) -> Result<(), ReportError> {
        let terms = self.join_terms(&mut participant).await?;
        let mut verdict = refuse_excluded(&participant, terms.exclusion);
        if verdict.is_ok() && self.role_is_full(&participant, &terms) {
            verdict = Err(ReportError::RoleFull);
        }
        if let Err(refusal) = verdict {
            self.reservations.release(&participant.sid);
            return self.refuse_join(&participant, join, refusal).await;
        }
        // Before the write: once the join is admitted, media may flow.
        self.prepare_plane(&participant, terms).await?;
        let sid = participant.sid.clone();
        let joined = self.write_join(participant, join).await;
        let joined = joined.map_err(|error| self.report_error(&error))?;
        // From now on the session counts.
        self.reservations.release(&sid);
        self.roster
            .joined(sid, self.context.clock.monotonic(), joined);
        // The join has stopped the timer in the records.
        self.arm_empty_timer();
        self.auto_record();
        self.arm_duration_timers();
        Ok(())
    }

    /// Reads the join terms, and sets the participant's role according to the last change. Refused if the template no longer has that
    /// role: otherwise, the token's role would be restored.
    async fn join_terms(&self, participant: &mut Participant) -> Result<JoinTerms, ReportError> {
        let (store, room) = (&self.context.store, self.roster.room());
        let terms = store
            .rooms()
            .join_records(
                room.project_id.clone(),
                room.id,
                room.template_id.clone(),
                participant.identity.clone(),
            )
            .await;
        let JoinRecords {
            roles,
            role_change,
            exclusion,
        } = terms.map_err(|error| self.report_error(&error))?;
        // A token that names the last change is newer than it.
        let changed = role_change.and_then(|last| last.role_for(participant.known_role_change()));
        let grant = last_role(participant, changed, &roles)?;
        if let Some(grant) = &grant {
            // From here on, limits and the session use this role.
            participant.set_role(&grant.role, grant.max_kbps);
        }
        Ok(JoinTerms {
            roles,
            grant,
            exclusion,
        })
    }

    /// Returns whether a participant's role has its maximum of other holders. An unknown role is never full.
    fn role_is_full(&self, participant: &Participant, terms: &JoinTerms) -> bool {
        let Some(role) = participant.role().and_then(|name| terms.roles.get(&name)) else {
            return false;
        };
        let holders = || {
            holders(
                &self.roster,
                &self.reservations,
                &role.name,
                &participant.identity,
            )
        };
        match usize::try_from(role.max_peer_count.get()) {
            // Cannot happen on 64 bits. Full is the safe result.
            Err(_) => true,
            Ok(0) => false,
            Ok(cap) => holders() >= cap,
        }
    }

    /// Sends the media plane the settings that must be in force before a joining participant can receive anything: the subscription rules,
    /// and the role according to the last change.
    async fn prepare_plane(
        &self,
        participant: &Participant,
        terms: JoinTerms,
    ) -> Result<(), ReportError> {
        self.send_subscription_rules(&terms.roles).await.map_err(|error| {
            log::warn!(room = self.name.as_str(); "setting the subscription rules on the media plane failed: {error}");
            ReportError::Unavailable
        })?;
        let Some(grant) = terms.grant else {
            return Ok(());
        };
        match self
            .context
            .media
            .set_role_of_join(&self.name, participant, grant)
            .await
        {
            // If the participant has left, its leave is reported.
            Ok(_) => Ok(()),
            Err(error) => {
                log::warn!(
                    room = self.name.as_str(), identity = participant.identity.as_str();
                    "setting a joining participant's role on the media plane failed: {error}"
                );
                Err(ReportError::Unavailable)
            }
        }
    }

    /// Sends the subscription rules of the room's template to the media plane, if there are any.
    pub(super) async fn send_subscription_rules(
        &self,
        roles: &BTreeMap<RoleName, Role>,
    ) -> Result<(), MediaError> {
        let rules = subscription_rules(roles);
        if rules.is_empty() {
            return Ok(());
        }
        self.context
            .media
            .set_subscription_rules(&self.name, rules)
            .await
    }

    async fn write_join(
        &self,
        participant: Participant,
        join: JoinSource,
    ) -> Result<RoomSnapshot, StoreError> {
        let (sessions, room) = (self.context.store.sessions(), self.roster.room());
        // A session that was closed by mistake continues, rather than a second one being opened.
        if let JoinSource::Listed { left_before } = join {
            sessions
                .record_return(
                    room.project_id.clone(),
                    room.id,
                    participant.clone(),
                    left_before,
                )
                .await?;
        }
        let at = self.joined_at(&participant, join);
        sessions
            .record_join(room.project_id.clone(), room.id, participant, at)
            .await
    }

    fn joined_at(&self, participant: &Participant, join: JoinSource) -> Timestamp {
        // The time of the join itself. A participant that was found may have joined long ago.
        match join {
            JoinSource::Reported { at } => at,
            JoinSource::Listed { .. } => participant
                .joined_at
                .unwrap_or_else(|| self.context.clock.now()),
        }
    }

    /// Writes the only event of a refused join: the role filled up, or the identity was banned, after the participant's token was minted.
    async fn refuse_join(
        &self,
        participant: &Participant,
        join: JoinSource,
        refusal: ReportError,
    ) -> Result<(), ReportError> {
        log::warn!(
            room = self.name.as_str(), identity = participant.identity.as_str();
            "a join was refused: {refusal}"
        );
        let (room, at) = (self.roster.room(), self.joined_at(participant, join));
        let aborted = self
            .context
            .store
            .sessions()
            .record_join_aborted(
                room.project_id.clone(),
                room.id,
                ParticipantRef::from(participant),
                at,
            )
            .await;
        aborted.map_err(|error| self.report_error(&error))?;
        Err(refusal)
    }

    /// Releases expired seats, whose joins have neither completed nor been reported as aborted.
    pub(super) fn drop_expired_reservations(&mut self) {
        self.reservations
            .release_expired(self.context.clock.monotonic());
        self.reservation_timer = None;
        self.arm_reservation_timer();
    }

    /// Arms the timer for the first seat that expires. An armed timer is kept, since it fires early enough.
    pub(super) fn arm_reservation_timer(&mut self) {
        let clock = &self.context.clock;
        if self.reservation_timer.is_none()
            && let Some(expiry) = self.reservations.next_expiry()
        {
            // Seats expire by the monotonic clock, timers fire by the injected one.
            let at = clock.now().after(expiry.saturating_sub(clock.monotonic()));
            let expired = RoomMsg::ReservationExpired;
            self.reservation_timer = Some(Timer::arm(clock, "reservation", at, &self.me, expired));
        }
    }
}

/// Refuses a participant that is banned, or whose token was revoked.
pub(super) fn refuse_excluded(
    participant: &Participant,
    exclusion: Exclusion,
) -> Result<(), ReportError> {
    if exclusion.is_banned {
        return Err(ReportError::Banned);
    }
    // An encoder joins with a stream key instead of a token, so it names no revocation.
    let has_token = participant.kind != ParticipantKind::Ingress;
    if has_token && exclusion.revokes(participant.known_revocation()) {
        return Err(ReportError::TokenRevoked);
    }
    Ok(())
}

/// Returns the role that the last change gives a joining participant; `None` if its own role applies.
fn last_role(
    participant: &Participant,
    changed: Option<RoleName>,
    roles: &BTreeMap<RoleName, Role>,
) -> Result<Option<RoleGrant>, ReportError> {
    let own = participant.role();
    // A change to the token's own role changes nothing.
    let Some(changed) = changed.filter(|role| own.as_ref() != Some(role)) else {
        return Ok(None);
    };
    let changed = roles.get(&changed).ok_or(ReportError::RoleRemoved)?;
    // The identity was chosen by the client. It must not obtain a role that was given to someone else.
    if participant.exchange().is_some() {
        let own = own
            .as_ref()
            .and_then(|own| roles.get(own))
            .ok_or(ReportError::RoleRemoved)?;
        if !changed.is_less_than(own) {
            return Ok(None);
        }
    }
    Ok(Some(RoleGrant::from(changed)))
}

/// Counts the identities that hold a role or have a reserved seat for it. `except` does not count, since its join replaces the connected
/// one.
fn holders(
    roster: &Roster,
    reservations: &Reservations,
    role: &RoleName,
    except: &Identity,
) -> usize {
    // By identity: a participant that rejoins is connected and has a seat.
    let seated = roster
        .holders(role)
        .chain(reservations.holders(role))
        .filter(|identity| *identity != except);
    seated.collect::<HashSet<_>>().len()
}

/// Reserved seats of a room, by the sid of their join. An identity has at most one.
#[derive(Debug, Default)]
pub(super) struct Reservations(HashMap<ParticipantSid, Reservation>);

#[derive(Debug)]
struct Reservation {
    identity: Identity,
    role: Option<RoleName>,
    /// Monotonic time from which the seat is free.
    expires_at: Duration,
}

impl Reservations {
    /// Reserves a seat from the monotonic time `now`. Replaces the seat for an earlier join of the same identity.
    pub fn reserve(
        &mut self,
        sid: ParticipantSid,
        identity: Identity,
        role: Option<RoleName>,
        now: Duration,
    ) {
        // A newer join of an identity replaces its earlier join.
        self.0.retain(|_, seat| seat.identity != identity);
        self.0.insert(
            sid,
            Reservation {
                identity,
                role,
                // By the monotonic clock: a wrong wall clock must not keep seats reserved.
                expires_at: now + LIFETIME,
            },
        );
    }

    /// Releases a join's seat, if it has one.
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

    /// Returns the identities with a reserved seat for a role.
    pub fn holders(&self, role: &RoleName) -> impl Iterator<Item = &Identity> {
        self.0
            .values()
            .filter(move |seat| seat.role.as_ref() == Some(role))
            .map(|seat| &seat.identity)
    }

    /// Returns the identities with a reserved seat.
    pub fn identities(&self) -> BTreeSet<&Identity> {
        self.0.values().map(|seat| &seat.identity).collect()
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::RevocationId;
    use conclave_model::participant::{
        EXCHANGE_ATTRIBUTE, ParticipantState, REVOCATION_ATTRIBUTE, ROLE_ATTRIBUTE,
    };
    use conclave_model::role::RoleInput;

    use super::super::roster::tests::roster;
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

    #[test]
    fn the_holders_of_a_role_are_counted_without_the_one_who_is_replaced() {
        let roster = roster(&[
            ("alice", "host"),
            ("bob", "host"),
            ("carol", "guest"),
            ("dave", "host"),
        ]);
        let role = |name: &str| -> RoleName { name.parse().unwrap() };
        let mut seats = Reservations::default();
        let holders = |seats: &Reservations, name: &str, except: &str| {
            super::holders(&roster, seats, &role(name), &except.parse().unwrap())
        };
        assert_eq!(
            (
                holders(&seats, "host", "nobody"),
                holders(&seats, "host", "alice"),
                holders(&seats, "host", "carol")
            ),
            (3, 2, 3)
        );
        assert_eq!(
            (
                holders(&seats, "guest", "nobody"),
                holders(&seats, "guest", "carol"),
                holders(&seats, "speaker", "nobody")
            ),
            (1, 0, 0)
        );
        reserve(&mut seats, "alice", 2, "host", NOW);
        reserve(&mut seats, "erin", 1, "host", NOW);
        assert_eq!(
            (
                holders(&seats, "host", "nobody"),
                holders(&seats, "host", "alice"),
                holders(&seats, "host", "erin")
            ),
            (4, 3, 3),
            "an identity with a seat of its own counts once"
        );
    }

    fn roles() -> BTreeMap<RoleName, Role> {
        let role = |name: &str, input: &str| {
            let (name, input): (RoleName, RoleInput) =
                (name.parse().unwrap(), serde_json::from_str(input).unwrap());
            (name.clone(), input.with_defaults(name).unwrap())
        };
        BTreeMap::from([
            role("host", "{}"),
            role("viewer", r#"{"subscribe": {"max_kbps": 500}}"#),
        ])
    }

    fn participant(attributes: &[(&str, &str)]) -> Participant {
        let attributes = attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Participant {
            sid: "PA_alice".parse().unwrap(),
            identity: "alice".parse().unwrap(),
            name: String::new(),
            state: ParticipantState::Active,
            kind: ParticipantKind::Standard,
            metadata: String::new(),
            attributes: attributes.collect(),
            is_publisher: false,
            joined_at: None,
            tracks: Vec::new(),
        }
    }

    /// Returns the role that the change to `changed` gives a participant.
    fn decided(
        participant: &Participant,
        changed: Option<&str>,
    ) -> Result<Option<String>, ReportError> {
        let changed = changed.map(|role| role.parse().unwrap());
        last_role(participant, changed, &roles())
            .map(|grant| grant.map(|grant| grant.role.to_string()))
    }

    #[test]
    fn the_last_change_decides_the_role_unless_it_is_the_own_one_or_was_removed() {
        let viewer = participant(&[(ROLE_ATTRIBUTE, "viewer")]);
        assert_eq!(decided(&viewer, None), Ok(None));
        assert_eq!(decided(&viewer, Some("viewer")), Ok(None));
        assert_eq!(decided(&viewer, Some("host")), Ok(Some("host".into())));
        assert_eq!(
            decided(&viewer, Some("speaker")),
            Err(ReportError::RoleRemoved)
        );
    }

    #[test]
    fn a_revocation_refuses_tokens_that_do_not_name_it_and_a_ban_all_of_them_and_encoders() {
        let (first, last) = (RevocationId::new(), RevocationId::new());
        let revoked = Exclusion {
            is_banned: false,
            revocation: Some(last),
        };
        let banned = Exclusion {
            is_banned: true,
            ..revoked
        };
        let naming =
            |id: RevocationId| participant(&[(REVOCATION_ATTRIBUTE, id.to_string().as_str())]);
        let (none, encoder) = (
            participant(&[]),
            Participant {
                kind: ParticipantKind::Ingress,
                ..participant(&[])
            },
        );
        for (participant, refused) in [
            (&none, Err(ReportError::TokenRevoked)),
            (&naming(first), Err(ReportError::TokenRevoked)),
            (&naming(last), Ok(())),
            (&encoder, Ok(())),
        ] {
            assert_eq!(refuse_excluded(participant, Exclusion::default()), Ok(()));
            assert_eq!(refuse_excluded(participant, revoked), refused);
            assert_eq!(
                refuse_excluded(participant, banned),
                Err(ReportError::Banned)
            );
        }
    }

    #[test]
    fn a_token_from_a_room_code_that_anyone_may_have_brings_no_more_than_its_own_role() {
        let from_code =
            |role| participant(&[(ROLE_ATTRIBUTE, role), (EXCHANGE_ATTRIBUTE, "exchange")]);
        assert_eq!(decided(&from_code("viewer"), Some("host")), Ok(None));
        assert_eq!(
            decided(&from_code("host"), Some("viewer")),
            Ok(Some("viewer".into()))
        );
        assert_eq!(
            decided(&from_code("speaker"), Some("viewer")),
            Err(ReportError::RoleRemoved)
        );
    }
}
