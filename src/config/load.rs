//! Loads and merges the layers: defaults, file, environment, command line.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use conclave_model::settings::Section;
use figment::Figment;
use figment::providers::Serialized;
use figment::value::{Dict, Value};

use super::environment::EnvironmentLayer;
use super::{Config, ConfigError, Mode, SettingOrigins, SettingSource};

/// Settings file that is loaded if it exists and `--config` is not given.
pub const DEFAULT_FILE: &str = "config/conclave.toml";

/// Sources of settings. The environment is a field, so tests do not depend on the process's environment.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Which defaults apply.
    pub mode: Mode,
    /// File given with `--config`, which must exist.
    pub file: Option<PathBuf>,
    /// All environment variables, including other programs'.
    pub environment: Vec<(String, String)>,
    /// `--listen`, which overrides `http.listen`.
    pub listen: Option<SocketAddr>,
    /// `--admin`, which overrides `admin.listen`.
    pub admin: Option<SocketAddr>,
}

/// Parsed settings file.
struct File {
    name: String,
    table: toml::Table,
}

/// Settings with their sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedConfig {
    /// Effective settings.
    pub config: Config,
    /// Sources of non-default settings.
    pub origins: SettingOrigins,
}

impl Sources {
    /// Returns the file and the process's environment as sources.
    pub fn from_process(mode: Mode, file: Option<&Path>) -> Self {
        // A variable that is not UTF-8 is not skipped: its lossy text is rejected if it is a setting.
        let texts = std::env::vars_os().map(|(name, text)| (lossy(&name), lossy(&text)));
        Self {
            mode,
            file: file.map(Path::to_owned),
            environment: texts.collect(),
            listen: None,
            admin: None,
        }
    }

    /// Loads and merges all layers, and validates the result.
    ///
    /// # Errors
    /// If a setting is unknown, has the wrong type, is out of range or contradicts another one. Only the first error is reported.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.load_with_origins().map(|loaded| loaded.config)
    }

    /// Loads the settings like [`Sources::load`], with their sources.
    ///
    /// # Errors
    /// Fails as [`Sources::load`] does.
    pub fn load_with_origins(&self) -> Result<LoadedConfig, ConfigError> {
        let defaults = Config::defaults(self.mode);
        let schema = schema(&defaults)?;
        let environment = EnvironmentLayer::parse(&self.environment, &schema)?;
        let file = read_file(self.file.as_deref())?;
        let empty = toml::Table::new();
        let table = file.as_ref().map_or(&empty, |file| &file.table);
        // Later layers override earlier ones, setting by setting.
        let layers = Figment::from(Serialized::defaults(&schema))
            .merge(Serialized::defaults(table))
            .merge(Serialized::defaults(&environment.settings));
        let with_origin = |error: ConfigError| {
            let source = source(&error.setting, &environment, file.as_ref());
            error.with_origin(source.map(|source| source.to_string()))
        };
        // Before serde, which would accept such a list.
        refuse_lists_as_sections(&schema, table).map_err(with_origin)?;
        let mut config: Config = layers
            .extract()
            .map_err(|error| with_origin(error.into()))?;
        // Options are typed values already, so they are not a layer.
        config.http.listen = self.listen.unwrap_or(config.http.listen);
        config.admin.listen = self.admin.unwrap_or(config.admin.listen);
        // The default in `dev` allows embedding the call page, which a user may have turned off.
        let embed_origins = source("http.embed_origins", &environment, file.as_ref());
        if !config.http.call_page && embed_origins.is_none() {
            config.http.embed_origins.clear();
        }
        config.validate().map_err(with_origin)?;
        let origins = self.origins(&environment, file.as_ref());
        Ok(LoadedConfig { config, origins })
    }

    /// Returns the sources of non-default settings.
    fn origins(&self, environment: &EnvironmentLayer, file: Option<&File>) -> SettingOrigins {
        let reference = Config::reference();
        let set = reference.settings().into_iter().filter_map(|(name, _)| {
            let source = source(&name, environment, file)?;
            Some((name, source))
        });
        let mut origins: BTreeMap<String, SettingSource> = set.collect();
        let options = [
            ("http.listen", "--listen", self.listen),
            ("admin.listen", "--admin", self.admin),
        ];
        for (name, option, _) in options.into_iter().filter(|(_, _, given)| given.is_some()) {
            origins.insert(name.to_owned(), SettingSource::Option(option));
        }
        SettingOrigins(origins)
    }
}

/// Returns all settings with their defaults, which determine the names and types of environment variables.
pub(super) fn schema(defaults: &Config) -> Result<Dict, ConfigError> {
    let value = Value::serialize(defaults)?;
    Ok(value.into_dict().unwrap_or_default())
}

/// Rejects a list in place of a section: serde would read its elements as the section's settings, in declaration order.
fn refuse_lists_as_sections(schema: &Dict, table: &toml::Table) -> Result<(), ConfigError> {
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

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

fn read_file(named: Option<&Path>) -> Result<Option<File>, ConfigError> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let name = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(File {
            table: parse_toml(&name, &text)?,
            name,
        })),
        // Only the default path may be missing: a misspelt `--config` must not start a server with defaults.
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) => Err(ConfigError::new(name, format!("cannot be read: {error}"))),
    }
}

/// Parses TOML. The parser's message quotes the invalid line, which may contain a secret, so only its number is reported.
pub(super) fn parse_toml(name: &str, text: &str) -> Result<toml::Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        // The parser reports a byte offset.
        let before = error
            .span()
            .and_then(|span| text.get(..span.start))
            .unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let reason = error.message().replace('\n', ", ");
        ConfigError::new(
            format!("{name} line {line}"),
            format!("not valid TOML: {reason}"),
        )
    })
}

/// Returns the variable or file that set a setting; `None` for a default.
fn source(
    setting: &str,
    environment: &EnvironmentLayer,
    file: Option<&File>,
) -> Option<SettingSource> {
    // An element's path, such as `http.hosts[2]`, has its list's source.
    let path = setting.split('[').next().unwrap_or(setting);
    if let Some(variable) = environment.origins.get(path) {
        return Some(SettingSource::Environment(variable.clone()));
    }
    let file = file?;
    let mut value = file.table.get(path.split('.').next()?);
    for key in path.split('.').skip(1) {
        value = value?.get(key);
    }
    value.map(|_| SettingSource::File(file.name.clone()))
}
