//! The command line: arguments, results on stdout, and the log and errors on stderr.
//!
//! An invalid option or setting exits with 2, a failed operation with 1. Commands open the database file themselves, also while a server is
//! using it; SQLite's lock serializes their writes.
//!
//! This file has the commands and options, and the shell completions and manual pages generated from them. The commands, in the order of
//! the help:
//!
//! - [`addresses`]: the options of `dev` and `serve`; [`server`] runs them.
//! - [`projects`], [`keys`], [`recordings`]: records, in the database.
//! - [`erase`]: a person's records, by the running server if there is one.
//! - [`export`]: a project's records as JSON lines.
//! - [`listen`], [`trigger`]: events of a running server, by [`admin_client`] and [`follower`].
//! - [`settings`], [`check`]: `config` and `check`.
//! - [`server_keys`], [`step_down`]: a new encryption or media key, and the change of the active server.
//! - [`database`]: `backup`, `restore`, `import`, `migrate`.
//!
//! They share [`store`], the database as commands use it, [`output`], text and JSON on stdout, and [`logging`].

mod addresses;
mod admin_client;
mod check;
mod database;
mod erase;
mod export;
mod follower;
mod keys;
mod listen;
mod logging;
mod output;
mod projects;
mod recordings;
mod server_keys;
mod settings;
mod step_down;
mod store;
mod trigger;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{ConfigError, LoadedConfig, Mode, Sources};
use crate::data_dir::DEFAULT_DATA;
use crate::error::CliError;
use crate::http::admin::docs::site::{Form, Site};
use crate::http::api::openapi;
use crate::http::api::routes::{CONTRACT, EXTENSIONS};
use crate::server;
use addresses::parse_address;
use output::print;

pub use addresses::Addresses;
pub use admin_client::ServerArgs;
pub use erase::EraseArgs;
pub use export::ExportArgs;
pub use keys::KeyCommand;
pub use listen::{EventFormat, ListenArgs};
pub use output::OutputFormat;
pub use projects::{EnvironmentArg, ProjectArgs, ProjectCommand};
pub use recordings::RecordingCommand;
pub use settings::ConfigCommand;
pub use trigger::TriggerArgs;

/// Self-hosted control plane for real-time video calls.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, arg_required_else_help = true)]
pub struct Cli {
    /// Settings file [default: config/conclave.toml if it exists].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory: database, keys and recordings [default: ./conclave-data].
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Command.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `conclave`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a development server: without configuration, with the sandbox, a test project and an API key.
    Dev(Addresses),
    /// Run the server with the configured settings.
    Serve(Addresses),
    /// Manage projects.
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Manage API keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage access to recording files.
    #[command(subcommand)]
    Recording(RecordingCommand),
    /// Erase a person from a project's records, and delete the recordings of that participant alone.
    Erase(EraseArgs),
    /// Write all of a project's records as JSON lines, without secrets.
    Export(ExportArgs),
    /// Print a project's events as they happen, and optionally forward them to a receiver on this machine.
    Listen(ListenArgs),
    /// Cause an event in a room with simulated participants, or send an example event.
    Trigger(TriggerArgs),
    /// Print the OpenAPI description.
    Openapi {
        /// Describe the operations below /ext/v1.
        #[arg(long)]
        ext: bool,
    },
    /// Show the settings.
    #[command(subcommand, name = "config")]
    Settings(ConfigCommand),
    /// Check the configuration, the database and the servers that share it, the encryption key and the media plane.
    Check(OutputFormat),
    /// Create a new encryption key and re-encrypt all secrets with it, even while the server runs. With PostgreSQL, the rotation has three
    /// steps: each run takes the next step, and prints what to do before the following one.
    KeyRotate(OutputFormat),
    /// Allow servers with this machine's media key to take over, after a deliberate change of media.key or media.api_key.
    MediaKeyChange(OutputFormat),
    /// Build this version's indexes in PostgreSQL, before the servers of the older version are replaced.
    Migrate(OutputFormat),
    /// Make the active server hand over to another one and return as a standby.
    StepDown {
        /// Address and port of the server's admin listener [default: the setting admin.listen].
        #[arg(long, value_name = "ADDR", value_parser = parse_address)]
        admin: Option<SocketAddr>,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Copy the database to a new file and check the copy, even while the server runs.
    Backup {
        /// File to create.
        file: PathBuf,
    },
    /// Check a copy of a database and put it into the data directory, which must be empty except for keys.
    Restore {
        /// Copy of a database: a backup, a file from backup.directory, or one restored by Litestream.
        file: PathBuf,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Copy the records from a file to the configured PostgreSQL database, which must be empty, while no server runs.
    Import {
        /// File: conclave.db in a data directory, or a backup.
        file: PathBuf,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Print a shell completion script: `source <(conclave completions bash)`.
    Completions {
        /// Shell that the script is for.
        shell: Shell,
    },
    /// Write the documentation as HTML pages to a directory, for a web server or to open as files.
    Docs {
        /// Directory, created if it does not exist.
        directory: PathBuf,
    },
    /// Write manual pages for `man` to a directory.
    Manual {
        /// Directory, created if it does not exist.
        directory: PathBuf,
    },
}

/// Parses the command line, starts logging and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Only servers have the log thread. A command is short, and must not lose its last lines.
    logging::start(matches!(cli.command, Command::Dev(_) | Command::Serve(_)));
    run(cli)
}

/// Runs a command and prints its error, if any, to stderr.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    match dispatch(cli) {
        Ok(()) => {
            logging::finish(None);
            ExitCode::SUCCESS
        }
        Err(error) => {
            // After the log, so that the error is the last line.
            logging::finish(Some(&error.to_string()));
            error.exit_code()
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), CliError> {
    let Cli {
        config: file,
        data,
        command,
    } = cli;
    let file = file.as_deref();
    // `project create` creates only a directory that was named.
    let is_named = data.is_some();
    let data = data.unwrap_or_else(|| DEFAULT_DATA.into());
    let sources = || Sources::from_process(Mode::Serve, file);
    // On demand: `openapi`, `completions`, `docs` and `manual` need no settings.
    let config = || sources().load();
    match command {
        Command::Dev(at) => server::run(Mode::Dev, load_for(Mode::Dev, file, at)?, data),
        Command::Serve(at) => server::run(Mode::Serve, load_for(Mode::Serve, file, at)?, data),
        Command::Openapi { ext } => {
            // Two documents: the contract's must not change with extensions.
            let part = if ext { &EXTENSIONS } else { &CONTRACT };
            output::print(&format!("{}\n", openapi::text(part)))
        }
        Command::Project(command) => projects::run(command, &config()?, &data, is_named),
        Command::Key(command) => keys::run(command, &config()?, &data),
        Command::Recording(command) => recordings::run(command, &config()?, &data),
        Command::Erase(args) => erase::run(args, &config()?, &data),
        Command::Export(args) => export::run(&args, &config()?, &data),
        Command::Listen(args) => listen::run(&args, &config()?, &data),
        Command::Trigger(args) => trigger::run(&args, &config()?, &data),
        Command::Settings(command) => settings::run(command, &sources()),
        Command::Check(format) => check::run(sources().load_with_origins(), &data, format),
        Command::KeyRotate(format) => server_keys::rotate_encryption_key(&config()?, &data, format),
        Command::MediaKeyChange(format) => server_keys::change_media_key(&config()?, &data, format),
        Command::StepDown { admin, format } => step_down::run(&config()?, admin, format),
        Command::Migrate(format) => database::migrate(&config()?, &data, format),
        Command::Backup { file: to } => database::backup(to, &config()?, &data),
        Command::Restore { file: from, format } => {
            database::restore_file(&from, &config()?, &data, format)
        }
        Command::Import { file: from, format } => database::import(&from, &config()?, format),
        Command::Completions { shell } => print_completions(shell),
        Command::Docs { directory } => write_docs(&directory),
        Command::Manual { directory } => write_manual(&directory),
    }
}

fn load_for(mode: Mode, file: Option<&Path>, at: Addresses) -> Result<LoadedConfig, ConfigError> {
    let Addresses { listen, admin } = at;
    Sources {
        listen,
        admin,
        ..Sources::from_process(mode, file)
    }
    .load_with_origins()
}

/// Prints a shell's completion script for commands and options.
fn print_completions(shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "conclave", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for the program and for each command to a directory, which is created if missing.
fn write_manual(directory: &Path) -> Result<(), CliError> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|error| CliError::failed(format!("{}: {error}", directory.display())))
}

/// Writes the documentation to a directory, which is created if missing. Other files in it stay.
fn write_docs(directory: &Path) -> Result<(), CliError> {
    let site = Site::new(Form::Static);
    for path in site.paths() {
        let file = directory.join(&path);
        // Each of the site's own paths has content.
        let content = site.content(&path).unwrap_or_default();
        let written = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&file, content));
        written.map_err(|error| CliError::failed(format!("{}: {error}", file.display())))?;
    }
    Ok(())
}
