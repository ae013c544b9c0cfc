//! Query parameters, strictly: each once, none unknown.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use conclave_model::page::PageRequest;
use url::form_urlencoded;

use super::problem::Problem;

/// The parameters of one request. Take the known ones, then [`Query::finish`].
pub struct Query {
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Query {
    /// Splits a query string.
    ///
    /// # Errors
    /// A parameter that is given twice.
    pub fn parse(query: &str) -> Result<Self, Problem> {
        let mut given = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let name = name.into_owned();
            if given.insert(name.clone(), value.into_owned()).is_some() {
                return Err(Problem::invalid(name, "the parameter is given twice"));
            }
        }
        Ok(Self { given, known: Vec::new() })
    }

    /// Takes a parameter as text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.given.remove(name)
    }

    /// Takes a parameter that parses; the parser's error says what is allowed.
    ///
    /// # Errors
    /// 400 `invalid_request` at the parameter.
    pub fn parsed<T>(&mut self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        let parse = |text: String| text.parse().map_err(|error: T::Err| Problem::invalid(name, error.to_string()));
        self.text(name).map(parse).transpose()
    }

    /// Takes a parameter out of a set of words.
    ///
    /// # Errors
    /// 400 `invalid_request` at the parameter, with the words.
    pub fn word<T>(
        &mut self,
        name: &'static str,
        read: fn(&str) -> Option<T>,
        words: &'static str,
    ) -> Result<Option<T>, Problem> {
        let parse = |text: String| read(&text).ok_or_else(|| Problem::invalid(name, format!("must be one of {words}")));
        self.text(name).map(parse).transpose()
    }

    /// Takes `limit` and `offset`.
    ///
    /// # Errors
    /// 400 `invalid_request` at the one that is out of range.
    pub fn page(&mut self) -> Result<PageRequest, Problem> {
        let limit = self.whole_number("limit", 1, Some(PageRequest::MAX_LIMIT), PageRequest::DEFAULT_LIMIT)?;
        let offset = self.whole_number("offset", 0, None, 0)?;
        let offset = Some(offset).filter(|offset| *offset <= PageRequest::MAX_OFFSET);
        let offset = offset.ok_or_else(|| Problem::invalid("offset", "is larger than any list"))?;
        Ok(PageRequest { limit, offset })
    }

    fn whole_number<N>(&mut self, name: &'static str, from: N, to: Option<N>, default: N) -> Result<N, Problem>
    where
        N: FromStr + PartialOrd + Display + Copy,
    {
        let Some(text) = self.text(name) else { return Ok(default) };
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|n| digits && *n >= from && to.is_none_or(|to| *n <= to));
        let message = match to {
            None => format!("must be an integer from {from} on"),
            Some(to) => format!("must be an integer from {from} to {to}"),
        };
        number.ok_or_else(|| Problem::invalid(name, message))
    }

    /// Refuses what nobody took.
    ///
    /// # Errors
    /// 400 `invalid_request` at the first unknown parameter.
    pub fn finish(self) -> Result<(), Problem> {
        match self.given.into_keys().next() {
            None => Ok(()),
            Some(name) if self.known.is_empty() => Err(Problem::invalid(name, "this call takes no query parameters")),
            Some(name) => {
                let message = format!("unknown query parameter; known are {}", self.known.join(", "));
                Err(Problem::invalid(name, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_is_held_to_its_range_and_has_its_defaults() {
        let page = |query: &str| Query::parse(query).and_then(|mut q| q.page());
        assert_eq!(page(""), Ok(PageRequest { limit: 50, offset: 0 }));
        assert_eq!(page("limit=200&offset=7"), Ok(PageRequest { limit: 200, offset: 7 }));
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=201", "limit"),
            ("limit=", "limit"),
            ("limit=%2B1", "limit"),
            ("offset=-1", "offset"),
            ("offset=99999999999999999999", "offset"),
            ("offset=9223372036854775808", "offset"),
        ] {
            assert_eq!(page(query).unwrap_err().field.as_deref(), Some(field), "{query}");
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused_by_name() {
        let mut query = Query::parse("limit=1&colour=red").unwrap();
        query.page().unwrap();
        assert_eq!(query.finish().unwrap_err().field.as_deref(), Some("colour"));
        assert_eq!(Query::parse("limit=1&limit=2").err().unwrap().field.as_deref(), Some("limit"));
    }

    proptest! {
        #[test]
        fn no_query_makes_it_panic(text in any::<String>()) {
            if let Ok(mut query) = Query::parse(&text) {
                let _ = query.page();
                let _ = query.finish();
            }
        }
    }
}
