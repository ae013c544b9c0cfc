//! Path and query parameters as serde reads them: a map from names to texts, whose values parse as the fields' types.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::ParameterError;

/// A parameter's name and its decoded text.
pub(super) type Parameter<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Reads a type from parameters; each name occurs once.
pub(super) fn read<T: DeserializeOwned>(given: &[Parameter<'_>]) -> Result<T, ParameterError> {
    T::deserialize(Parameters {
        given: given.iter(),
        value: None,
    })
}

/// The parameters that are still to be read, and the one whose name was read last.
struct Parameters<'a> {
    given: std::slice::Iter<'a, Parameter<'a>>,
    value: Option<&'a Parameter<'a>>,
}

impl<'de> MapAccess<'de> for Parameters<'_> {
    type Error = ParameterError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ParameterError> {
        self.value = self.given.next();
        match self.value {
            None => Ok(None),
            Some((name, _)) => seed.deserialize(StrDeserializer::new(name)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ParameterError> {
        // serde asks for a value after its key only.
        let Some((name, text)) = self.value.take() else {
            return Err(serde::de::Error::custom("no value"));
        };
        seed.deserialize(Value(text))
            .map_err(|error| error.at(name))
    }
}

impl<'de> Deserializer<'de> for Parameters<'_> {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The text of one parameter.
struct Value<'a>(&'a str);

impl Value<'_> {
    fn parse<T: FromStr>(&self, allowed: impl Display) -> Result<T, ParameterError> {
        self.0
            .parse()
            .map_err(|_| serde::de::Error::custom(format_args!("must be {allowed}")))
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_bool(self.parse("one of true, false")?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_u32(self.parse(format_args!("an integer from 0 to {}", u32::MAX))?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        let text: StrDeserializer<'_, ParameterError> = self.0.into_deserializer();
        visitor.visit_enum(text)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}
