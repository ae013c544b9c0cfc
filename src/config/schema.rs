//! All settings as data: their names, types and values.

use figment::value::{Dict, Value};

use super::{Config, ConfigError};

/// Returns all settings with their defaults, which determine the names and types of environment variables.
pub(super) fn schema(defaults: &Config) -> Result<Dict, ConfigError> {
    let value = Value::serialize(defaults)?;
    Ok(value.into_dict().unwrap_or_default())
}

/// Refuses a list in the place of a section: serde would read its items as the section's settings, in the order of their fields.
pub(super) fn refuse_lists_as_sections(
    schema: &Dict,
    table: &toml::Table,
) -> Result<(), ConfigError> {
    table
        .iter()
        .try_for_each(|(name, value)| match (schema.get(name), value) {
            (Some(Value::Dict(_, _)), toml::Value::Array(_)) => Err(ConfigError::new(
                name.as_str(),
                "must be a section, not a list",
            )),
            (Some(Value::Dict(_, schema)), toml::Value::Table(table)) => {
                refuse_lists_as_sections(schema, table).map_err(|error| ConfigError {
                    setting: format!("{name}.{}", error.setting),
                    ..error
                })
            }
            _ => Ok(()),
        })
}

/// Every setting below the sections, by dotted path.
pub(super) fn leaves(settings: &Dict) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in settings {
        match value {
            Value::Dict(_, inner) => {
                found.extend(
                    leaves(inner)
                        .into_iter()
                        .map(|(name, value)| (format!("{key}.{name}"), value)),
                );
            }
            value => found.push((key.clone(), value.clone())),
        }
    }
    found
}
