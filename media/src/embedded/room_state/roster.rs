//! A room's participants and their seats.
//!
//! A participant occupies a seat in [`Seats`] as soon as its join is requested, and its data is in the [`Roster`]
//! from then until it leaves.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use conclave_model::participant::ParticipantKind;
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{Identity, ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::PeerPermissions;

use crate::embedded::client::{Client, PublisherPermission};
use crate::embedded::error::RoomStateError;
use crate::embedded::ids::unused_id;
use crate::embedded::inbox::Notice;
use crate::embedded::local_participant::LocalParticipant;
use crate::rules::SubscriptionRules;

/// A room's joining and active participants.
#[derive(Debug)]
pub(in crate::embedded) struct Roster {
    seats: Seats,
    participants: HashMap<ParticipantSid, LocalParticipant>,
    /// Whether the sandbox shows received notices.
    keeps_inboxes: bool,
}

impl Roster {
    pub fn new(keeps_inboxes: bool) -> Self {
        Self {
            seats: Seats::default(),
            participants: HashMap::new(),
            keeps_inboxes,
        }
    }

    /// Returns whether the sandbox shows received notices.
    pub const fn keeps_inboxes(&self) -> bool {
        self.keeps_inboxes
    }

    /// Returns whether there are neither participants nor rules.
    pub fn is_unused(&self) -> bool {
        self.participants.is_empty() && self.seats.is_unused()
    }

    /// Returns the room's seats and subscription rules.
    pub const fn seats(&self) -> &Seats {
        &self.seats
    }

    pub const fn seats_mut(&mut self) -> &mut Seats {
        &mut self.seats
    }

    /// Returns a participant, which may still be joining.
    pub fn get(&self, sid: &ParticipantSid) -> Option<&LocalParticipant> {
        self.participants.get(sid)
    }

    /// Like [`Roster::get`], mutably.
    pub fn get_mut(&mut self, sid: &ParticipantSid) -> Option<&mut LocalParticipant> {
        self.participants.get_mut(sid)
    }

    /// Returns an active participant.
    pub fn active(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, RoomStateError> {
        self.get(sid)
            .filter(|participant| participant.is_active())
            .ok_or(RoomStateError::NoSuchParticipant)
    }

    /// Like [`Roster::active`], mutably.
    pub fn active_mut(
        &mut self,
        sid: &ParticipantSid,
    ) -> Result<&mut LocalParticipant, RoomStateError> {
        self.get_mut(sid)
            .filter(|participant| participant.is_active())
            .ok_or(RoomStateError::NoSuchParticipant)
    }

    /// Returns a joined or active participant.
    pub fn present(&self, sid: &ParticipantSid) -> Result<&LocalParticipant, RoomStateError> {
        self.get(sid)
            .filter(|participant| participant.is_present())
            .ok_or(RoomStateError::NoSuchParticipant)
    }

    /// Like [`Roster::present`], mutably.
    pub fn present_mut(
        &mut self,
        sid: &ParticipantSid,
    ) -> Result<&mut LocalParticipant, RoomStateError> {
        self.get_mut(sid)
            .filter(|participant| participant.is_present())
            .ok_or(RoomStateError::NoSuchParticipant)
    }

    /// Returns a participant's client. The participant may still be joining.
    pub fn client(&self, sid: &ParticipantSid) -> Option<&Client> {
        self.get(sid)?.client.as_deref()
    }

    /// Like [`Roster::client`], mutably.
    pub fn client_mut(&mut self, sid: &ParticipantSid) -> Option<&mut Client> {
        self.get_mut(sid)?.client.as_deref_mut()
    }

    /// Returns the active participant with this identity.
    pub fn active_by_identity(
        &self,
        identity: &Identity,
    ) -> Result<&LocalParticipant, RoomStateError> {
        let sid = self
            .seats
            .get(identity)
            .ok_or(RoomStateError::NoSuchParticipant)?;
        self.active(sid)
    }

    /// Returns the active participants, ordered by identity.
    pub fn active_members(&self) -> impl Iterator<Item = &LocalParticipant> {
        // Members that are joining have a seat, but are not active.
        self.seats.iter().filter_map(|sid| self.active(sid).ok())
    }

    /// Returns the participants whose clients are notified of events in the room.
    pub fn present_clients(&self) -> impl Iterator<Item = &ParticipantSid> {
        let is_notified = |local: &LocalParticipant| local.is_present() && local.client.is_some();
        self.seats
            .iter()
            .filter(move |sid| self.get(sid).is_some_and(is_notified))
    }

    /// Returns the members with clients.
    pub fn clients(&self) -> impl Iterator<Item = &LocalParticipant> {
        self.seats
            .iter()
            .filter_map(|sid| self.get(sid))
            .filter(|local| local.client.is_some())
    }

    /// Returns whether the control plane is writing the join of this participant, or of any if `identity` is `None`.
    pub fn is_join_reported(&self, identity: Option<&Identity>) -> bool {
        let is_reported = |local: &LocalParticipant| local.is_reported() && !local.is_active();
        let named =
            |local: &LocalParticipant| identity.is_none_or(|identity| local.identity() == identity);
        self.seats
            .iter()
            .filter_map(|sid| self.get(sid))
            .any(|local| named(local) && is_reported(local))
    }

    /// Checks that a token from a room code that is not locked to an identity does not take another participant's
    /// identity. A participant that joins again with its own token replaces itself.
    pub fn check_identity(
        &self,
        identity: &Identity,
        exchange: Option<&str>,
    ) -> Result<(), RoomStateError> {
        // Only tokens from such room codes name their exchange. Any other token was issued by the tenant for its
        // identity.
        let Some(exchange) = exchange else {
            return Ok(());
        };
        let connected = self.seats.get(identity).and_then(|sid| self.get(sid));
        let is_other =
            connected.is_some_and(|member| member.participant().exchange() != Some(exchange));
        if is_other {
            Err(RoomStateError::IdentityTaken)
        } else {
            Ok(())
        }
    }

    /// Returns a participant's permissions at the media worker.
    pub fn permissions(&self, sid: &ParticipantSid) -> Option<PeerPermissions> {
        let local = self.get(sid)?;
        Some(PeerPermissions {
            can_transcribe_others: local.participant().kind == ParticipantKind::Agent,
            can_publish_data: local.grants.can_publish_data,
            can_subscribe: local.grants.can_subscribe,
            is_hidden: local.grants.hidden,
            subscribe_max_kbps: self.seats.rules().max_kbps(local.role()),
        })
    }

    /// Returns whether a participant may receive another participant's track.
    pub fn may_receive(
        &self,
        receiver: &LocalParticipant,
        publisher: &LocalParticipant,
        track: &TrackSid,
    ) -> bool {
        // Sandbox participants and encoders have no client that could set a permission: everyone may receive them.
        let everyone = PublisherPermission::default();
        let permission = publisher
            .client
            .as_ref()
            .map_or(&everyone, |client| &client.permission);
        receiver.grants.can_subscribe
            && !publisher.grants.hidden
            && self
                .seats
                .rules()
                .receives(receiver.role(), publisher.role())
            && permission.allows(receiver.identity(), receiver.sid(), track)
    }

    /// Returns all participants, including joining ones.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &LocalParticipant> {
        self.participants.values()
    }

    /// Returns a sid for a new participant.
    pub fn unused_sid(&self) -> ParticipantSid {
        unused_id("PA_", |sid| self.participants.contains_key(sid))
    }

    /// Adds a joining participant, which already has a seat.
    pub fn add(&mut self, participant: LocalParticipant) {
        self.participants
            .insert(participant.sid().clone(), participant);
    }

    /// Removes a participant. Its seat is kept until [`Roster::release_seat`].
    pub fn take(&mut self, sid: &ParticipantSid) -> Option<LocalParticipant> {
        self.participants.remove(sid)
    }

    /// Releases a removed participant's seat. A join after the last leave opens the room again.
    pub fn release_seat(&mut self, left: &LocalParticipant) {
        // A participant has either a requested or a regular seat; removing the other is a no-op.
        self.seats.end_request(left.sid());
        self.seats.remove(left.identity(), left.sid());
        if self.seats.is_unused() {
            // A fresh value has a new room sid and no maximum, as for a room that is created.
            self.seats = Seats::default();
        }
    }

    /// Releases all seats, and drops the rules. Returns the members' sids in the order of their joins, then the sids of
    /// requested joins; the caller must take them out.
    pub fn release_seats(&mut self) -> impl Iterator<Item = ParticipantSid> + use<> {
        std::mem::take(&mut self.seats).into_sids()
    }

    /// Puts a notice into a participant's inbox, if the sandbox shows inboxes.
    pub fn put_into_inbox(&mut self, sid: &ParticipantSid, now: Timestamp, notice: Notice) {
        if self.keeps_inboxes
            && let Some(receiver) = self.participants.get_mut(sid)
        {
            receiver.receive(now, notice);
        }
    }

    /// Puts a notice into the inboxes of the active participants that `is_for` selects, if the sandbox shows inboxes.
    pub fn deliver(
        &mut self,
        notice: &Notice,
        now: Timestamp,
        is_for: impl Fn(&LocalParticipant) -> bool,
    ) {
        if !self.keeps_inboxes {
            return;
        }
        for sid in self.seats.iter() {
            if let Some(receiver) = self
                .participants
                .get_mut(sid)
                // A sandbox participant receives nothing before its join is complete, like a client.
                .filter(|p| p.is_active() && is_for(p))
            {
                receiver.receive(now, notice.clone());
            }
        }
    }
}

/// A room's seats: one for each member and each requested join. The first member opens the room; before, only its rules
/// exist.
#[derive(Debug)]
pub(in crate::embedded) struct Seats {
    /// The room's sid as clients see it. A room gets a new one when it is in memory again.
    sid: Box<str>,
    /// Time of the first join; `None` before.
    opened_at: Option<Timestamp>,
    seats: BTreeMap<Identity, Seat>,
    /// Number of joins so far.
    joins: u64,
    /// Joins that the control plane has not decided on.
    requested: HashMap<ParticipantSid, Identity>,
    max_participants: Option<u32>,
    rules: SubscriptionRules,
}

#[derive(Debug)]
struct Seat {
    sid: ParticipantSid,
    /// Position in the order of joins, since two joins can have equal times.
    number: u64,
}

impl Default for Seats {
    fn default() -> Self {
        Self {
            sid: ["RM_", &random_text(12, BASE62)].concat().into(),
            opened_at: None,
            seats: BTreeMap::new(),
            joins: 0,
            requested: HashMap::new(),
            max_participants: None,
            rules: SubscriptionRules::default(),
        }
    }
}

impl Seats {
    /// Checks whether a participant fits into the room, and returns the member with the same identity, which it
    /// replaces. The first token with a maximum sets the room's maximum. Encoders have no token.
    pub fn check_capacity(
        &mut self,
        identity: &Identity,
        max_participants: Option<u32>,
    ) -> Result<Option<ParticipantSid>, RoomStateError> {
        // A maximum that came with a token ends with the last participant: the next one sets its own.
        if self.seats.is_empty() && self.requested.is_empty() {
            self.max_participants = None;
        }
        // Later tokens do not change it, as in LiveKit, where the room's settings come from the join that opens it.
        self.max_participants = self.max_participants.or(max_participants);
        let replaced = self.get(identity).cloned();
        if self.is_full_for(identity) {
            Err(RoomStateError::RoomFull)
        } else {
            Ok(replaced)
        }
    }

    /// Returns whether members and requested joins with other identities occupy all seats.
    pub fn is_full_for(&self, identity: &Identity) -> bool {
        // An identity can have a member and a requested join at the same time, as when it replaces itself. It counts
        // once.
        let others = self
            .seats
            .keys()
            .chain(self.requested.values())
            .filter(|other| *other != identity);
        self.max_participants
            .is_some_and(|max| others.collect::<BTreeSet<_>>().len() >= max as usize)
    }

    /// Reserves a seat while the control plane decides on a join.
    pub fn request(&mut self, sid: ParticipantSid, identity: Identity) {
        self.requested.insert(sid, identity);
    }

    /// Releases the seat of a join that the control plane has decided on.
    pub fn end_request(&mut self, sid: &ParticipantSid) {
        self.requested.remove(sid);
    }

    /// Returns the room's sid as clients see it.
    pub const fn sid(&self) -> &str {
        &self.sid
    }

    /// Returns the time of the first join; `None` before.
    pub const fn opened_at(&self) -> Option<Timestamp> {
        self.opened_at
    }

    /// Adds a member, in place of the member with the same identity. The first one opens the room.
    pub fn insert(&mut self, identity: Identity, sid: ParticipantSid, now: Timestamp) {
        self.opened_at.get_or_insert(now);
        self.joins += 1;
        self.seats.insert(
            identity,
            Seat {
                sid,
                number: self.joins,
            },
        );
    }

    /// Removes a member, unless another join has taken its seat.
    pub fn remove(&mut self, identity: &Identity, sid: &ParticipantSid) {
        // A participant that was replaced leaves after the new one has taken its seat.
        if self.get(identity) == Some(sid) {
            self.seats.remove(identity);
        }
    }

    /// Returns the members' sids in the order of their joins, then the sids of requested joins.
    pub fn into_sids(self) -> impl Iterator<Item = ParticipantSid> {
        let mut seats: Vec<_> = self.seats.into_values().collect();
        // The map is ordered by identity, but leaves are reported in the order of joins.
        seats.sort_unstable_by_key(|member| member.number);
        seats
            .into_iter()
            .map(|member| member.sid)
            .chain(self.requested.into_keys())
    }

    /// Returns the sid of the member with this identity.
    pub fn get(&self, identity: &Identity) -> Option<&ParticipantSid> {
        self.seats.get(identity).map(|member| &member.sid)
    }

    /// Returns the members' sids, ordered by identity.
    pub fn iter(&self) -> impl Iterator<Item = &ParticipantSid> {
        self.seats.values().map(|member| &member.sid)
    }

    pub fn rules(&self) -> &SubscriptionRules {
        &self.rules
    }

    /// Sets the rules. Returns whether they have changed.
    pub fn set_rules(&mut self, rules: SubscriptionRules) -> bool {
        let is_changed = self.rules != rules;
        self.rules = rules;
        is_changed
    }

    /// Returns whether there are neither members, requested joins nor rules.
    pub fn is_unused(&self) -> bool {
        self.seats.is_empty() && self.requested.is_empty() && self.rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::room_state::tests::{NOW, claims, room};

    #[test]
    fn a_participant_is_found_by_how_far_its_join_is() {
        let (mut roster, sid) = (Roster::new(false), "PA_1".parse().unwrap());
        let joining =
            LocalParticipant::new("PA_1".parse().unwrap(), claims(&room(), "alice", None), NOW);
        roster
            .seats_mut()
            .insert(joining.identity().clone(), joining.sid().clone(), NOW);
        roster.add(joining.with_client(Client::default()));
        assert!(roster.client(&sid).is_some() && roster.present(&sid).is_err());
        roster.get_mut(&sid).unwrap().admit();
        assert!(roster.present(&sid).is_ok() && roster.active(&sid).is_err());
        assert_eq!(roster.present_clients().count(), 1);
        assert!(
            roster
                .active_by_identity(&"alice".parse().unwrap())
                .is_err()
        );
        roster.get_mut(&sid).unwrap().activate();
        assert!(roster.active_by_identity(&"alice".parse().unwrap()).is_ok());
        let left = roster.take(&sid).unwrap();
        assert!(!roster.is_unused(), "its seat is kept");
        roster.release_seat(&left);
        assert!(roster.is_unused());
    }

    #[test]
    fn a_participant_that_replaces_itself_fits_into_a_full_room() {
        let mut room = Seats::default();
        let (alice, bob): (Identity, Identity) = ("alice".parse().unwrap(), "bob".parse().unwrap());
        assert_eq!(room.check_capacity(&alice, Some(1)), Ok(None));
        room.insert(alice.clone(), "PA_1".parse().unwrap(), NOW);
        let refused = room.check_capacity(&bob, Some(9));
        assert_eq!(
            refused,
            Err(RoomStateError::RoomFull),
            "a later token does not raise the maximum"
        );
        assert_eq!(
            room.check_capacity(&alice, Some(1)),
            Ok(Some("PA_1".parse().unwrap()))
        );
    }

    #[test]
    fn members_leave_in_the_order_of_their_joins() {
        let mut room = Seats::default();
        for (identity, sid) in [
            ("carol", "PA_1"),
            ("alice", "PA_2"),
            ("bob", "PA_3"),
            ("carol", "PA_4"),
        ] {
            room.insert(identity.parse().unwrap(), sid.parse().unwrap(), NOW);
        }
        room.request("PA_5".parse().unwrap(), "dave".parse().unwrap());
        let sids: Vec<_> = room.into_sids().map(|sid| sid.to_string()).collect();
        assert_eq!(sids, ["PA_2", "PA_3", "PA_4", "PA_5"]);
    }
}
