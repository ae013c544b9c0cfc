//! Room codes: `xxxx-xxxx-xxxx`, short enough to be read out, exchanged for a room token without a credential. Only a SHA-256 hash and the
//! first four characters are stored.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::secret::{UNAMBIGUOUS, random_text};
use crate::{CodeId, Identity, ProjectId, RoleName, RoomName, Secret, Timestamp};

// 60 bits: 12 characters out of 32.
const GROUPS: usize = 3;
const GROUP_LEN: usize = 4;

/// Pattern for codes, as a regular expression.
// The characters of `UNAMBIGUOUS`.
pub const PATTERN: &str = "^[a-hjkm-z2-9]{4}(-[a-hjkm-z2-9]{4}){2}$";

/// Minimum lifetime: one minute.
pub const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// Maximum lifetime: 30 days.
pub const LONGEST_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Default lifetime: 24 hours.
// The contract's default and range.
pub const DEFAULT_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Complete code. It admits any client that has it, so it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RoomCode(Secret);

/// A complete code's SHA-256, for storing, looking up and counting codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoomCodeHash(pub [u8; 32]);

/// A code's first four characters, which distinguish codes in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomCodePrefix(Box<str>);

/// The text is not formed like a code. The error has no details, so that no response can reveal
/// any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a room code")]
pub struct ParseRoomCodeError;

impl RoomCode {
    /// Returns a new random code.
    pub fn generate() -> Self {
        // Groups of four are easier to read aloud and to type.
        let groups = [(); GROUPS].map(|()| random_text(GROUP_LEN, UNAMBIGUOUS));
        Self(Secret::new(groups.join("-")))
    }

    /// Returns the first four characters.
    pub fn prefix(&self) -> RoomCodePrefix {
        // The first group, before the hyphen.
        RoomCodePrefix(self.0.reveal()[..GROUP_LEN].into())
    }

    /// Returns the hash that is stored.
    pub fn hash(&self) -> RoomCodeHash {
        // Without a salt, since codes are found by it; 60 random bits and a rate limit protect them.
        RoomCodeHash(Sha256::digest(self.0.reveal()).into())
    }

    /// Returns the complete code, which is shown once.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl FromStr for RoomCode {
    type Err = ParseRoomCodeError;

    fn from_str(text: &str) -> Result<Self, ParseRoomCodeError> {
        let group = |group: &str| {
            // Lower case only, so that each code has one hash.
            group.len() == GROUP_LEN && group.bytes().all(|b| UNAMBIGUOUS.contains(&b))
        };
        // Exactly three groups, all from the alphabet.
        let shaped = text.split('-').count() == GROUPS && text.split('-').all(group);
        if shaped {
            Ok(Self(Secret::new(text)))
        } else {
            Err(ParseRoomCodeError)
        }
    }
}

impl fmt::Debug for RoomCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl RoomCodePrefix {
    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the code as lists show it, with all but the prefix masked.
    pub fn masked(&self) -> String {
        // The prefix has 20 of 60 bits, which is not enough to guess the rest.
        format!("{}-****-****", self.0)
    }
}

impl FromStr for RoomCodePrefix {
    type Err = ParseRoomCodeError;

    fn from_str(text: &str) -> Result<Self, ParseRoomCodeError> {
        let shaped = text.len() == GROUP_LEN && text.bytes().all(|b| UNAMBIGUOUS.contains(&b));
        if shaped {
            Ok(Self(text.into()))
        } else {
            Err(ParseRoomCodeError)
        }
    }
}

/// Room code record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomCodeRecord {
    /// Record id.
    pub id: CodeId,
    /// Owning project.
    pub project_id: ProjectId,
    /// Room that the code admits to.
    pub room: RoomName,
    /// Role that the code grants.
    pub role: RoleName,
    /// First four characters.
    pub prefix: RoomCodePrefix,
    /// Identity that the code always admits, if set.
    pub identity: Option<Identity>,
    /// Time from which on the code cannot be exchanged.
    pub expires_at: Timestamp,
    /// Maximum number of exchanges; `None` is unlimited.
    pub max_uses: Option<u32>,
    /// Number of exchanges so far.
    pub uses: u32,
    /// Whether the project disabled it.
    pub disabled: bool,
    /// Creation time.
    pub created_at: Timestamp,
    /// Creation, last exchange or disabling, whichever is latest.
    pub updated_at: Timestamp,
}

impl RoomCodeRecord {
    /// Returns whether the code can be exchanged at `now`.
    pub fn usable(&self, now: Timestamp) -> bool {
        !self.disabled && now < self.expires_at && self.max_uses.is_none_or(|most| self.uses < most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fresh_code_has_the_shape_of_the_contract_and_parses() {
        let code = RoomCode::generate();
        let parsed: RoomCode = code.reveal().parse().unwrap();
        assert_eq!(
            (parsed.hash(), parsed.prefix().as_str()),
            (code.hash(), &code.reveal()[..4])
        );
        assert_eq!(
            code.prefix().masked(),
            format!("{}-****-****", &code.reveal()[..4])
        );
        assert_ne!(code.reveal(), RoomCode::generate().reveal());
        assert_eq!(format!("{code:?}"), "***");
    }

    #[test]
    fn a_code_lives_for_a_minute_to_thirty_days_and_for_one_day_by_default() {
        let seconds = [SHORTEST_LIFE, DEFAULT_LIFE, LONGEST_LIFE].map(|life| life.as_secs());
        assert_eq!(seconds, [60, 86_400, 2_592_000]);
    }

    #[test]
    fn the_parser_tolerates_nothing() {
        for wrong in [
            "",
            "abcdefghjkmn",
            "ABCD-EFGH-JKMN",
            "abcd-efgh-jkm",
            "abcd-efgh-jkmnp",
            "abcd-efgh",
            "abcd-efgh-jkmn-",
            " abcd-efgh-jkmn",
            "abcd-efgh-jkmn\n",
            "abcd efgh jkmn",
            "abcd-efgh-jkm0",
            "abcd-efgh-jkmi",
            "abc-defgh-jkmn",
            "abcd-****-****",
        ] {
            assert!(wrong.parse::<RoomCode>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_prefix_is_a_whole_group() {
        for wrong in ["abc", "abcde", "abc0", "ab-d", ""] {
            assert!(wrong.parse::<RoomCodePrefix>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_code_is_usable_until_it_is_disabled_expired_or_used_up() {
        let at = Timestamp::from_millis;
        let code = RoomCodeRecord {
            id: CodeId::new(),
            project_id: ProjectId::new(),
            room: "a".parse().unwrap(),
            role: "guest".parse().unwrap(),
            prefix: "abcd".parse().unwrap(),
            identity: None,
            expires_at: at(10),
            max_uses: Some(2),
            uses: 1,
            disabled: false,
            created_at: at(0),
            updated_at: at(0),
        };
        assert!(code.usable(at(9)) && !code.usable(at(10)));
        assert!(
            !RoomCodeRecord {
                uses: 2,
                ..code.clone()
            }
            .usable(at(9))
        );
        assert!(
            RoomCodeRecord {
                uses: 2,
                max_uses: None,
                ..code.clone()
            }
            .usable(at(9))
        );
        assert!(
            !RoomCodeRecord {
                disabled: true,
                ..code
            }
            .usable(at(9))
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,20}|[a-z0-9-]{14}") {
            let _ = text.parse::<RoomCode>().map(|code| code.prefix());
            let _ = text.parse::<RoomCodePrefix>();
        }
    }
}
