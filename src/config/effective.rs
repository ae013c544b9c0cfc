//! The effective settings with where each came from, for operators.

use std::collections::BTreeMap;

use figment::value::Value;
use url::Url;

use super::schema::{leaves, schema};
use super::{Config, ConfigError};

/// What stands for a secret.
const HIDDEN: &str = "***";

/// Where settings that are not defaults came from, by dotted path: a file, an environment variable, or an option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingOrigins(pub(super) BTreeMap<String, String>);

/// A setting with its value and where that came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingReport {
    /// Its dotted path, such as `http.listen`.
    pub name: String,
    /// Its value as text. Secrets are `***`.
    pub value: String,
    /// Where it came from; `None` for a default.
    pub origin: Option<String>,
}

impl SettingOrigins {
    /// Returns every setting in the order of its name.
    ///
    /// # Errors
    /// Never in practice: settings can always be serialized.
    pub fn report(&self, config: &Config) -> Result<Vec<SettingReport>, ConfigError> {
        let report = |(name, value): (String, Value)| SettingReport {
            origin: self.0.get(&name).cloned(),
            value: text(&value),
            name,
        };
        Ok(leaves(&schema(config)?).into_iter().map(report).collect())
    }
}

impl SettingReport {
    /// Whether the value is secret, or a part of it.
    pub fn is_secret(&self) -> bool {
        self.value.contains(HIDDEN)
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(_, text) => without_password(text),
        Value::Array(_, items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, number) => {
            let whole = number
                .to_i128()
                .map(|number| number.to_string())
                .or_else(|| number.to_u128().map(|n| n.to_string()));
            whole.unwrap_or_else(|| number.to_f64().unwrap_or_default().to_string())
        }
        Value::Char(_, character) => character.to_string(),
        Value::Empty(..) | Value::Dict(..) => String::new(),
    }
}

/// A url keeps no password.
fn without_password(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            let hidden = url.set_password(Some(HIDDEN)).is_ok();
            if hidden {
                url.to_string()
            } else {
                HIDDEN.into()
            }
        }
        _ => text.to_owned(),
    }
}
