//! Bans: identities that may not join a room. Limits of bans and of revocations of tokens.

use std::time::Duration;

use crate::room::LONGEST_TOKEN_LIFE;
use crate::{BanId, Identity, RoomName, Timestamp};

/// Maximum bans of a room, and maximum revocations. Expired ones give way to new ones.
pub const MAX_PER_ROOM: i64 = 1_000;

/// Time after which a revocation is over: twice a token's longest lifetime, since LiveKit renews the tokens of connected participants.
pub const REVOCATION_LIFE: Duration = LONGEST_TOKEN_LIFE.saturating_mul(2);

/// Ban of an identity from a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// Record id.
    pub id: BanId,
    /// Room.
    pub room: RoomName,
    /// Banned identity.
    pub identity: Identity,
    /// Time from which the identity may join again; `None` for never.
    pub until: Option<Timestamp>,
    /// Reason, in the words of the server or moderator that banned the identity.
    pub reason: Option<String>,
    /// Time of the ban.
    pub created_at: Timestamp,
    /// Time of the last change of `until` or `reason`.
    pub updated_at: Timestamp,
}

impl Ban {
    /// Returns whether the ban is in force at a time.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    /// Returns whether the ban ends after another end; `None` is no end.
    #[must_use]
    pub fn outlasts(&self, other: Option<Timestamp>) -> bool {
        other.is_some_and(|other| self.is_in_force(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_ends_at_its_time_and_never_without_one() {
        let at = Timestamp::from_millis;
        let ban = |until| Ban {
            id: BanId::new(),
            room: "standup".parse().unwrap(),
            identity: "alice".parse().unwrap(),
            until,
            reason: None,
            created_at: at(0),
            updated_at: at(0),
        };
        assert!(ban(Some(at(2))).is_in_force(at(1)) && !ban(Some(at(2))).is_in_force(at(2)));
        assert!(ban(None).is_in_force(at(i64::from(u32::MAX))));
        assert!(ban(Some(at(2))).outlasts(Some(at(1))) && !ban(Some(at(2))).outlasts(Some(at(2))));
        assert!(ban(None).outlasts(Some(at(2))) && !ban(None).outlasts(None));
        assert!(!ban(Some(at(2))).outlasts(None));
    }
}
