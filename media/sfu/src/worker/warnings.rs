//! Warnings in the log that clients cause: one a minute for each participant.

use std::time::Duration;

use conclave_model::{Identity, NamespacedRoom, Throttle};

use super::Worker;
use crate::transport::PeerKey;

const INTERVAL: Duration = Duration::from_secs(60);

/// How many participants are named in a minute. More only fill the log.
const MOST: usize = 100;

/// The participants that warnings name: by identity, as a client that joins anew has another sid.
pub type Warnings = Throttle<(NamespacedRoom, Identity)>;

/// No participant was named yet.
pub fn new() -> Warnings {
    Warnings::by_key(INTERVAL, MOST)
}

impl Worker {
    /// Logs what a participant's client does wrong.
    pub(super) fn warn(&self, key: PeerKey, what: &str, details: &dyn std::fmt::Display) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        let Some(room) = self.rooms.get(peer.room) else {
            return;
        };
        if self
            .warnings
            .allow_key((room.name.clone(), peer.info.identity.clone()), self.now)
        {
            log::warn!(participant = peer.info.sid.as_str(), details:%; "{what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_participant_is_named_once_a_minute() {
        let (warnings, begin) = (new(), Instant::now());
        let count = |identity: &str, seconds: std::ops::Range<u64>| {
            let name = || {
                (
                    "prj_0123456789ab.room".parse().unwrap(),
                    identity.parse().unwrap(),
                )
            };
            seconds
                .filter(|at| warnings.allow_key(name(), begin + Duration::from_secs(*at)))
                .count()
        };
        assert_eq!(count("mallory", 0..90), 2);
        assert_eq!(count("alice", 90..91), 1);
        let named = (0..200)
            .map(|number| count(&format!("m{number}"), 90..91))
            .sum::<usize>();
        assert_eq!(named, MOST - 2);
    }
}
