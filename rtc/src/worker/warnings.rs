//! Warnings in the log that clients cause: one a minute for each participant.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use conclave_model::{Identity, NamespacedRoom};

use super::Worker;
use crate::transport::PeerKey;

const INTERVAL: Duration = Duration::from_secs(60);

/// How many participants are named in a minute. More only fill the log.
const MOST: usize = 100;

/// The participants that a warning named in the last minute: by identity, as a client that joins anew has another sid.
#[derive(Default)]
pub struct Warnings(HashMap<(NamespacedRoom, Identity), Instant>);

impl Warnings {
    fn is_due(&mut self, room: &NamespacedRoom, identity: &Identity, now: Instant) -> bool {
        self.0.retain(|_, at| now < *at + INTERVAL);
        let name = (room.clone(), identity.clone());
        let is_due = self.0.len() < MOST && !self.0.contains_key(&name);
        if is_due {
            self.0.insert(name, now);
        }
        is_due
    }
}

impl Worker {
    /// Logs what a participant's client does wrong.
    pub(super) fn warn(&mut self, key: PeerKey, what: &str, details: &dyn std::fmt::Display) {
        let Some(peer) = self.peers.get(key) else { return };
        let Some(room) = self.rooms.get(peer.room) else { return };
        if self.warnings.is_due(&room.name, &peer.info.identity, self.now) {
            log::warn!(participant = peer.info.sid.as_str(), details:%; "{what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_is_named_once_a_minute() {
        let (mut warnings, begin) = (Warnings::default(), Instant::now());
        let room = "prj_0123456789ab.room".parse().unwrap();
        let mut count = |identity: &str, seconds: std::ops::Range<u64>| {
            let identity = identity.parse().unwrap();
            seconds.filter(|at| warnings.is_due(&room, &identity, begin + Duration::from_secs(*at))).count()
        };
        assert_eq!(count("mallory", 0..90), 2);
        assert_eq!(count("alice", 90..91), 1);
        let named = (0..200).map(|number| count(&format!("m{number}"), 90..91)).sum::<usize>();
        assert_eq!(named, MOST - 2);
    }
}
