//! Metadata that a client sets for its own participant, by signalling or with its join: name, metadata and attributes.
//!
//! It is sent to every other client, and to later ones. So its size is limited, and so is its rate of change: a change
//! by a participant with much metadata counts as several (see [`ParticipantTexts::weight`]).

use std::collections::BTreeMap;

use conclave_model::participant::is_reserved_attribute;
use livekit_protocol as proto;

use crate::token::Claims;

/// Maximum length of a name in bytes, as in LiveKit.
const MAX_NAME: usize = 256;
/// Maximum size of metadata in bytes.
const MAX_METADATA: usize = 64 * 1024;
/// Maximum total size of attribute names and values in bytes, as in LiveKit.
const MAX_ATTRIBUTES: usize = 64 * 1024;
/// Size of a participant's metadata, in bytes, for which a change counts once more.
const BYTES_PER_CHANGE: usize = 8 * 1024;
/// Maximum size of own metadata in a refreshed token, in bytes. Clients send the token in a URL.
const MAX_IN_TOKEN: usize = 4 * 1024;

/// A participant's name, metadata and attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParticipantTexts {
    pub name: String,
    pub metadata: String,
    pub attributes: BTreeMap<String, String>,
}

/// A client's change of them. Empty strings change nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnMetadata {
    pub name: String,
    pub metadata: String,
    /// Changed attributes; others stay.
    pub attributes: BTreeMap<String, String>,
    /// Whether an empty value deletes its attribute, instead of changing nothing.
    pub deletes: bool,
}

/// Reason why a change is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OwnMetadataError {
    /// The role does not permit own metadata.
    #[error("the token does not permit changes of the participant's own metadata")]
    NotPermitted,
    /// Only the server may set attributes with this prefix.
    #[error("attributes with the prefix svc. are reserved for the server")]
    Reserved,
    /// A text is too long.
    #[error(
        "at most {MAX_NAME} bytes are allowed for the name, {MAX_METADATA} for metadata and {MAX_ATTRIBUTES} for all attributes"
    )]
    TooLong,
    /// The participant is gone.
    #[error("the participant has left")]
    Gone,
}

impl OwnMetadata {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty() && self.metadata.is_empty() && self.attributes.is_empty()
    }
}

/// Checks own metadata that a client sends with its join.
///
/// # Errors
/// See [`OwnMetadataError`].
pub(super) fn check_join(claims: &Claims, own: &OwnMetadata) -> Result<(), OwnMetadataError> {
    if own.is_empty() {
        // Most clients send none, and need no permission for that.
        return Ok(());
    }
    if !claims.grants.can_update_own_metadata {
        return Err(OwnMetadataError::NotPermitted);
    }
    let Claims {
        name,
        metadata,
        attributes,
        ..
    } = claims.clone();
    ParticipantTexts {
        name,
        metadata,
        attributes,
    }
    .with(own.clone())
    .map(drop)
}

impl From<proto::UpdateParticipantMetadata> for OwnMetadata {
    fn from(update: proto::UpdateParticipantMetadata) -> Self {
        Self {
            name: update.name,
            metadata: update.metadata,
            attributes: update.attributes.into_iter().collect(),
            // In LiveKit's signalling, an empty value deletes an attribute.
            deletes: true,
        }
    }
}

impl ParticipantTexts {
    /// Returns the texts after a change.
    ///
    /// # Errors
    /// If the change contains an attribute that only the server may set, or if the result is too long.
    pub fn with(&self, change: OwnMetadata) -> Result<Self, OwnMetadataError> {
        if change
            .attributes
            .keys()
            .any(|name| is_reserved_attribute(name))
        {
            // `svc.` attributes carry role and limits, which the server enforces.
            return Err(OwnMetadataError::Reserved);
        }
        // On a copy, so that a rejected change leaves nothing behind.
        let mut changed = self.clone();
        if !change.name.is_empty() {
            // An empty text means "unchanged" in the protocol, so a client cannot clear its name or metadata.
            changed.name = change.name;
        }
        if !change.metadata.is_empty() {
            changed.metadata = change.metadata;
        }
        for (name, value) in change.attributes {
            if !value.is_empty() {
                changed.attributes.insert(name, value);
            // A join cannot delete its token's attributes: an empty value changes nothing.
            } else if change.deletes {
                changed.attributes.remove(&name);
            }
        }
        // Checked after the merge: the limit applies to all attributes together, not to one change.
        if changed.is_too_long() {
            Err(OwnMetadataError::TooLong)
        } else {
            Ok(changed)
        }
    }

    fn is_too_long(&self) -> bool {
        self.name.len() > MAX_NAME
            || self.metadata.len() > MAX_METADATA
            || self.attribute_bytes() > MAX_ATTRIBUTES
    }

    fn attribute_bytes(&self) -> usize {
        self.attributes
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    fn bytes(&self) -> usize {
        self.name.len() + self.metadata.len() + self.attribute_bytes()
    }

    /// Returns the number of changes that a change by this participant counts as.
    pub fn weight(&self) -> u32 {
        // Proportional to size: each change sends all of it to every client in the room.
        u32::try_from(1 + self.bytes() / BYTES_PER_CHANGE).unwrap_or(u32::MAX)
    }

    /// Returns whether they fit into a refreshed token.
    pub fn fit_into_token(&self) -> bool {
        // Proxies and servers commonly limit a request's URL and headers to 8 KiB, and base64 adds a third.
        self.bytes() <= MAX_IN_TOKEN
    }

    /// Returns a token's texts with the attributes that the server has set since.
    pub fn with_reserved(&self, now: &BTreeMap<String, String>) -> Self {
        // A refreshed token without the current role's attribute would restore the old role.
        // The token's own attributes, without what the server had set at that time.
        let own = self
            .attributes
            .iter()
            .filter(|(name, _)| !is_reserved_attribute(name));
        let reserved = now.iter().filter(|(name, _)| is_reserved_attribute(name));
        let attributes = own
            .chain(reserved)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Self {
            attributes,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn known() -> ParticipantTexts {
        ParticipantTexts {
            name: "Alice".into(),
            metadata: "{}".into(),
            attributes: attributes(&[("svc.role", "host"), ("hand", "up"), ("mood", "good")]),
        }
    }

    fn change(pairs: &[(&str, &str)]) -> OwnMetadata {
        OwnMetadata {
            attributes: attributes(pairs),
            deletes: true,
            ..OwnMetadata::default()
        }
    }

    #[test]
    fn what_is_empty_stays_and_an_empty_value_deletes_its_attribute() {
        let changed = known()
            .with(change(&[("hand", ""), ("seat", "4"), ("none", "")]))
            .unwrap();
        let attributes = attributes(&[("svc.role", "host"), ("mood", "good"), ("seat", "4")]);
        assert_eq!(
            changed,
            ParticipantTexts {
                attributes,
                ..known()
            }
        );
        let named = OwnMetadata {
            name: "Al".into(),
            metadata: "[]".into(),
            ..OwnMetadata::default()
        };
        let changed = known().with(named).unwrap();
        assert_eq!(
            (changed.name.as_str(), changed.metadata.as_str()),
            ("Al", "[]")
        );
        assert_eq!(changed.attributes, known().attributes);
    }

    #[test]
    fn a_join_deletes_no_attribute() {
        let changed = known()
            .with(OwnMetadata {
                deletes: false,
                ..change(&[("hand", ""), ("mood", "bad")])
            })
            .unwrap();
        assert_eq!(
            (
                &changed.attributes["hand"][..],
                &changed.attributes["mood"][..]
            ),
            ("up", "bad")
        );
    }

    #[test]
    fn an_attribute_of_the_server_is_neither_set_nor_deleted() {
        for name in ["svc.role", "svc.publish.max_kbps", "svc.", "svc.anything"] {
            for value in ["owner", ""] {
                assert_eq!(
                    known().with(change(&[("hand", "down"), (name, value)])),
                    Err(OwnMetadataError::Reserved)
                );
            }
        }
        assert!(
            known()
                .with(change(&[
                    ("svc", "is not reserved"),
                    // LiveKit's agents publish their state in such attributes.
                    ("lk.agent.state", "speaking")
                ]))
                .is_ok()
        );
    }

    #[test]
    fn each_text_is_as_long_as_it_may_be_and_no_longer() {
        let of = |name: usize, metadata: usize| OwnMetadata {
            name: "n".repeat(name),
            metadata: "m".repeat(metadata),
            ..OwnMetadata::default()
        };
        assert!(known().with(of(MAX_NAME, MAX_METADATA)).is_ok());
        assert_eq!(
            known().with(of(MAX_NAME + 1, 0)),
            Err(OwnMetadataError::TooLong)
        );
        assert_eq!(
            known().with(of(0, MAX_METADATA + 1)),
            Err(OwnMetadataError::TooLong)
        );
        // Leaves no room besides the one byte of the name `a`.
        let most = MAX_ATTRIBUTES - known().attribute_bytes() - 1;
        let full = known().with(change(&[("a", &"v".repeat(most))])).unwrap();
        assert_eq!(
            full.with(change(&[("b", "1")])),
            Err(OwnMetadataError::TooLong),
            "all attributes count together"
        );
        assert!(full.with(change(&[("a", ""), ("b", "1")])).is_ok());
    }

    #[test]
    fn a_participant_that_says_much_makes_fewer_changes() {
        assert_eq!(known().weight(), 1);
        let much = known()
            .with(OwnMetadata {
                metadata: "m".repeat(MAX_METADATA),
                ..OwnMetadata::default()
            })
            .unwrap();
        assert_eq!(
            (
                much.weight(),
                much.fit_into_token(),
                known().fit_into_token()
            ),
            (9, false, true)
        );
    }

    proptest! {
        /// Proves S-44.
        #[test]
        fn no_change_touches_the_attributes_of_the_server(
            changes in prop::collection::vec(prop::collection::btree_map("(svc\\.)?[a-c]{1,2}", "[x-z]{0,2}", 0..4), 0..8),
            deletes: bool,
        ) {
            let mut texts = known();
            for attributes in changes {
                let is_reserved = attributes.keys().any(|name| is_reserved_attribute(name));
                let change = OwnMetadata { attributes, deletes, ..OwnMetadata::default() };
                match texts.with(change) {
                    Ok(changed) => texts = changed,
                    Err(error) => prop_assert!(is_reserved && error == OwnMetadataError::Reserved),
                }
                let reserved = texts.attributes.iter().filter(|(name, _)| is_reserved_attribute(name));
                prop_assert_eq!(reserved.collect::<Vec<_>>(), [(&"svc.role".to_owned(), &"host".to_owned())]);
                prop_assert!(texts.attributes.values().all(|value| !value.is_empty()));
                prop_assert_eq!(texts.with_reserved(&texts.attributes), texts.clone());
            }
        }
    }
}
