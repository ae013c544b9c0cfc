//! Path and query parameters: their source ([`RequestSource`]), and their parsing by serde, as a map from names to texts that parse as
//! the fields' types. Also path types that several resources share.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use actix_web::HttpRequest;
use conclave_model::{Identity, Problem, RoomName, TemplateId};
use percent_encoding::percent_decode_str;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use utoipa::IntoParams;

use super::error::ParameterError;

/// A parameter's name and decoded text.
pub(super) type Parameter<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Parses a type from parameters. Each name may occur once.
pub(super) fn read<T: DeserializeOwned>(given: &[Parameter<'_>]) -> Result<T, ParameterError> {
    T::deserialize(Parameters {
        given: given.iter(),
        value: None,
    })
}

/// Parameters to read, and the parameter whose value follows.
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
        // serde requests a value only after its key.
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

/// A parameter's decoded text.
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
        // A parameter without text is present, too: absent ones are not in the map.
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
        // serde's own `bool` and integers do not parse text.
        visitor.visit_bool(self.parse("one of true, false")?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        // Besides `u64`, the only integer type among the parameters; another one would get a text and fail.
        visitor.visit_u32(self.parse(format_args!("an integer from 0 to {}", u32::MAX))?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_u64(self.parse(format_args!("an integer from 0 to {}", u64::MAX))?)
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
        // Other types get the text, which their own `Deserialize` parses.
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Room path.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct RoomPath {
    /// The room's name.
    #[param(inline)]
    pub name: RoomName,
}

/// Participant path.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct ParticipantPath {
    /// The room's name.
    #[param(inline)]
    pub name: RoomName,
    /// The participant's identity.
    #[param(inline)]
    pub identity: Identity,
}

/// Template path.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct TemplatePath {
    /// The template's id.
    #[param(inline)]
    pub id: TemplateId,
}

/// Parses a request's path parameters.
///
/// # Errors
/// 400 for the first parameter that does not parse.
pub fn read_path<P: DeserializeOwned>(source: &RequestSource) -> Result<P, Problem> {
    read(&source.path_parameters()).map_err(|error| error.into_problem(&[]))
}

/// Returns a path parameter, decoded.
pub fn segment(request: &HttpRequest, name: &str) -> String {
    decode_segment(request.match_info().query(name)).into_owned()
}

/// Source for an operation's path and query parameters.
pub enum RequestSource {
    /// Request at the API listener.
    Http {
        /// HTTP request.
        request: HttpRequest,
        /// The operation's path pattern, with parameters in braces.
        pattern: &'static str,
    },
    /// Call by the console, which names the parameters.
    Console {
        /// Path parameters by name.
        path: Vec<(&'static str, String)>,
        /// Query string.
        query: String,
        /// WebSocket URL at which the operator's browser reaches the media plane, if it depends on the request.
        media_url: Option<String>,
    },
}

impl RequestSource {
    /// Returns the path parameters, decoded, by name.
    pub fn path_parameters(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        match self {
            // Split again, because the path tree keeps no match with the request (`routes`).
            Self::Http { request, pattern } => parameters(pattern, request)
                .map(|(name, raw)| (name.into(), decode_segment(raw)))
                .collect(),
            Self::Console { path, .. } => path
                .iter()
                .map(|(name, value)| ((*name).into(), value.as_str().into()))
                .collect(),
        }
    }

    /// Returns the query string.
    pub fn query_string(&self) -> &str {
        match self {
            Self::Http { request, .. } => request.query_string(),
            Self::Console { query, .. } => query,
        }
    }

    /// Returns the HTTP request; `None` for a call by the console.
    pub const fn http(&self) -> Option<&HttpRequest> {
        match self {
            Self::Http { request, .. } => Some(request),
            Self::Console { .. } => None,
        }
    }
}

/// Returns the parameters in a request's path, by name, not decoded.
fn parameters<'a>(
    pattern: &'static str,
    request: &'a HttpRequest,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    // Splitting before decoding keeps `%2F` inside its parameter.
    let segments = request.match_info().as_str().split('/');
    let names = pattern.split('/').map(|part| {
        part.strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
    });
    names
        .zip(segments)
        .filter_map(|(name, segment)| Some((name?, segment)))
}

/// Returns a parameter in a request's path, not decoded.
pub fn parameter<'a>(
    pattern: &'static str,
    request: &'a HttpRequest,
    name: &str,
) -> Option<&'a str> {
    parameters(pattern, request).find_map(|(found, raw)| (found == name).then_some(raw))
}

/// Decodes a raw path parameter.
pub fn decode_segment(raw: &str) -> Cow<'_, str> {
    // Invalid UTF-8 becomes U+FFFD, which no id's pattern accepts, so such a path is refused or finds nothing.
    percent_decode_str(raw).decode_utf8_lossy()
}
