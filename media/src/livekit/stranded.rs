//! People whom LiveKit lists and has not. A node that dies leaves its people in LiveKit's store; whoever never comes back
//! stays listed until their room is deleted, and their session would stay open for as long.
//!
//! So a room that somebody is listed in is looked at now and then, beside the caller: its node counts whom it has (a room
//! without a node gets one, which closes it when nobody is in it), and if those are fewer than are listed, each is asked
//! after. A sid for which no node answers then is never believed again: a new connection has a new one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_model::participant::{Participant, ParticipantKind};
use conclave_model::{Clock, NamespacedRoom, ParticipantSid, Timestamp};
use livekit_protocol as proto;

use super::calls;
use super::failure::Failure;
use super::plane::Inner;

/// How long a look holds.
const HOLDS: Duration = Duration::from_secs(30);
/// Who was found not to be there, by room.
#[derive(Debug, Default)]
pub(super) struct Stranded(Mutex<HashMap<NamespacedRoom, Looked>>);

#[derive(Debug)]
struct Looked {
    at: Timestamp,
    gone: BTreeSet<ParticipantSid>,
}

impl Stranded {
    /// Forgets a room.
    pub fn forget(&self, room: &NamespacedRoom) {
        self.lock().remove(room);
    }

    /// Whether somebody is known not to be there.
    pub fn has(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> bool {
        self.lock().get(room).is_some_and(|looked| looked.gone.contains(sid))
    }

    /// Says whether it is time to look; if so, the caller does.
    fn begin(&self, room: &NamespacedRoom, clock: &Clock) -> bool {
        let now = clock.now();
        let mut rooms = self.lock();
        match rooms.get_mut(room) {
            Some(looked) if looked.at.after(HOLDS) > now => false,
            Some(looked) => {
                looked.at = now;
                true
            }
            None => {
                rooms.insert(room.clone(), Looked { at: now, gone: BTreeSet::new() });
                true
            }
        }
    }

    /// Notes whom a look did not find, and drops those who are listed no more.
    fn note(&self, room: &NamespacedRoom, gone: BTreeSet<ParticipantSid>, listed: &[Participant]) {
        if let Some(looked) = self.lock().get_mut(room) {
            looked.gone.extend(gone);
            looked.gone.retain(|sid| listed.iter().any(|person| person.sid == *sid));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NamespacedRoom, Looked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Looks, beside the caller, for people who are listed and not there, if it is time to.
    pub fn look_for_stranded(self: &Arc<Self>, room: &NamespacedRoom) {
        if !self.stranded.begin(room, &self.clock) {
            return;
        }
        let (plane, room) = (Arc::clone(self), room.clone());
        tokio::spawn(async move {
            if let Err(failure) = plane.find_stranded(&room).await {
                log::warn!(room = room.as_str(); "who is in a room was not verified, and will be: {}", failure.in_words());
            }
        });
    }

    async fn find_stranded(&self, room: &NamespacedRoom) -> Result<(), Failure> {
        let listed = self.listed(room).await?;
        let mut doubted: Vec<_> = listed.iter().filter(|person| counts(person.kind)).collect();
        doubted.retain(|person| !self.stranded.has(room, &person.sid));
        if doubted.is_empty() {
            self.stranded.note(room, BTreeSet::new(), &listed);
            return Ok(());
        }
        let there = self.count_people(room).await?;
        let missing = doubted.len().saturating_sub(there);
        // Whoever was left behind joined before those who came back.
        doubted.sort_by_key(|person| person.joined_at);
        let mut gone = BTreeSet::new();
        for person in doubted {
            if gone.len() == missing {
                break;
            }
            if !self.is_served(room, person).await? {
                gone.insert(person.sid.clone());
            }
        }
        // Somebody may have come back meanwhile, under the same identity.
        self.stranded.note(room, gone, &self.listed(room).await?);
        Ok(())
    }

    /// Whether some node answers for somebody, asked to do nothing to them.
    async fn is_served(&self, room: &NamespacedRoom, person: &Participant) -> Result<bool, Failure> {
        let nothing = proto::UpdateSubscriptionsRequest {
            room: room.to_string(),
            identity: person.identity.to_string(),
            ..Default::default()
        };
        match self.twirp.call(calls::update_subscriptions(&nothing)).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_no_response() || failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

/// Whether LiveKit counts such a participant.
const fn counts(kind: ParticipantKind) -> bool {
    match kind {
        ParticipantKind::Standard | ParticipantKind::Ingress | ParticipantKind::Sip => true,
        ParticipantKind::Egress | ParticipantKind::Agent => false,
    }
}
