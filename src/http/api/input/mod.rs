//! An operation's input: path, query and body, each a type that `serde` parses and `utoipa` describes.
//!
//! All three are parsed before the permission check, so a handler never sees an unchecked request. An operation without parameters
//! declares [`NoParams`], an operation without a body [`NoBody`]; both refuse unexpected input.
//!
//! - [`parameters`]: the source for path and query, their parsing by serde, and path types that several resources share.
//! - [`query`]: query parameters, with pages.
//! - [`body`]: JSON bodies.
//! - [`error`]: their refusals, which name the parameter or field.

pub mod body;
mod error;
pub mod parameters;
pub mod query;

pub use body::{AnyBody, Base64Bytes, Checked, FromBody, NoBody, OptionalBody, Validate};
pub use error::{pattern_code, refusal_at};
pub use query::{AnyQuery, BeyondContract, FromQuery, Paged};

use std::fmt::Display;
use std::str::FromStr;

use conclave_model::Problem;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::spec::{BodyDoc, ParameterDocs};
use parameters::RequestSource;

/// A request's parsed parts.
#[derive(Debug, Clone)]
pub struct Input<P, Q, B> {
    /// Path parameters.
    pub path: P,
    /// Query parameters.
    pub query: Q,
    /// Parsed and checked body.
    pub body: B,
}

/// Type that a handler reads from a request.
pub trait FromRequest: Sized + 'static {
    /// Parses a request's parts. An unparsable path is refused with `malformed_path`, if given.
    ///
    /// # Errors
    /// 400 for the first part that does not parse.
    fn from_request(
        source: &RequestSource,
        body: &[u8],
        malformed_path: Option<fn() -> Problem>,
    ) -> Result<Self, Problem>;

    /// Describes path and query parameters, and the body.
    fn describe() -> (ParameterDocs, Option<BodyDoc>);
}

impl<P, Q, B> FromRequest for Input<P, Q, B>
where
    P: DeserializeOwned + IntoParams + 'static,
    Q: FromQuery + 'static,
    B: FromBody + 'static,
{
    fn from_request(
        source: &RequestSource,
        body: &[u8],
        malformed_path: Option<fn() -> Problem>,
    ) -> Result<Self, Problem> {
        // The order decides which error the client gets: path, query, body.
        let path = parameters::read_path(source)
            .map_err(|problem| malformed_path.map_or(problem, |malformed| malformed()))?;
        Ok(Self {
            path,
            query: Q::from_query(source.query_string())?,
            body: B::from_body(body)?,
        })
    }

    fn describe() -> (ParameterDocs, Option<BodyDoc>) {
        let mut parameters = ParameterDocs::path::<P>();
        parameters.0.extend(Q::describe().0);
        (parameters, B::describe())
    }
}

/// No path parameters, or no query parameters: any parameter is refused.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// For `deserialize_with`: parses a value by its `FromStr`, for a type without `Deserialize`.
///
/// # Errors
/// The parser's message.
pub fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}
