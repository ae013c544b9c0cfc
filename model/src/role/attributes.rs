//! Attributes of participants at their join, by role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::participant::is_reserved_attribute;

/// Maximum number of attributes per role.
// 16 × (64 + 256) ASCII characters take about 7 KB in a token; nginx, for one, accepts request lines of 8 KB by default.
const MOST: usize = 16;
/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 64;
/// Maximum length of a value, in characters.
const LONGEST_VALUE: usize = 256;

/// Attributes by name. The limits let all of them fit into a token, which is sent in a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<String, AttributeValue>",
    into = "BTreeMap<String, String>"
)]
pub struct RoleAttributes(BTreeMap<String, AttributeValue>);

/// Value of an attribute. It is checked while it is parsed, so that the error names the attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttributeValue(String);

impl TryFrom<String> for AttributeValue {
    type Error = RoleAttributesError;

    fn try_from(value: String) -> Result<Self, RoleAttributesError> {
        let is_valid =
            // A database may end a text at U+0000.
            (1..=LONGEST_VALUE).contains(&value.chars().count()) && !value.contains('\0');
        if is_valid {
            Ok(Self(value))
        } else {
            Err(RoleAttributesError::Value)
        }
    }
}

impl From<AttributeValue> for String {
    fn from(value: AttributeValue) -> Self {
        value.0
    }
}

/// The attributes are not allowed for a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoleAttributesError {
    /// Too many attributes.
    #[error("must be at most {MOST} attributes")]
    TooMany,
    /// A name has a wrong length or wrong characters.
    #[error(
        "names must be 1 to {LONGEST_NAME} characters out of letters, digits, '_', '.' and '-'"
    )]
    Name,
    /// Only the server sets attributes with this name.
    #[error("names must not start with svc.")]
    Reserved,
    /// A value has a wrong length, or contains U+0000.
    #[error("values must be 1 to {LONGEST_VALUE} characters without U+0000")]
    Value,
}

impl RoleAttributes {
    /// Returns whether there are no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, AttributeValue>> for RoleAttributes {
    type Error = RoleAttributesError;

    fn try_from(attributes: BTreeMap<String, AttributeValue>) -> Result<Self, RoleAttributesError> {
        if attributes.len() > MOST {
            return Err(RoleAttributesError::TooMany);
        }
        for name in attributes.keys() {
            // `svc.` belongs to the server: a role could otherwise claim another role (S-44).
            if is_reserved_attribute(name) {
                return Err(RoleAttributesError::Reserved);
            }
            let is_allowed =
                |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
            if !(1..=LONGEST_NAME).contains(&name.len()) || !name.chars().all(is_allowed) {
                return Err(RoleAttributesError::Name);
            }
        }
        Ok(Self(attributes))
    }
}

impl From<RoleAttributes> for BTreeMap<String, String> {
    fn from(attributes: RoleAttributes) -> Self {
        attributes
            .0
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect()
    }
}

impl utoipa::PartialSchema for RoleAttributes {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        // The parser's rules, so that generated clients check alike.
        let value = text()
            .min_length(Some(1))
            .max_length(Some(LONGEST_VALUE))
            .pattern(Some(r"^[^\u0000]*$"));
        let name = text()
            .min_length(Some(1))
            .max_length(Some(LONGEST_NAME))
            .pattern(Some(r"^[a-zA-Z0-9_.-]{1,64}$"));
        let attributes = ObjectBuilder::new()
            .schema_type(Type::Object)
            .additional_properties(Some(value));
        attributes
            .property_names(Some(name))
            .max_properties(Some(MOST))
            .into()
    }
}

impl utoipa::ToSchema for RoleAttributes {}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Result<RoleAttributes, RoleAttributesError> {
        let pair = |(name, value): &(&str, &str)| {
            Ok((
                (*name).to_owned(),
                AttributeValue::try_from((*value).to_owned())?,
            ))
        };
        pairs
            .iter()
            .map(pair)
            .collect::<Result<BTreeMap<_, _>, _>>()?
            .try_into()
    }

    #[test]
    fn names_and_values_have_bounded_lengths_and_none_is_of_the_server() {
        let (name, value) = ("n".repeat(64), "é".repeat(256));
        assert!(
            attributes(&[
                (&name, &value),
                ("lk.a-b_c", "1"),
                ("svc", "1"),
                ("svcx.role", "1")
            ])
            .is_ok()
        );
        for (name, value, error) in [
            ("", "1", RoleAttributesError::Name),
            (&*format!("{name}n"), "1", RoleAttributesError::Name),
            ("a b", "1", RoleAttributesError::Name),
            ("svc.role", "host", RoleAttributesError::Reserved),
            ("a", "", RoleAttributesError::Value),
            ("a", &*format!("{value}é"), RoleAttributesError::Value),
            ("a", "\0", RoleAttributesError::Value),
        ] {
            assert_eq!(attributes(&[(name, value)]), Err(error), "{name}");
        }
    }

    #[test]
    fn a_role_has_a_bounded_number() {
        let many = |count: usize| {
            (0..count)
                .map(|at| (format!("a{at}"), AttributeValue("1".to_owned())))
                .collect::<BTreeMap<_, _>>()
        };
        assert!(RoleAttributes::try_from(many(16)).is_ok());
        assert_eq!(
            RoleAttributes::try_from(many(17)),
            Err(RoleAttributesError::TooMany)
        );
    }
}
