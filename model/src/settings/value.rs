//! Parsing, display, checks and descriptions of settings, by their type. Each field's `serde(with)` names [`serialize`] and
//! [`deserialize`].

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::{InvalidSetting, Rule, TextSetting};

/// Type of a setting: a number, a flag, an enum's word, a [`TextSetting`], an optional value, or a list.
pub trait SettingValue: Sized {
    /// Whether an empty string leaves the setting unset, since Compose files turn an unset variable into an empty one.
    const IS_OPTIONAL: bool = false;

    /// Serializes the value as in the file; a secret as `***`.
    ///
    /// # Errors
    /// The serializer's error.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Parses the value.
    ///
    /// # Errors
    /// If the value has another type, or is malformed.
    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;

    /// Returns the type's JSON schema.
    fn schema() -> Value;

    /// Checks the value.
    ///
    /// # Errors
    /// If the rule does not allow the value.
    fn check(&self, rule: &Rule) -> Result<(), InvalidSetting>;
}

/// Serializes a setting.
///
/// # Errors
/// The serializer's error.
pub fn serialize<T: SettingValue, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.serialize(to)
}

/// Parses a setting.
///
/// # Errors
/// If the value has another type, or is malformed.
pub fn deserialize<'de, T: SettingValue, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::deserialize(from)
}

/// Implements [`SettingValue`] for a type that serde handles as it is, with a schema and a check of `self` by a rule.
#[macro_export]
macro_rules! plain_setting {
    ($type:ty, $schema:expr, |$value:ident, $rule:pat_param| $check:expr) => {
        impl $crate::settings::SettingValue for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, to)
            }

            fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(from)
            }

            fn schema() -> serde_json::Value {
                $schema
            }

            fn check(
                &self,
                $rule: &$crate::settings::Rule,
            ) -> Result<(), $crate::settings::InvalidSetting> {
                let $value = self;
                $check
            }
        }
    };
}

plain_setting!(bool, json!({"type": "boolean"}), |_value, _| Ok(()));
plain_setting!(u8, whole(u8::MAX.into()), |value, rule| rule
    .check_number((*value).into()));
plain_setting!(u16, whole(u16::MAX.into()), |value, rule| rule
    .check_number((*value).into()));
plain_setting!(u32, whole(u32::MAX.into()), |value, rule| rule
    .check_number((*value).into()));
plain_setting!(
    usize,
    json!({"type": "integer", "minimum": 0}),
    |value, rule| rule.check_number(u64::try_from(*value).unwrap_or(u64::MAX))
);

fn whole(max: u64) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": max})
}

impl<T: TextSetting> SettingValue for T {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Text(self).serialize(to)
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Text::deserialize(from).map(|text| text.0)
    }

    fn schema() -> Value {
        let mut schema = json!({"type": "string"});
        if let Some(pattern) = T::PATTERN {
            schema["pattern"] = pattern.into();
        }
        if T::IS_SECRET {
            schema["writeOnly"] = true.into();
        }
        schema
    }

    fn check(&self, rule: &Rule) -> Result<(), InvalidSetting> {
        TextSetting::check(self, rule)
    }
}

impl<T: TextSetting> SettingValue for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Text).serialize(to)
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::<Text<Unset<T>>>::deserialize(from)?.and_then(|text| text.0.0))
    }

    fn schema() -> Value {
        T::schema()
    }

    fn check(&self, rule: &Rule) -> Result<(), InvalidSetting> {
        self.as_ref()
            .map_or(Ok(()), |value| TextSetting::check(value, rule))
    }
}

impl<T: TextSetting> SettingValue for Vec<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Text))
    }

    /// Elements are parsed one by one, so that an error names the index of the invalid one.
    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Vec::<Text<T>>::deserialize(from)?
            .into_iter()
            .map(|text| text.0)
            .collect())
    }

    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }

    fn check(&self, rule: &Rule) -> Result<(), InvalidSetting> {
        // The list as a whole first, then its elements.
        rule.check_length(self.len())?;
        self.iter().enumerate().try_for_each(|(index, value)| {
            TextSetting::check(value, rule).map_err(|invalid| invalid.at(index))
        })
    }
}

/// Path of a key file. An empty path means no key, while an empty text leaves other settings unset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFile(pub String);

plain_setting!(Option<KeyFile>, json!({"type": "string"}), |_value, _| Ok(
    ()
));

impl From<&str> for KeyFile {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

/// Adapts a [`TextSetting`] to serde.
struct Text<T>(T);

/// Text, or an empty string for none.
struct Unset<T>(Option<T>);

/// Types that [`Text`] can contain.
trait FromText: Sized {
    const EXPECTED: &'static str;

    fn from_text(text: &str) -> Result<Self, String>;
}

impl<T: TextSetting> FromText for T {
    const EXPECTED: &'static str = <T as TextSetting>::EXPECTED;

    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

// Only an empty text is unset; a blank one is parsed, and usually refused.
impl<T: TextSetting> FromText for Unset<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Ok(Self(None))
        } else {
            T::parse(text).map(|value| Self(Some(value)))
        }
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
        // figment adds the setting's path to the message.
        T::from_text(text).map(Text).map_err(E::custom)
    }
}

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor(PhantomData))
    }
}

impl<T: TextSetting> Serialize for Text<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.format())
    }
}
