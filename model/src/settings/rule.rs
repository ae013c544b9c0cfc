//! Values that a setting may have beyond its type.

use serde_json::{Value, json};
use url::Url;

use super::join;

/// Allowed values of a setting. A list's rule applies to each of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// All values of the type.
    Any,
    /// Whole numbers from the first to the second.
    Numbers(u32, u32),
    /// The same, with a message of its own.
    NumbersAs(u32, u32, &'static str),
    /// Even numbers from the first to the second.
    EvenNumbers(u32, u32),
    /// Texts with at least this many characters, with the reason.
    MinLength(usize, &'static str),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// URLs with one of these schemes and a host.
    Url(&'static [&'static str]),
    /// URLs of TURN servers, such as `turn:turn.example.com:3478?transport=udp`.
    TurnUrl,
    /// Lists with at least one element, with the message for empty ones.
    NotEmpty(&'static str),
}

/// Invalid value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// Dotted path, such as `limits.burst` or `webhooks.retry_delays[1]`.
    pub setting: String,
    /// Allowed values, as a message.
    pub problem: String,
}

impl InvalidSetting {
    /// Creates the error of a setting whose name is added later.
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self {
            setting: String::new(),
            problem: problem.into(),
        }
    }

    /// Adds the index of the list's element.
    pub(super) fn at(self, index: usize) -> Self {
        Self {
            setting: format!("[{index}]{}", self.setting),
            ..self
        }
    }

    /// Adds the setting's name.
    #[must_use]
    pub fn of(self, path: &str, key: &str) -> Self {
        Self {
            // The index of a list's element, if any, follows the name.
            setting: format!("{}{}", join(path, key), self.setting),
            ..self
        }
    }
}

fn invalid(problem: impl Into<String>) -> Result<(), InvalidSetting> {
    Err(InvalidSetting::new(problem))
}

impl Rule {
    /// Number of requests, tracks, failures and the like: 1 to a million.
    pub const COUNT: Self = Self::Numbers(1, 1_000_000);
    /// Number of threads, or 0.
    pub const THREADS: Self = Self::NumbersAs(0, 1_024, "must be 0 (one for each core) to 1024");

    pub(super) fn check_number(&self, value: u64) -> Result<(), InvalidSetting> {
        let is_in = |min: u32, max: u32| (u64::from(min)..=u64::from(max)).contains(&value);
        match *self {
            Self::Numbers(min, max) if !is_in(min, max) => {
                invalid(format!("must be {min} to {max}, not {value}"))
            }
            Self::NumbersAs(min, max, problem) if !is_in(min, max) => invalid(problem),
            Self::EvenNumbers(min, max) if !is_in(min, max) || !value.is_multiple_of(2) => invalid(
                format!("must be an even number from {min} to {max}, not {value}"),
            ),
            _ => Ok(()),
        }
    }

    /// Checks a text. Messages do not contain it, since it may be a secret or contain a password.
    pub(super) fn check_text(&self, text: &str) -> Result<(), InvalidSetting> {
        match *self {
            Self::MinLength(min, reason) if text.len() < min => {
                invalid(format!("must have at least {min} characters, {reason}"))
            }
            Self::OneOf(words) if !words.contains(&text) => {
                invalid(format!("must be one of {}", words.join(", ")))
            }
            Self::Url(schemes) if !is_url(text, schemes) => invalid(format!(
                "must be a URL that starts with {}://",
                schemes.join(":// or ")
            )),
            Self::TurnUrl if !is_turn_url(text) => {
                invalid("must be a URL such as \"turn:turn.example.com:3478?transport=udp\"")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_length(&self, length: usize) -> Result<(), InvalidSetting> {
        match self {
            Self::NotEmpty(problem) if length == 0 => invalid(*problem),
            _ => Ok(()),
        }
    }

    /// Returns the allowed values for the settings file; `None` if only the type limits them.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        Some(match *self {
            Self::Any => return None,
            Self::Numbers(min, max) | Self::NumbersAs(min, max, _) => format!("{min} to {max}"),
            Self::EvenNumbers(min, max) => format!("even numbers from {min} to {max}"),
            Self::MinLength(min, _) => format!("at least {min} characters"),
            Self::OneOf(words) => words.join(", "),
            Self::Url(schemes) => format!("{}://", schemes.join("://, ")),
            Self::TurnUrl => "turn: and turns: URLs".to_owned(),
            Self::NotEmpty(_) => "at least one element".to_owned(),
        })
    }

    /// Adds the rule to a type's JSON schema.
    pub(super) fn narrow(&self, mut schema: Value) -> Value {
        let target = match self {
            Self::NotEmpty(_) => &mut schema,
            // For a list, the rule describes the elements.
            _ if schema["type"] == "array" => &mut schema["items"],
            _ => &mut schema,
        };
        match *self {
            Self::Any => {}
            Self::Numbers(min, max) | Self::NumbersAs(min, max, _) => {
                target["minimum"] = min.into();
                target["maximum"] = max.into();
            }
            Self::EvenNumbers(min, max) => {
                target["minimum"] = min.into();
                target["maximum"] = max.into();
                target["multipleOf"] = 2.into();
            }
            Self::MinLength(min, _) => target["minLength"] = min.into(),
            Self::OneOf(words) => target["enum"] = json!(words),
            Self::Url(schemes) => {
                target["pattern"] = format!("^({})://", schemes.join("|")).into();
            }
            Self::TurnUrl => target["pattern"] = "^turns?:".into(),
            Self::NotEmpty(_) => target["minItems"] = 1.into(),
        }
        schema
    }
}

fn is_url(text: &str, schemes: &[&str]) -> bool {
    // The parser converts schemes to lower case.
    Url::parse(text).is_ok_and(|url| schemes.contains(&url.scheme()) && url.has_host())
}

fn is_turn_url(text: &str) -> bool {
    let host = text
        .strip_prefix("turn:")
        .or_else(|| text.strip_prefix("turns:"));
    // TURN URIs have no slashes (RFC 7065); `turn://` is a common mistake.
    host.is_some_and(|host| !host.is_empty() && !host.starts_with("//"))
}
