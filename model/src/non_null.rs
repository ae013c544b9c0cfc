//! Helpers for bodies, tokens and plans: fields that may be omitted but not null, and objects that must be objects.
//!
//! serde would parse an array as a struct, field by field; here, an array in place of an object is refused.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// For `deserialize_with`: an object that may be omitted, or null, which removes the stored one.
///
/// # Errors
/// The object's error, or an error for anything that is neither an object nor null.
pub fn removable_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    // serde calls this only for a present field.
    let sent = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(Some(sent.map(|Object(value)| value)))
}

/// For `deserialize_with`: a value that may be omitted but, if sent, must not be null.
///
/// # Errors
/// The value's error.
pub fn non_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    // serde calls this only for a present field, and `T` refuses null.
    T::deserialize(deserializer).map(Some)
}

/// The same for an object.
///
/// # Errors
/// The object's error, or an error for anything that is not an object.
pub fn non_null_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    object(deserializer).map(Some)
}

/// The same for a required field.
///
/// # Errors
/// As [`non_null_object`].
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// Struct that is parsed from an object only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    // The only `visit` method: serde's defaults reject everything else.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_from_an_object_and_from_nothing_else() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Size {
            width: u32,
        }
        let read = |json| serde_json::from_str::<Object<Size>>(json).map(|Object(size)| size.width);
        assert_eq!(read(r#"{"width":640}"#).unwrap(), 640);
        let refusal = read("[640]").unwrap_err().to_string();
        assert!(refusal.contains("expected an object"), "{refusal}");
    }
}
