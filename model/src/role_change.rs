//! The log of role changes: who got which role, when, and by whom.

use crate::event::ChangedBy;
use crate::participant::Participant;
use crate::{Identity, ParticipantSid, RoleChangeId, RoleName, RoomName, Timestamp};

/// A change of a participant's role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChange {
    /// The id of the record.
    pub id: RoleChangeId,
    /// The room of the participant.
    pub room: RoomName,
    /// The participant whose role changed.
    pub participant_identity: Identity,
    /// The join during which the role changed.
    pub participant_sid: ParticipantSid,
    /// The new role.
    pub role: RoleName,
    /// The role before; `None` if the participant had none.
    pub previous_role: Option<RoleName>,
    /// The caller that made the change.
    pub changed_by: ChangedBy,
    /// The instant of the change.
    pub created_at: Timestamp,
}

/// The result of a role change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChanged {
    /// The record of the change.
    pub change: RoleChange,
    /// The participant after the change, as the media plane reports it.
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
