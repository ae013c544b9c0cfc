//! The environment as a layer of settings: variables named `CONCLAVE_SECTION__KEY`.
//!
//! The type of a setting's default determines how its variable is parsed, so a token of digits stays text, and lists can be
//! comma-separated. figment's own `Env` provider guesses the type from the text, and does not report which variable is unknown or invalid.

use std::collections::BTreeMap;

use figment::value::{Dict, Tag, Value};

use super::ConfigError;
use super::kubernetes::is_service_variable;

/// Variable prefix for settings.
const PREFIX: &str = "CONCLAVE_";
/// Variables with the prefix for API clients: the SDKs' examples and `conclave trigger`.
const CLIENT_VARIABLES: [&str; 3] = ["CONCLAVE_URL", "CONCLAVE_KEY", "CONCLAVE_WEBHOOK_SECRET"];

/// Settings in the environment, with their variables.
#[derive(Debug, Default)]
pub(super) struct EnvironmentLayer {
    /// Settings by section.
    pub(super) settings: Dict,
    /// Variable names by dotted setting path.
    pub(super) origins: BTreeMap<String, String>,
}

impl EnvironmentLayer {
    /// Parses variables according to `schema`, the defaults. Variables without the prefix are ignored, as are the clients' variables and
    /// Kubernetes' service variables.
    ///
    /// # Errors
    /// If a variable with the prefix names no setting.
    pub(super) fn parse<'a>(
        variables: impl IntoIterator<Item = &'a (String, String)>,
        schema: &Dict,
    ) -> Result<Self, ConfigError> {
        let mut layer = Self::default();
        for (name, text) in variables
            .into_iter()
            .filter(|(name, _)| !CLIENT_VARIABLES.contains(&name.as_str()))
        {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            // Settings first: a service may be called like a section.
            match layer.set(name, &rest.to_ascii_lowercase(), text, schema) {
                Err(_) if is_service_variable(name, text) => {}
                set => set?,
            }
        }
        Ok(layer)
    }

    fn set(
        &mut self,
        variable: &str,
        name: &str,
        text: &str,
        schema: &Dict,
    ) -> Result<(), ConfigError> {
        let path: Vec<&str> = name.split("__").collect();
        // `CONCLAVE_` alone or with one word names no setting.
        let [section, inner @ .., key] = &path[..] else {
            return Err(unknown_section(variable, schema));
        };
        let mut known = schema
            .get(*section)
            .and_then(Value::as_dict)
            .ok_or_else(|| unknown_section(variable, schema))?;
        // A section may contain another one, as `media` contains `media.rtc`.
        for name in inner {
            known = known
                .get(*name)
                .and_then(Value::as_dict)
                .ok_or_else(|| unknown_key(variable, section, known))?;
        }
        let default = known
            .get(*key)
            .ok_or_else(|| unknown_key(variable, section, known))?;
        // In lower case, since a variable's name is in upper case.
        self.origins.insert(path.join("."), variable.to_owned());
        insert(&mut self.settings, &path, parse_value(text, default));
        Ok(())
    }
}

/// Inserts a setting into its section, which is created if missing.
fn insert(settings: &mut Dict, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => drop(settings.insert((*key).to_owned(), value)),
        [section, inner @ ..] => {
            let section = settings
                .entry((*section).to_owned())
                .or_insert_with(|| Dict::new().into());
            if let Value::Dict(_, keys) = section {
                insert(keys, inner, value);
            }
        }
    }
}

/// Parses a text as the type of the setting's default. Invalid text stays text: serde then rejects it with the setting's path.
fn parse_value(text: &str, default: &Value) -> Value {
    let word = text.trim();
    let parsed = match default {
        Value::Array(..) => Some(list(word)),
        Value::Num(..) => number(word),
        Value::Bool(..) => word.parse::<bool>().ok().map(Value::from),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}

fn number(word: &str) -> Option<Value> {
    // Unsigned first: ports, counts and sizes are declared so, and serde does not convert numbers.
    let whole = word
        .parse::<u64>()
        .map(Value::from)
        .or_else(|_| word.parse::<i64>().map(Value::from));
    whole
        .ok()
        .or_else(|| word.parse::<f64>().ok().map(Value::from))
}

/// Parses a TOML list, or texts separated by commas.
fn list(word: &str) -> Value {
    match word.parse() {
        Ok(toml::Value::Array(items)) => {
            Value::serialize(items).unwrap_or_else(|_| comma_separated(word))
        }
        _ => comma_separated(
            // Brackets around bare words are common in container files, although they are not TOML.
            word.strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .unwrap_or(word),
        ),
    }
}

fn comma_separated(text: &str) -> Value {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    Value::Array(Tag::Default, parts.map(Value::from).collect())
}

fn unknown_section(variable: &str, schema: &Dict) -> ConfigError {
    let sections: Vec<_> = schema
        .keys()
        .map(|section| section.to_ascii_uppercase())
        .collect();
    let sections = sections.join(", ");
    ConfigError::new(
        variable,
        format!("no such setting; variables are {PREFIX}SECTION__KEY, sections {sections}"),
    )
}

fn unknown_key(variable: &str, section: &str, known: &Dict) -> ConfigError {
    let keys: Vec<_> = known.keys().map(|key| key.to_ascii_uppercase()).collect();
    let section = section.to_ascii_uppercase();
    ConfigError::new(
        variable,
        format!(
            "no such setting; {PREFIX}{section}__ is followed by one of {}",
            keys.join(", ")
        ),
    )
}
