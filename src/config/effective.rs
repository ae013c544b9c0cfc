//! Effective settings with their sources, for operators.

use std::collections::BTreeMap;
use std::fmt;

use conclave_model::settings::Section;
use serde_json::Value;
use url::Url;

use super::{Config, ConfigError};

/// Placeholder for a secret.
const HIDDEN: &str = "***";

/// Source of a setting that differs from its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingSource {
    /// File, by its path.
    File(String),
    /// Environment variable.
    Environment(String),
    /// Command-line option.
    Option(&'static str),
}

impl SettingSource {
    /// Returns the kind of source: `file`, `environment` or `option`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Environment(_) => "environment",
            Self::Option(_) => "option",
        }
    }
}

impl fmt::Display for SettingSource {
    /// Writes the path, the variable or the option.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name) | Self::Environment(name) => f.write_str(name),
            Self::Option(name) => f.write_str(name),
        }
    }
}

/// Sources of non-default settings, by dotted path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingOrigins(pub(super) BTreeMap<String, SettingSource>);

/// Setting with its value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// Dotted path, such as `http.listen`.
    pub name: String,
    /// Value; null if unset. Secrets are `***`, including passwords in URLs.
    pub value: Value,
    /// Source; `None` for a default.
    pub origin: Option<SettingSource>,
}

impl SettingOrigins {
    /// Returns every setting in the order of the settings file.
    ///
    /// # Errors
    /// Never in practice: settings can always be serialized.
    pub fn report(&self, config: &Config) -> Result<Vec<EffectiveSetting>, ConfigError> {
        let values = serde_json::to_value(config)
            .map_err(|error| ConfigError::new("settings", error.to_string()))?;
        let effective = |name: String| EffectiveSetting {
            origin: self.0.get(&name).cloned(),
            value: without_passwords(value_at(&values, &name)),
            name,
        };
        let reference = Config::reference();
        // From the declarations, since JSON does not keep their order.
        let names = reference.settings().into_iter().map(|(name, _)| name);
        Ok(names.map(effective).collect())
    }
}

impl EffectiveSetting {
    /// Returns whether the value contains a secret.
    pub fn is_secret(&self) -> bool {
        self.text().contains(HIDDEN)
    }

    /// Returns the value as text, with lists separated by commas.
    pub fn text(&self) -> String {
        text(&self.value)
    }
}

/// Returns a setting's value in the settings as JSON.
pub(super) fn value_at<'a>(values: &'a Value, name: &str) -> &'a Value {
    name.split('.').fold(values, |value, key| &value[key])
}

/// Formats a value as text without quotes, with lists separated by commas.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Replaces the passwords in URLs.
fn without_passwords(value: &Value) -> Value {
    match value {
        Value::String(text) => without_password(text).into(),
        Value::Array(items) => items.iter().map(without_passwords).collect(),
        other => other.clone(),
    }
}

fn without_password(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            let hidden = url.set_password(Some(HIDDEN)).is_ok();
            // If the URL cannot be rewritten, nothing of it is shown.
            if hidden {
                url.to_string()
            } else {
                HIDDEN.into()
            }
        }
        _ => text.to_owned(),
    }
}
