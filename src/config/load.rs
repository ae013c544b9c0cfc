//! The layers put together: defaults, file, environment, command line.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::Serialized;
use figment::value::{Dict, Value};

use super::environment::Environment;
use super::{Config, ConfigError, Mode};

/// Read when no file is named and it exists.
pub const DEFAULT_FILE: &str = "config/conclave.toml";

/// Where settings come from. Everything that could differ from one run to the next is a field, so that tests need no
/// environment of their own.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Which defaults apply.
    pub mode: Mode,
    /// The file named on the command line; it must exist.
    pub file: Option<PathBuf>,
    /// Variables, of other programs too.
    pub environment: Vec<(String, String)>,
    /// `--listen`: wins over `http.listen`.
    pub listen: Option<SocketAddr>,
    /// `--admin`: wins over `admin.listen`.
    pub admin: Option<SocketAddr>,
}

/// A settings file that was read.
struct File {
    name: String,
    table: toml::Table,
}

impl Sources {
    /// The file, and this process's environment.
    #[must_use]
    pub fn from_process(mode: Mode, file: Option<&Path>) -> Self {
        // A variable that is not UTF-8 keeps its place and fails where its text is read.
        let texts = std::env::vars_os().map(|(name, text)| (lossy(&name), lossy(&text)));
        Self { mode, file: file.map(Path::to_owned), environment: texts.collect(), listen: None, admin: None }
    }

    /// Reads every layer and checks the result.
    ///
    /// # Errors
    /// The first setting that is unknown, of the wrong type, out of range or at odds with another.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let defaults = Config::defaults(self.mode);
        let schema = schema(&defaults)?;
        let environment = Environment::read(&self.environment, &schema)?;
        let file = read_file(self.file.as_deref())?;
        let layers = Figment::from(Serialized::defaults(&schema))
            .merge(Serialized::defaults(file.as_ref().map(|file| &file.table).unwrap_or(&toml::Table::new())))
            .merge(Serialized::defaults(&environment.settings));
        let blamed = |error: ConfigError| {
            let origin = origin(&error.setting, &environment, file.as_ref());
            error.set_by(origin)
        };
        let mut config: Config = layers.extract().map_err(|error| blamed(ConfigError::of_figment(&error)))?;
        config.http.listen = self.listen.unwrap_or(config.http.listen);
        config.admin.listen = self.admin.unwrap_or(config.admin.listen);
        config.validate().map_err(blamed)?;
        Ok(config)
    }
}

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Every setting there is, with its default: what the environment is read against.
pub(super) fn schema(defaults: &Config) -> Result<Dict, ConfigError> {
    let value = Value::serialize(defaults).map_err(|error| ConfigError::of_figment(&error))?;
    Ok(value.into_dict().unwrap_or_default())
}

fn read_file(named: Option<&Path>) -> Result<Option<File>, ConfigError> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let name = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(File { table: parse(&name, &text)?, name })),
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) => Err(ConfigError::new(name, format!("cannot be read: {error}"))),
    }
}

/// Parses TOML. The parser's own message quotes the line, which may hold a secret; only its number is told.
pub(super) fn parse(name: &str, text: &str) -> Result<toml::Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let reason = error.message().replace('\n', ", ");
        ConfigError::new(format!("{name} line {line}"), format!("not valid TOML: {reason}"))
    })
}

/// Who set a path: the variable, or else the file that names it.
fn origin(setting: &str, environment: &Environment, file: Option<&File>) -> Option<String> {
    let path = setting.split('[').next().unwrap_or(setting);
    if let Some(variable) = environment.origins.get(path) {
        return Some(variable.clone());
    }
    let file = file?;
    let mut value = file.table.get(path.split('.').next()?);
    for key in path.split('.').skip(1) {
        value = value?.get(key);
    }
    value.map(|_| file.name.clone())
}
