//! Who receives whom (`role.subscribe.to_roles`). LiveKit has no such rule: everybody is subscribed to everything, and the
//! server can take a subscription back. So the rules are kept here and applied again on each occasion that may have changed
//! what somebody receives: a join, a publication, another role, and each round of reconciliation. Between such an occasion
//! and the call a track may be received; and a client that asks for one gets it until the next round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_model::participant::{Participant, ParticipantKind};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, TrackSid};
use livekit_protocol as proto;

use super::calls;
use super::failure::Failure;
use super::plane::Inner;
use crate::rules::SubscriptionRules;

/// Tracks of each publisher.
type Tracks = BTreeMap<ParticipantSid, BTreeSet<TrackSid>>;
/// What each receiver is kept from.
type Withheld = BTreeMap<ParticipantSid, Tracks>;

/// What is known of the rooms that have rules.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<HashMap<NamespacedRoom, Ruled>>);

#[derive(Debug, Default)]
struct Ruled {
    rules: SubscriptionRules,
    withheld: Withheld,
    /// Somebody applies the rules now.
    applied_now: bool,
    /// And something has changed since they began.
    again: bool,
}

/// What one receiver is to be subscribed to and what not.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    sid: ParticipantSid,
    identity: Identity,
    give: Tracks,
    withhold: Tracks,
}

impl Subscriptions {
    /// Replaces the rules of a room.
    pub fn set(&self, room: &NamespacedRoom, rules: SubscriptionRules) {
        self.lock().entry(room.clone()).or_default().rules = rules;
    }

    /// Forgets a room.
    pub fn forget(&self, room: &NamespacedRoom) {
        self.lock().remove(room);
    }

    /// Says whether the caller is to apply the rules: there are some, and nobody is at it.
    fn begin(&self, room: &NamespacedRoom) -> bool {
        let mut rooms = self.lock();
        let Some(ruled) = rooms.get_mut(room) else { return false };
        ruled.again = ruled.applied_now;
        !std::mem::replace(&mut ruled.applied_now, true)
    }

    /// What is to be applied, and what was.
    fn current(&self, room: &NamespacedRoom) -> Option<(SubscriptionRules, Withheld)> {
        self.lock().get(room).map(|ruled| (ruled.rules.clone(), ruled.withheld.clone()))
    }

    /// Notes what is withheld now, and says whether to go on: something changed meanwhile.
    fn end(&self, room: &NamespacedRoom, withheld: Option<Withheld>) -> bool {
        let mut rooms = self.lock();
        let Some(ruled) = rooms.get_mut(room) else { return false };
        if let Some(withheld) = withheld {
            ruled.withheld = withheld;
        }
        ruled.applied_now = std::mem::take(&mut ruled.again);
        let (again, useless) = (ruled.applied_now, ruled.rules.is_empty() && ruled.withheld.is_empty());
        if useless && !again {
            rooms.remove(room);
        }
        again
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NamespacedRoom, Ruled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Sees to it that everybody in a room receives whom they may, beside the caller.
    pub fn keep_subscriptions(self: &Arc<Self>, room: &NamespacedRoom) {
        if !self.subscriptions.begin(room) {
            return;
        }
        let (plane, room) = (Arc::clone(self), room.clone());
        tokio::spawn(async move {
            loop {
                let withheld = plane.apply_rules(&room).await.inspect_err(|failure| not_applied(&room, failure));
                if !plane.subscriptions.end(&room, withheld.ok().flatten()) {
                    return;
                }
            }
        });
    }

    /// Applies the rules once, and says what is withheld from whom; `None` when the room has been forgotten.
    async fn apply_rules(&self, room: &NamespacedRoom) -> Result<Option<Withheld>, Failure> {
        let Some((rules, before)) = self.subscriptions.current(room) else { return Ok(None) };
        let people = self.participants(room).await?;
        let (changes, mut withheld) = changes(&rules, &people, &before);
        for Change { sid, identity, give, withhold } in changes {
            let applied = match self.subscribe(room, &identity, withhold, false).await {
                Ok(()) => self.subscribe(room, &identity, give, true).await,
                refused => refused,
            };
            // One who cannot be reached must not keep the others from what they may receive, nor give them what they may
            // not. What was withheld from them stays noted, so that it is given another time.
            if let Err(failure) = applied {
                not_applied(room, &failure);
                let kept = before.get(&sid).cloned().unwrap_or_default();
                let noted = withheld.entry(sid).or_default();
                kept.into_iter().for_each(|(publisher, tracks)| noted.entry(publisher).or_default().extend(tracks));
            }
        }
        Ok(Some(withheld))
    }

    async fn subscribe(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        tracks: Tracks,
        subscribe: bool,
    ) -> Result<(), Failure> {
        if tracks.is_empty() {
            return Ok(());
        }
        let of = |(sid, tracks): (ParticipantSid, BTreeSet<TrackSid>)| proto::ParticipantTracks {
            participant_sid: sid.into(),
            track_sids: tracks.into_iter().map(String::from).collect(),
        };
        let request = proto::UpdateSubscriptionsRequest {
            room: room.to_string(),
            identity: identity.to_string(),
            subscribe,
            participant_tracks: tracks.into_iter().map(of).collect(),
            ..Default::default()
        };
        match self.twirp.call(calls::update_subscriptions(&request)).await {
            Ok(_) => Ok(()),
            Err(failure) => self.unless_absent(room, identity, failure).await,
        }
    }
}

/// What to ask of LiveKit, and what is withheld from whom then. What is withheld is asked for each time, since a client may
/// have subscribed to it meanwhile; what is given, only when it was withheld before.
fn changes(rules: &SubscriptionRules, people: &[Participant], before: &Withheld) -> (Vec<Change>, Withheld) {
    let mut withheld = Withheld::new();
    let mut changes = Vec::new();
    for receiver in people.iter().filter(|person| person.kind != ParticipantKind::Egress) {
        let role = receiver.role();
        let (mut give, mut withhold) = (Tracks::new(), Tracks::new());
        for publisher in people.iter().filter(|person| person.sid != receiver.sid) {
            let tracks = publisher.tracks.iter().map(|track| track.sid.clone());
            if rules.receives(role.as_ref(), publisher.role().as_ref()) {
                let missing = before.get(&receiver.sid).and_then(|tracks| tracks.get(&publisher.sid));
                let missing = |sid: &TrackSid| missing.is_some_and(|tracks| tracks.contains(sid));
                insert(&mut give, &publisher.sid, tracks.filter(missing).collect());
            } else if !rules.is_deaf(role.as_ref()) {
                insert(&mut withhold, &publisher.sid, tracks.collect());
            }
        }
        if !withhold.is_empty() {
            withheld.insert(receiver.sid.clone(), withhold.clone());
        }
        if !(give.is_empty() && withhold.is_empty()) {
            changes.push(Change { sid: receiver.sid.clone(), identity: receiver.identity.clone(), give, withhold });
        }
    }
    (changes, withheld)
}

fn not_applied(room: &NamespacedRoom, failure: &Failure) {
    log::warn!(room = room.as_str(); "subscription rules were not applied, and will be again: {}", failure.clone().in_words());
}

fn insert(into: &mut Tracks, publisher: &ParticipantSid, tracks: BTreeSet<TrackSid>) {
    if !tracks.is_empty() {
        into.insert(publisher.clone(), tracks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_applies_rules_goes_on_while_something_changes() {
        let (subscriptions, room) = (Subscriptions::default(), "prj_0123456789ab.r".parse().unwrap());
        assert!(!subscriptions.begin(&room), "there are no rules");
        let guests = BTreeMap::from([("guest".parse().unwrap(), Some(Vec::new()))]);
        subscriptions.set(&room, guests.into());
        assert!(subscriptions.begin(&room));
        assert!(!subscriptions.begin(&room), "somebody is at it, and is told");
        assert!(subscriptions.end(&room, None));
        assert!(!subscriptions.end(&room, None));
        assert!(subscriptions.begin(&room));
    }

    #[test]
    fn a_room_whose_rules_were_lifted_is_forgotten() {
        let (subscriptions, room) = (Subscriptions::default(), "prj_0123456789ab.r".parse().unwrap());
        subscriptions.set(&room, SubscriptionRules::default());
        assert!(subscriptions.begin(&room));
        assert!(!subscriptions.end(&room, Some(Withheld::new())));
        assert!(!subscriptions.begin(&room));
    }
}
