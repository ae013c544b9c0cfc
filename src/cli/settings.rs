//! `conclave config`: the effective settings, and the settings file's schema.

use clap::Subcommand;
use serde::Serialize;
use serde_json::Value;

use super::output;
use super::output::{OutputFormat, print, print_json};
use crate::config::{EffectiveSetting, LoadedConfig, SettingSource, Sources, reference};
use crate::error::CliError;

/// Subcommands of `conclave config`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective settings with their sources: default, file or environment. Secrets are shown as ***.
    Show(OutputFormat),
    /// Print the settings file's JSON schema, for editors.
    Schema,
}

/// JSON output for a setting.
#[derive(Serialize)]
struct SettingView<'a> {
    name: &'a str,
    value: &'a Value,
    source: &'static str,
    /// File or variable; absent for a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// JSON output for all settings.
#[derive(Serialize)]
struct SettingsView<'a> {
    settings: Vec<SettingView<'a>>,
}

impl<'a> From<&'a EffectiveSetting> for SettingView<'a> {
    fn from(setting: &'a EffectiveSetting) -> Self {
        Self {
            name: &setting.name,
            value: &setting.value,
            source: setting
                .origin
                .as_ref()
                .map_or("default", SettingSource::kind),
            origin: setting.origin.as_ref().map(ToString::to_string),
        }
    }
}

/// Runs a subcommand.
pub(super) fn run(command: ConfigCommand, sources: &Sources) -> Result<(), CliError> {
    match command {
        ConfigCommand::Show(format) => show(sources, format),
        ConfigCommand::Schema => print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&reference::json_schema()?)?
        )),
    }
}

fn show(sources: &Sources, format: OutputFormat) -> Result<(), CliError> {
    let LoadedConfig { config, origins } = sources.load_with_origins()?;
    // Without secrets and passwords.
    let settings = origins.report(&config)?;
    if format.json {
        let settings = settings.iter().map(SettingView::from).collect();
        return print_json(&SettingsView { settings });
    }
    let row = |setting: &EffectiveSetting| {
        let origin = setting.origin.as_ref();
        vec![
            setting.name.clone(),
            origin.map_or_else(|| "default".to_owned(), ToString::to_string),
            setting.text(),
        ]
    };
    let rows: Vec<_> = settings.iter().map(row).collect();
    print(&output::table(&["setting", "from", "value"], &rows))
}
