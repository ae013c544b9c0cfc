//! Room codes: `xxxx-xxxx-xxxx`, short enough to be read out, exchanged for a room token without a credential. Only a
//! SHA-256 hash and the first four characters are kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::secret::{UNAMBIGUOUS, random_text};
use crate::{CodeId, Identity, ProjectId, RoleName, RoomName, Secret, Timestamp};

const GROUPS: usize = 3;
const GROUP_LEN: usize = 4;

/// What every code matches, for the description.
pub const PATTERN: &str = "^[a-hjkm-z2-9]{4}(-[a-hjkm-z2-9]{4}){2}$";

/// The shortest time a code can live.
pub const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// The longest time a code can live.
pub const LONGEST_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a code lives when its maker does not say.
pub const DEFAULT_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// A code as its holder sends it. Whoever has it may enter, so it is kept like a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RoomCode(Secret);

/// SHA-256 of a whole code: what is stored, looked up and counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoomCodeHash(pub [u8; 32]);

/// The first four characters of a code, by which people tell codes apart in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomCodePrefix(Box<str>);

/// A text that has not the shape of a code. It says no more, since neither may an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a room code")]
pub struct ParseRoomCodeError;

impl RoomCode {
    /// A fresh code.
    #[must_use]
    pub fn generate() -> Self {
        let groups = [(); GROUPS].map(|()| random_text(GROUP_LEN, UNAMBIGUOUS));
        Self(Secret::new(groups.join("-")))
    }

    /// The first four characters.
    #[must_use]
    pub fn prefix(&self) -> RoomCodePrefix {
        RoomCodePrefix(self.0.reveal()[..GROUP_LEN].into())
    }

    /// The hash that is stored.
    #[must_use]
    pub fn hash(&self) -> RoomCodeHash {
        RoomCodeHash(Sha256::digest(self.0.reveal()).into())
    }

    /// The code itself, for the one time it is shown.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl FromStr for RoomCode {
    type Err = ParseRoomCodeError;

    fn from_str(text: &str) -> Result<Self, ParseRoomCodeError> {
        let group = |group: &str| group.len() == GROUP_LEN && group.bytes().all(|b| UNAMBIGUOUS.contains(&b));
        let shaped = text.split('-').count() == GROUPS && text.split('-').all(group);
        if shaped { Ok(Self(Secret::new(text))) } else { Err(ParseRoomCodeError) }
    }
}

impl fmt::Debug for RoomCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl RoomCodePrefix {
    /// The prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The code as lists show it.
    #[must_use]
    pub fn masked(&self) -> String {
        format!("{}-****-****", self.0)
    }
}

impl FromStr for RoomCodePrefix {
    type Err = ParseRoomCodeError;

    fn from_str(text: &str) -> Result<Self, ParseRoomCodeError> {
        let shaped = text.len() == GROUP_LEN && text.bytes().all(|b| UNAMBIGUOUS.contains(&b));
        if shaped { Ok(Self(text.into())) } else { Err(ParseRoomCodeError) }
    }
}

/// What is kept of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomCodeRecord {
    /// The row.
    pub id: CodeId,
    /// Whose it is.
    pub project_id: ProjectId,
    /// The room it admits to.
    pub room: RoomName,
    /// The role it admits with.
    pub role: RoleName,
    /// The first four characters.
    pub prefix: RoomCodePrefix,
    /// When set, it always admits this identity.
    pub identity: Option<Identity>,
    /// From this instant on it admits nobody.
    pub expires_at: Timestamp,
    /// How often it can be exchanged; `None` is no cap.
    pub max_uses: Option<u32>,
    /// How often it was.
    pub uses: u32,
    /// Its project has taken it back.
    pub disabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, disabled or made.
    pub updated_at: Timestamp,
}

impl RoomCodeRecord {
    /// Whether it can be exchanged at `now`.
    #[must_use]
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
        assert_eq!((parsed.hash(), parsed.prefix().as_str()), (code.hash(), &code.reveal()[..4]));
        assert_eq!(code.prefix().masked(), format!("{}-****-****", &code.reveal()[..4]));
        assert_ne!(code.reveal(), RoomCode::generate().reveal());
        assert_eq!(format!("{code:?}"), "***");
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
        assert!(!RoomCodeRecord { uses: 2, ..code.clone() }.usable(at(9)));
        assert!(RoomCodeRecord { uses: 2, max_uses: None, ..code.clone() }.usable(at(9)));
        assert!(!RoomCodeRecord { disabled: true, ..code }.usable(at(9)));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,20}|[a-z0-9-]{14}") {
            let _ = text.parse::<RoomCode>().map(|code| code.prefix());
            let _ = text.parse::<RoomCodePrefix>();
        }
    }
}
