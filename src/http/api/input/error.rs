//! The refusal of a parameter or a field, as an error response.

use std::fmt::{self, Display};

use conclave_model::ids::ParseIdError;
use conclave_model::{ErrorCode, Identity, Problem, RoomName};
use serde::de;

/// The code with which a text outside a pattern is refused, wherever it is sent, and what is allowed.
fn pattern_refusal(pattern: &str) -> Option<(ErrorCode, &'static str)> {
    match pattern {
        RoomName::PATTERN => Some((
            ErrorCode::InvalidRoomName,
            "a room name has 1 to 128 characters out of a-z, A-Z, 0-9, _ and -",
        )),
        Identity::PATTERN => Some((
            ErrorCode::InvalidIdentity,
            "an identity has 1 to 128 characters out of a-z, A-Z, 0-9, _, ., @ and -, and is neither . nor ..",
        )),
        _ => None,
    }
}

/// The error code of texts outside a pattern, if they have one of their own.
pub fn pattern_code(pattern: &str) -> Option<ErrorCode> {
    pattern_refusal(pattern).map(|(code, _)| code)
}

/// A refusal of a value, by the message of the error that its type gave: serde passes on an error's text alone, so the text says
/// which pattern it was.
pub(super) fn refusal(message: String) -> Problem {
    let is_of = |pattern: &&'static str| message == ParseIdError { pattern }.to_string();
    match [RoomName::PATTERN, Identity::PATTERN]
        .into_iter()
        .find(is_of)
        .and_then(pattern_refusal)
    {
        Some((code, allowed)) => Problem::new(code, allowed),
        None => Problem::new(ErrorCode::InvalidRequest, message),
    }
}

/// The refusal of a value that a handler parses itself, at `field`.
pub fn refusal_at(field: &'static str, error: &impl Display) -> Problem {
    refusal(error.to_string()).at(field)
}

/// A path or query parameter that does not parse.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParameterError {
    /// The parameter; unknown until the map that holds the value adds it.
    pub(super) name: Option<String>,
    /// What is wrong with it.
    pub(super) cause: Cause,
}

/// What is wrong with a parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its value, as the message says.
    Value(String),
    /// Its name; the known ones follow.
    Unknown(&'static [&'static str]),
}

impl ParameterError {
    fn new(message: String) -> Self {
        Self {
            name: None,
            cause: Cause::Value(message),
        }
    }

    /// The error as one of the parameter `name`.
    pub(super) fn at(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// The error of a query parameter that is none of `first` and of those that the type knows.
    pub(super) fn into_problem(self, first: &[&str]) -> Problem {
        let message = match self.cause {
            Cause::Value(message) => message,
            Cause::Unknown(known) if first.is_empty() && known.is_empty() => {
                "this call takes no query parameters".to_owned()
            }
            Cause::Unknown(known) => {
                let known: Vec<&str> = first.iter().chain(known).copied().collect();
                format!("unknown query parameter; known are {}", known.join(", "))
            }
        };
        let problem = refusal(message);
        match self.name {
            Some(name) => problem.at(name),
            None => problem,
        }
    }
}

impl Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Value(message) => f.write_str(message),
            Cause::Unknown(_) => f.write_str("unknown parameter"),
        }
    }
}

impl std::error::Error for ParameterError {}

impl de::Error for ParameterError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("must be one of {}", expected.join(", ")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self {
            name: Some(field.to_owned()),
            cause: Cause::Unknown(expected),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("is required".into()).at(field)
    }
}
