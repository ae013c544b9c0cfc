//! All settings as data: their names, types and values.

use figment::value::{Dict, Value};

use super::{Config, ConfigError};

/// Returns all settings with their defaults, which determine the names and types of environment variables.
pub(super) fn schema(defaults: &Config) -> Result<Dict, ConfigError> {
    let value = Value::serialize(defaults)?;
    Ok(value.into_dict().unwrap_or_default())
}

/// Every setting below the sections, by dotted path.
pub(super) fn leaves(settings: &Dict) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in settings {
        match value {
            Value::Dict(_, inner) => {
                found.extend(leaves(inner).into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            value => found.push((key.clone(), value.clone())),
        }
    }
    found
}
