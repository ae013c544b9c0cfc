//! Role change log: participant, role, time and caller.

use crate::event::ChangedBy;
use crate::participant::Participant;
use crate::{Identity, ParticipantSid, RoleChangeId, RoleName, RoomName, Timestamp};

/// Role change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChange {
    /// Record id.
    pub id: RoleChangeId,
    /// Room.
    pub room: RoomName,
    /// Participant whose role changed.
    pub participant_identity: Identity,
    /// Join during which the role changed.
    pub participant_sid: ParticipantSid,
    /// New role.
    pub role: RoleName,
    /// Previous role; `None` if the participant had none.
    pub previous_role: Option<RoleName>,
    /// Caller that made the change.
    pub changed_by: ChangedBy,
    /// Change time.
    pub created_at: Timestamp,
}

/// Role change result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChanged {
    /// Change record.
    pub change: RoleChange,
    /// Participant after the change, as the media plane reports it.
    pub participant: Participant,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ApiKeyPrefix;

    #[test]
    fn a_change_names_the_participant_the_key_or_the_operator_that_made_it() {
        let change = |changed_by| RoleChange {
            id: RoleChangeId::new(),
            room: "standup".parse().unwrap(),
            participant_identity: "alice".parse().unwrap(),
            participant_sid: "PA_1".parse().unwrap(),
            role: "host".parse().unwrap(),
            previous_role: None,
            changed_by,
            created_at: Timestamp::from_millis(0),
        };
        let (bob, prefix): (Identity, ApiKeyPrefix) =
            ("bob".parse().unwrap(), "vk_live_abcd".parse().unwrap());
        let by_participant = change(ChangedBy::Identity(bob.clone()));
        assert_eq!(
            (
                by_participant.changed_by.identity(),
                by_participant.changed_by.api_key_prefix()
            ),
            (Some(&bob), None)
        );
        let by_server = change(ChangedBy::ApiKey(prefix.clone()));
        assert_eq!(
            (
                by_server.changed_by.identity(),
                by_server.changed_by.api_key_prefix()
            ),
            (None, Some(prefix.as_str()))
        );
        let by_operator = change(ChangedBy::Operator);
        assert_eq!(
            (
                by_operator.changed_by.identity(),
                by_operator.changed_by.api_key_prefix()
            ),
            (None, Some("operator"))
        );
        assert!(
            ChangedBy::OPERATOR.parse::<ApiKeyPrefix>().is_err(),
            "no key is named like an operator"
        );
    }
}
