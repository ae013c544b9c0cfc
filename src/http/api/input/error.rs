//! Refusals of parameters and fields, as error responses.

use std::fmt::{self, Display};

use conclave_model::ids::ParseIdError;
use conclave_model::{ErrorCode, Identity, Problem, RoomName};
use serde::de;

/// Returns the error code for text outside a pattern, and the message with the allowed characters.
fn pattern_refusal(pattern: &str) -> Option<(ErrorCode, &'static str)> {
    match pattern {
        // Only these two patterns have codes of their own in the contract.
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

/// Returns the error code for text outside a pattern, if it has one of its own.
pub fn pattern_code(pattern: &str) -> Option<ErrorCode> {
    pattern_refusal(pattern).map(|(code, _)| code)
}

/// Creates a refusal from a type's error message. serde forwards only the text of an error, so the text is compared to find out
/// whether the pattern has a code of its own.
pub(super) fn refusal(message: String) -> Problem {
    let has_pattern = |pattern: &&'static str| message == ParseIdError { pattern }.to_string();
    // Both texts come from `ParseIdError`, so a new wording changes both.
    match [RoomName::PATTERN, Identity::PATTERN]
        .into_iter()
        .find(has_pattern)
        .and_then(pattern_refusal)
    {
        Some((code, allowed)) => Problem::new(code, allowed),
        None => Problem::new(ErrorCode::InvalidRequest, message),
    }
}

/// Refuses a value that a handler parses itself, at `field`.
pub fn refusal_at(field: &'static str, error: &impl Display) -> Problem {
    refusal(error.to_string()).at(field)
}

/// A path or query parameter's refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParameterError {
    /// Parameter name; added by the map that contains the value.
    pub(super) name: Option<String>,
    /// Reason.
    pub(super) cause: ParameterErrorCause,
}

/// Reason to refuse a parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParameterErrorCause {
    /// Invalid value, with the message.
    Value(String),
    /// Unknown name, with the known names.
    Unknown(&'static [&'static str]),
}

impl ParameterError {
    fn new(message: String) -> Self {
        Self {
            name: None,
            cause: ParameterErrorCause::Value(message),
        }
    }

    /// Sets the parameter's name, unless it is set.
    pub(super) fn at(mut self, name: &str) -> Self {
        // The error for a missing field has its name already.
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Converts a query parameter's error; the known parameters are `first` and the type's own.
    pub(super) fn into_problem(self, first: &[&str]) -> Problem {
        // With the allowed names, because most unknown names are typing mistakes.
        let message = match self.cause {
            ParameterErrorCause::Value(message) => message,
            ParameterErrorCause::Unknown(known) if first.is_empty() && known.is_empty() => {
                "this operation takes no query parameters".to_owned()
            }
            ParameterErrorCause::Unknown(known) => {
                let known: Vec<&str> = first.iter().chain(known).copied().collect();
                format!("unknown query parameter; allowed: {}", known.join(", "))
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
            ParameterErrorCause::Value(message) => f.write_str(message),
            // Required by serde, and never sent: `into_problem` writes the text.
            ParameterErrorCause::Unknown(_) => f.write_str("unknown parameter"),
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
            cause: ParameterErrorCause::Unknown(expected),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("is required".into()).at(field)
    }
}
