//! Configuration error in one line: the setting, its source, and the allowed values.

use std::fmt::{self, Write};

use conclave_model::settings::Section;
use figment::error::{Actual, Kind};

use super::Config;

/// Unknown or invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Setting's dotted path, or else the name of the variable, option or file.
    pub setting: String,
    /// Variable or file that set it, if known.
    pub origin: Option<String>,
    /// Problem, with the allowed values.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = OneLine(&self.setting);
        let problem = OneLine(&self.problem);
        match &self.origin {
            Some(origin) => write!(f, "{setting} ({}): {problem}", OneLine(origin)),
            None => write!(f, "{setting}: {problem}"),
        }
    }
}

/// Text with escaped control characters: names in a file may contain line breaks, which could forge log lines.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if c.is_control() {
                write!(f, "{}", c.escape_default())
            } else {
                f.write_char(c)
            }
        })
    }
}

impl ConfigError {
    /// Creates an error without a source.
    pub fn new(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            setting: setting.into(),
            origin: None,
            problem: problem.into(),
        }
    }

    /// Adds the variable or file that set the setting.
    #[must_use]
    pub fn with_origin(mut self, origin: Option<String>) -> Self {
        self.origin = origin;
        self
    }
}

impl From<figment::Error> for ConfigError {
    /// Rewrites figment's error for the operator. Values of secret settings are omitted.
    fn from(error: figment::Error) -> Self {
        let (path, secret) = (dotted(&error.path), is_secret(&error.path));
        match &error.kind {
            // The path includes the unknown name.
            Kind::UnknownField(_, known) => {
                // The section's settings help more than all of them.
                let allowed = match error.path.split_last() {
                    Some((_, parent)) if !parent.is_empty() => {
                        format!("the settings of {}", dotted(parent))
                    }
                    _ => "the sections".to_owned(),
                };
                Self::new(
                    path,
                    format!("no such setting; {allowed} are {}", known.join(", ")),
                )
            }
            Kind::UnknownVariant(word, known) => Self::new(
                path,
                format!("must be {}, not {word:?}", known.join(" or ")),
            ),
            Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
                // figment's error quotes the value.
                let found = if secret {
                    "this value".into()
                } else {
                    describe_found(found)
                };
                Self::new(
                    path,
                    format!("must be {}, not {found}", describe_expected(expected)),
                )
            }
            Kind::MissingField(name) => {
                let setting = if path.is_empty() {
                    name.to_string()
                } else {
                    format!("{path}.{name}")
                };
                Self::new(setting, "must be set")
            }
            // From the settings' own parsers, which name the allowed values.
            Kind::Message(message) => Self::new(path, message.clone()),
            other => Self::new(path, other.to_string()),
        }
    }
}

/// Formats `["a", "b", "2"]` as `a.b[2]`.
fn dotted(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if part.bytes().all(|b| b.is_ascii_digit()) {
            text = format!("{text}[{part}]");
        } else if text.is_empty() {
            text.clone_from(part);
        } else {
            text = format!("{text}.{part}");
        }
    }
    text
}

fn is_secret(path: &[String]) -> bool {
    let path = path.join(".");
    let reference = Config::reference();
    let mut settings = reference.settings().into_iter();
    settings.any(|(name, setting)| name == path && setting.is_secret())
}

/// Replaces serde's name of a type with an operator's term.
fn describe_expected(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u16" | "u64" | "usize" => "a whole number, 0 or more",
        "i64" => "a whole number",
        "a boolean" => "true or false",
        "a string" | "string" => "a string in quotes",
        "a sequence" => "a list",
        "an object" => "a section",
        section if section.starts_with("struct ") => "a section",
        other => other,
    }
}

fn describe_found(found: &Actual) -> String {
    match found {
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(value) => value.to_string(),
        Actual::Signed(value) => value.to_string(),
        Actual::Float(value) => value.to_string(),
        Actual::Str(value) => format!("{value:?}"),
        Actual::Seq => "a list".into(),
        Actual::Map => "a section".into(),
        other => other.to_string(),
    }
}
