//! Query parameters. Parsing is strict: unknown and repeated parameters are refused.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use conclave_model::Problem;
use conclave_model::page::PageRequest;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::parameters;
use crate::http::api::spec::ParameterDocs;

/// Paging parameters, as error messages list them.
const PAGE_PARAMETERS: [&str; 2] = ["limit", "offset"];

/// Type that is parsed from a query string.
pub trait FromQuery: Sized {
    /// Parses and checks the query string.
    ///
    /// # Errors
    /// 400 for the first parameter that is repeated, unknown or malformed.
    fn from_query(query: &str) -> Result<Self, Problem>;

    /// Describes the parameters.
    fn describe() -> ParameterDocs;
}

impl<T: DeserializeOwned + IntoParams> FromQuery for T {
    fn from_query(query: &str) -> Result<Self, Problem> {
        let given: Vec<_> = split(query)?.into_iter().collect();
        parameters::read(&given).map_err(|error| error.into_problem(&[]))
    }

    fn describe() -> ParameterDocs {
        ParameterDocs::query::<T>()
    }
}

/// Ignored query, for an operation that lists no 400.
#[derive(Debug, Clone, Copy)]
pub struct AnyQuery;

impl FromQuery for AnyQuery {
    fn from_query(_: &str) -> Result<Self, Problem> {
        Ok(Self)
    }

    fn describe() -> ParameterDocs {
        ParameterDocs::default()
    }
}

/// Query parameters that the contract does not have, on one of its operations. A request without them means what the contract defines.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct BeyondContract<T>(pub T);

impl<T: IntoParams> IntoParams for BeyondContract<T> {
    fn into_params(location: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut parameters = T::into_params(location);
        for parameter in &mut parameters {
            parameter
                .extensions
                .get_or_insert_default()
                .insert("x-extension".to_owned(), true.into());
        }
        parameters
    }
}

/// A list's query: `limit`, `offset`, and the filters `F`.
#[derive(Debug, Clone)]
pub struct Paged<F> {
    /// `limit` and `offset`, with defaults applied.
    pub page: PageRequest,
    /// The list's filters.
    pub filter: F,
}

impl<F: DeserializeOwned + IntoParams> FromQuery for Paged<F> {
    fn from_query(query: &str) -> Result<Self, Problem> {
        let mut given = split(query)?;
        let page = page(&mut given)?;
        let given: Vec<_> = given.into_iter().collect();
        let filter =
            parameters::read(&given).map_err(|error| error.into_problem(&PAGE_PARAMETERS))?;
        Ok(Self { page, filter })
    }

    fn describe() -> ParameterDocs {
        ParameterDocs::query::<F>().paged()
    }
}

/// Parameter values by name.
type QueryParameters<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

/// Splits a query string into parameters.
fn split(query: &str) -> Result<QueryParameters<'_>, Problem> {
    let mut given = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        // Refused, because parsers differ in which value counts.
        if given.contains_key(&name) {
            return Err(Problem::invalid(
                name.into_owned(),
                "the parameter must not be repeated",
            ));
        }
        given.insert(name, value);
    }
    Ok(given)
}

/// Removes `limit` and `offset` from the parameters and parses them.
fn page(given: &mut QueryParameters<'_>) -> Result<PageRequest, Problem> {
    let limit = whole_number(
        given,
        "limit",
        1,
        Some(PageRequest::MAX_LIMIT),
        PageRequest::DEFAULT_LIMIT,
    )?;
    // The contract sets no maximum. Beyond the database's largest integer there can be no row.
    let offset = whole_number(given, "offset", 0, None, 0)?;
    let offset = Some(offset).filter(|offset| *offset <= PageRequest::MAX_OFFSET);
    let offset = offset.ok_or_else(|| {
        Problem::invalid(
            "offset",
            format!("must be at most {}", PageRequest::MAX_OFFSET),
        )
    })?;
    Ok(PageRequest { limit, offset })
}

fn whole_number<N>(
    given: &mut QueryParameters<'_>,
    name: &'static str,
    from: N,
    to: Option<N>,
    default: N,
) -> Result<N, Problem>
where
    N: FromStr + PartialOrd + Display + Copy,
{
    // Removed, so that only the filters remain.
    let Some(text) = given.remove(name) else {
        return Ok(default);
    };
    // `parse` alone would also accept a leading plus sign.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text
        .parse()
        .ok()
        .filter(|n| digits && *n >= from && to.is_none_or(|to| *n <= to));
    let message = match to {
        None => format!("must be an integer of at least {from}"),
        Some(to) => format!("must be an integer from {from} to {to}"),
    };
    number.ok_or_else(|| Problem::invalid(name, message))
}

#[cfg(test)]
mod tests {
    use super::super::NoParams;
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, IntoParams)]
    #[serde(deny_unknown_fields)]
    struct Filter {
        #[param(inline)]
        room: Option<conclave_model::RoomName>,
        active: Option<bool>,
    }

    fn refused<T: FromQuery + std::fmt::Debug>(query: &str) -> Problem {
        T::from_query(query).unwrap_err()
    }

    #[test]
    fn a_page_is_held_to_its_range_and_has_its_defaults() {
        let page = |query: &str| Paged::<NoParams>::from_query(query).map(|paged| paged.page);
        assert_eq!(
            page(""),
            Ok(PageRequest {
                limit: 50,
                offset: 0
            })
        );
        assert_eq!(
            page("limit=200&offset=7"),
            Ok(PageRequest {
                limit: 200,
                offset: 7
            })
        );
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=201", "limit"),
            ("limit=", "limit"),
            ("limit=%2B1", "limit"),
            ("offset=-1", "offset"),
            ("offset=99999999999999999999", "offset"),
            ("offset=9223372036854775808", "offset"),
        ] {
            assert_eq!(
                page(query).unwrap_err().field.as_deref(),
                Some(field),
                "{query}"
            );
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused_by_name() {
        let unknown = refused::<Paged<NoParams>>("limit=1&colour=red");
        assert_eq!(unknown.field.as_deref(), Some("colour"));
        assert_eq!(
            unknown.message,
            "unknown query parameter; allowed: limit, offset"
        );
        assert_eq!(
            refused::<Paged<NoParams>>("limit=1&limit=2")
                .field
                .as_deref(),
            Some("limit")
        );
        assert_eq!(
            refused::<NoParams>("a=1").message,
            "this operation takes no query parameters"
        );
        let unknown = refused::<Paged<Filter>>("colour=red");
        assert_eq!(
            unknown.message,
            "unknown query parameter; allowed: limit, offset, room, active"
        );
    }

    #[test]
    fn a_filter_parses_as_its_type_and_says_what_is_allowed() {
        let read = Paged::<Filter>::from_query("room=a%2Db&active=false")
            .unwrap()
            .filter;
        assert_eq!(
            (read.room.unwrap().as_str(), read.active),
            ("a-b", Some(false))
        );
        let refused = refused::<Paged<Filter>>("active=yes");
        assert_eq!(
            (refused.field.as_deref(), &*refused.message),
            (Some("active"), "must be one of true, false")
        );
        let refused = self::refused::<Paged<Filter>>("room=a%20b");
        assert_eq!(
            (refused.field.as_deref(), refused.code.as_str()),
            (Some("room"), "invalid_room_name")
        );
    }

    proptest! {
        #[test]
        fn no_query_makes_it_panic(text in any::<String>()) {
            let _ = Paged::<Filter>::from_query(&text);
            let _ = NoParams::from_query(&text);
        }
    }
}
