//! What an operation reads from a request: path, query and body, each a type that `serde` reads and `utoipa` describes.
//!
//! The frame parses all three before it checks a permission, so a handler never sees an unchecked request. An operation that
//! takes no parameters says so with [`NoParams`], one without a body with [`NoBody`]; both refuse what is sent all the same.

mod base64;
pub mod body;
mod describe;
mod error;
mod parameters;
pub mod path;
pub mod query;

pub use base64::Base64Bytes;
pub use body::{AnyBody, Checked, FromBody, NoBody, OptionalBody, Validate};
pub use describe::{BodyDoc, ParameterDocs};
pub use error::refusal_at;
pub use query::{AnyQuery, FromQuery, Paged};

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

/// The parsed parts of one request.
#[derive(Debug, Clone)]
pub struct Input<P, Q, B> {
    /// The path parameters.
    pub path: P,
    /// The query parameters.
    pub query: Q,
    /// The parsed and checked body.
    pub body: B,
}

/// No path parameters, or no query parameters: any that is sent is refused.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// For `deserialize_with`: a value that parses from a text, of a type that is not read otherwise.
///
/// # Errors
/// The message of the type's own parser.
pub fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
