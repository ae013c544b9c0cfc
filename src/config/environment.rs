//! The environment as a layer of settings: `CONCLAVE_SECTION__KEY`.
//!
//! A variable is text, so its setting says how to read it: the shape of the defaults is the schema. A token of digits
//! stays a text that way, and an unknown name is noticed at once.

use std::collections::BTreeMap;

use figment::value::{Dict, Tag, Value};

use super::ConfigError;

/// What every variable of ours begins with.
const PREFIX: &str = "CONCLAVE_";

/// The layer, and which variable set what.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// Sections of settings.
    pub(super) settings: Dict,
    /// The variable behind a dotted path.
    pub(super) origins: BTreeMap<String, String>,
}

impl Environment {
    /// Reads variables against `schema`, the defaults. Those of other programs are passed over.
    ///
    /// # Errors
    /// A variable of ours that names no setting.
    pub(super) fn read<'a>(
        variables: impl IntoIterator<Item = &'a (String, String)>,
        schema: &Dict,
    ) -> Result<Self, ConfigError> {
        let mut layer = Self::default();
        for (name, text) in variables {
            if let Some(rest) = name.strip_prefix(PREFIX) {
                layer.set(name, &rest.to_ascii_lowercase(), text, schema)?;
            }
        }
        Ok(layer)
    }

    fn set(&mut self, variable: &str, name: &str, text: &str, schema: &Dict) -> Result<(), ConfigError> {
        let (section, key) = name.split_once("__").ok_or_else(|| unknown_section(variable, schema))?;
        let known = schema.get(section).and_then(Value::as_dict).ok_or_else(|| unknown_section(variable, schema))?;
        let like = known.get(key).ok_or_else(|| unknown_key(variable, section, known))?;
        self.origins.insert(format!("{section}.{key}"), variable.to_owned());
        let section = self.settings.entry(section.to_owned()).or_insert_with(|| Dict::new().into());
        if let Value::Dict(_, keys) = section {
            keys.insert(key.to_owned(), typed(text, like));
        }
        Ok(())
    }
}

/// Reads a text as its setting's default is. One that does not read stays a text, for serde to refuse with the path.
fn typed(text: &str, like: &Value) -> Value {
    let parsed = || text.trim().parse::<Value>().unwrap_or_else(|never| match never {});
    match (like, parsed()) {
        (Value::Array(..), array @ Value::Array(..)) => array,
        (Value::Array(..), _) => comma_separated(text),
        (Value::Num(..), number @ Value::Num(..)) => number,
        (Value::Bool(..), word @ Value::Bool(..)) => word,
        _ => text.to_owned().into(),
    }
}

fn comma_separated(text: &str) -> Value {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Value::Array(Tag::Default, parts.map(Value::from).collect())
}

fn unknown_section(variable: &str, schema: &Dict) -> ConfigError {
    let sections: Vec<_> = schema.keys().map(|section| section.to_ascii_uppercase()).collect();
    let sections = sections.join(", ");
    ConfigError::new(variable, format!("no such setting; variables are {PREFIX}SECTION__KEY, sections {sections}"))
}

fn unknown_key(variable: &str, section: &str, known: &Dict) -> ConfigError {
    let keys: Vec<_> = known.keys().map(|key| key.to_ascii_uppercase()).collect();
    let section = section.to_ascii_uppercase();
    ConfigError::new(
        variable,
        format!("no such setting; {PREFIX}{section}__ is followed by one of {}", keys.join(", ")),
    )
}
