//! Subscription rules: which roles receive which (`role.subscribe.to_roles`).
//!
//! LiveKit has no such rules. It subscribes each participant to all tracks, and permits the server to unsubscribe it.
//! So the rules are kept here and applied again after each event that can change a participant's subscriptions: a join,
//! a publication, a role change, and each round of reconciliation. Until the calls are made, a participant may receive
//! a forbidden track; and a client that subscribes to one by itself receives it until the next round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use conclave_model::participant::{Participant, ParticipantKind};
use conclave_model::{Identity, NamespacedRoom, ParticipantSid, TrackSid};
use livekit_protocol as proto;
use parking_lot::Mutex;

use super::participants::Participants;
use super::twirp::{self, CallError, TwirpClient};
use crate::rules::SubscriptionRules;

/// Tracks by publisher.
type Tracks = BTreeMap<ParticipantSid, BTreeSet<TrackSid>>;
/// Tracks from which each receiver was unsubscribed.
type WithheldTracks = BTreeMap<ParticipantSid, Tracks>;

/// Applies subscription rules. Clones share the rules.
#[derive(Debug, Clone)]
pub(super) struct SubscriptionEnforcer {
    client: Arc<TwirpClient>,
    participants: Participants,
    rules: Arc<RuleTable>,
}

impl SubscriptionEnforcer {
    pub fn new(client: Arc<TwirpClient>, participants: Participants) -> Self {
        Self {
            client,
            participants,
            rules: Arc::default(),
        }
    }

    /// Replaces a room's rules, without applying them.
    pub fn set_rules(&self, room: &NamespacedRoom, rules: SubscriptionRules) {
        self.rules.set(room, rules);
    }

    /// Removes a room's rules.
    pub fn forget(&self, room: &NamespacedRoom) {
        self.rules.forget(room);
    }

    /// Applies a room's rules in a spawned task, if it has any. If a task is already applying them, that task repeats.
    pub fn spawn_apply(&self, room: &NamespacedRoom) {
        if !self.rules.start(room) {
            return;
        }
        let (enforcer, room) = (self.clone(), room.clone());
        tokio::spawn(async move {
            loop {
                let withheld = enforcer
                    .apply(&room)
                    .await
                    .inspect_err(|error| log_not_applied(&room, error));
                // A failed round is not repeated here: the next event or reconciliation starts another.
                if !enforcer.rules.finish(&room, withheld.ok().flatten()) {
                    return;
                }
            }
        });
    }

    /// Applies the rules once. Returns the tracks withheld afterwards; `None` if the room has been forgotten.
    async fn apply(&self, room: &NamespacedRoom) -> Result<Option<WithheldTracks>, CallError> {
        // A copy, so that no lock is held during the calls.
        let Some((rules, before)) = self.rules.current(room) else {
            return Ok(None);
        };
        let participants = self.participants.list(room).await?;
        let (changes, mut withheld) = plan_changes(&rules, &participants, &before);
        for SubscriptionChange {
            sid,
            identity,
            subscribe,
            unsubscribe,
        } in changes
        {
            // Unsubscribes first: if LiveKit fails in between, no forbidden track remains.
            let applied = match self.update(room, &identity, unsubscribe, false).await {
                Ok(()) => self.update(room, &identity, subscribe, true).await,
                refused => refused,
            };
            // A failure for one receiver must not stop the others' changes. This receiver's withheld tracks stay
            // recorded, so that a later round subscribes it again.
            if let Err(error) = applied {
                log_not_applied(room, &error);
                let recorded = withheld.entry(sid.clone()).or_default();
                for (publisher, tracks) in before.get(&sid).cloned().unwrap_or_default() {
                    recorded.entry(publisher).or_default().extend(tracks);
                }
            }
        }
        Ok(Some(withheld))
    }

    /// Subscribes or unsubscribes one receiver. Succeeds if the receiver has left.
    async fn update(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        tracks: Tracks,
        subscribe: bool,
    ) -> Result<(), CallError> {
        if tracks.is_empty() {
            return Ok(());
        }
        // LiveKit groups tracks by publisher.
        let to_proto =
            |(sid, tracks): (ParticipantSid, BTreeSet<TrackSid>)| proto::ParticipantTracks {
                participant_sid: sid.into(),
                track_sids: tracks.into_iter().map(String::from).collect(),
            };
        let request = proto::UpdateSubscriptionsRequest {
            room: room.to_string(),
            identity: identity.to_string(),
            subscribe,
            participant_tracks: tracks.into_iter().map(to_proto).collect(),
            ..Default::default()
        };
        match self
            .client
            .call(twirp::update_subscriptions(&request))
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => {
                self.participants
                    .ignore_if_absent(room, identity, error)
                    .await
            }
        }
    }
}

fn log_not_applied(room: &NamespacedRoom, error: &CallError) {
    log::warn!(room = room.as_str(); "subscription rules were not applied and will be applied again: {error}");
}

/// The rooms with rules.
#[derive(Debug, Default)]
struct RuleTable(Mutex<HashMap<NamespacedRoom, RoomRules>>);

#[derive(Debug, Default)]
struct RoomRules {
    rules: SubscriptionRules,
    withheld: WithheldTracks,
    /// Whether a task is applying the rules.
    is_applying: bool,
    /// Whether the rules or the participants have changed since that task started.
    is_outdated: bool,
}

impl RuleTable {
    fn set(&self, room: &NamespacedRoom, rules: SubscriptionRules) {
        self.0.lock().entry(room.clone()).or_default().rules = rules;
    }

    fn forget(&self, room: &NamespacedRoom) {
        self.0.lock().remove(room);
    }

    /// Returns whether the caller must apply the rules: the room has some, and no task is applying them.
    fn start(&self, room: &NamespacedRoom) -> bool {
        let mut rooms = self.0.lock();
        let Some(entry) = rooms.get_mut(room) else {
            return false;
        };
        // A running task repeats; otherwise the caller's run is up to date.
        entry.is_outdated = entry.is_applying;
        !std::mem::replace(&mut entry.is_applying, true)
    }

    /// Returns the rules to apply, and the tracks that are withheld.
    fn current(&self, room: &NamespacedRoom) -> Option<(SubscriptionRules, WithheldTracks)> {
        self.0
            .lock()
            .get(room)
            .map(|entry| (entry.rules.clone(), entry.withheld.clone()))
    }

    /// Records the withheld tracks. Returns whether the caller must apply the rules once more.
    fn finish(&self, room: &NamespacedRoom, withheld: Option<WithheldTracks>) -> bool {
        let mut rooms = self.0.lock();
        let Some(entry) = rooms.get_mut(room) else {
            return false;
        };
        if let Some(withheld) = withheld {
            entry.withheld = withheld;
        }
        entry.is_applying = std::mem::take(&mut entry.is_outdated);
        let (again, is_unused) = (
            entry.is_applying,
            entry.rules.is_empty() && entry.withheld.is_empty(),
        );
        // Without rules, a room is only kept until everything that was withheld is subscribed again.
        if is_unused && !again {
            rooms.remove(room);
        }
        again
    }
}

/// Calls for one receiver.
#[derive(Debug, PartialEq, Eq)]
struct SubscriptionChange {
    sid: ParticipantSid,
    identity: Identity,
    subscribe: Tracks,
    unsubscribe: Tracks,
}

/// Returns the changes to request from LiveKit, and the tracks withheld after them. Each round unsubscribes from all
/// forbidden tracks, since a client may have subscribed in the meantime, but subscribes only to tracks that were
/// withheld before.
fn plan_changes(
    rules: &SubscriptionRules,
    participants: &[Participant],
    before: &WithheldTracks,
) -> (Vec<SubscriptionChange>, WithheldTracks) {
    let mut withheld = WithheldTracks::new();
    let mut changes = Vec::new();
    // Egress workers record whatever their request names, regardless of roles.
    for receiver in participants
        .iter()
        .filter(|participant| participant.kind != ParticipantKind::Egress)
    {
        let change = plan_change(rules, receiver, participants, before.get(&receiver.sid));
        if !change.unsubscribe.is_empty() {
            withheld.insert(receiver.sid.clone(), change.unsubscribe.clone());
        }
        if !(change.subscribe.is_empty() && change.unsubscribe.is_empty()) {
            changes.push(change);
        }
    }
    (changes, withheld)
}

fn plan_change(
    rules: &SubscriptionRules,
    receiver: &Participant,
    participants: &[Participant],
    withheld: Option<&Tracks>,
) -> SubscriptionChange {
    let role = receiver.role();
    let (mut subscribe, mut unsubscribe) = (Tracks::new(), Tracks::new());
    for publisher in participants
        .iter()
        .filter(|participant| participant.sid != receiver.sid)
    {
        let tracks = publisher.tracks.iter().map(|track| track.sid.clone());
        if rules.receives(role.as_ref(), publisher.role().as_ref()) {
            let withheld = withheld.and_then(|tracks| tracks.get(&publisher.sid));
            let was_withheld = |sid: &TrackSid| withheld.is_some_and(|tracks| tracks.contains(sid));
            insert_tracks(
                &mut subscribe,
                &publisher.sid,
                tracks.filter(was_withheld).collect(),
            );
        // The token of a role that receives no other role forbids all subscriptions, so it needs no calls.
        } else if !rules.receives_nobody(role.as_ref()) {
            insert_tracks(&mut unsubscribe, &publisher.sid, tracks.collect());
        }
    }
    SubscriptionChange {
        sid: receiver.sid.clone(),
        identity: receiver.identity.clone(),
        subscribe,
        unsubscribe,
    }
}

fn insert_tracks(into: &mut Tracks, publisher: &ParticipantSid, tracks: BTreeSet<TrackSid>) {
    if !tracks.is_empty() {
        into.insert(publisher.clone(), tracks);
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::role::RoleSubscribe;

    use super::*;

    #[test]
    fn applying_is_repeated_while_something_changes() {
        let (table, room) = (RuleTable::default(), "prj_0123456789ab.r".parse().unwrap());
        assert!(!table.start(&room), "there are no rules");
        let nobody = RoleSubscribe {
            to_roles: Some(Vec::new()),
            max_kbps: None,
        };
        table.set(
            &room,
            BTreeMap::from([("guest".parse().unwrap(), nobody)]).into(),
        );
        assert!(table.start(&room));
        assert!(
            !table.start(&room),
            "the first caller applies the changes and has to repeat"
        );
        // The second `start` has marked the first run as outdated.
        assert!(table.finish(&room, None));
        assert!(!table.finish(&room, None));
        assert!(table.start(&room));
    }

    #[test]
    fn a_room_whose_rules_were_removed_is_forgotten() {
        let (table, room) = (RuleTable::default(), "prj_0123456789ab.r".parse().unwrap());
        table.set(&room, SubscriptionRules::default());
        assert!(table.start(&room));
        assert!(!table.finish(&room, Some(WithheldTracks::new())));
        assert!(!table.start(&room));
    }
}
