//! What an operation reads from a request: path, query and body, each a type that `serde` reads and `utoipa` describes.
//!
//! The frame parses all three before it checks a permission, so a handler never sees an unchecked request. An operation that
//! takes no parameters says so with [`NoParams`], one without a body with [`NoBody`]; both refuse what is sent all the same.
//!
//! - [`parameters`]: where path and query come from, how serde reads them, and the paths that several resources share.
//! - [`query`]: query parameters, with pages.
//! - [`body`]: JSON bodies.
//! - [`error`]: their refusals, which say where.

pub mod body;
mod error;
pub mod parameters;
pub mod query;

pub use body::{AnyBody, Base64Bytes, Checked, FromBody, NoBody, OptionalBody, Validate};
pub use error::{pattern_code, refusal_at};
pub use query::{AnyQuery, FromQuery, Paged};

use std::fmt::Display;
use std::str::FromStr;

use conclave_model::Problem;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::spec::{BodyDoc, ParameterDocs};
use parameters::RequestSource;

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

/// What a handler reads from a request.
pub trait FromRequest: Sized + 'static {
    /// Parses the parts of a request. A path that does not parse is refused with `malformed_path`, if that is given.
    ///
    /// # Errors
    /// 400 at the first part that does not parse.
    fn from_request(
        source: &RequestSource,
        body: &[u8],
        malformed_path: Option<fn() -> Problem>,
    ) -> Result<Self, Problem>;

    /// Describes the parameters of the path and the query, and the body.
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

/// No path parameters, or no query parameters: any that is sent is refused.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// For `deserialize_with`: a value that parses from a text, of a type that is not read otherwise.
///
/// # Errors
/// The message of the type's own parser.
pub fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}
