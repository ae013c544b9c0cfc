//! The command line: what an operator types, and what comes back.
//!
//! Answers go to stdout, the log and errors to stderr. A wrong option, an unknown setting or a bad value exits 2, a
//! failed operation 1. Commands work on the data directory itself, also while a server uses it: SQLite arbitrates.

mod backup;
mod check;
mod error;
mod keys;
mod open;
mod output;
mod projects;
mod rotate;
mod table;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub use error::CliError;
pub use keys::KeyCommand;
pub use open::{
    create_data_dir, database_path, lock_data_dir, open_store, open_store_with, run_blocking, uncounted, with_store,
};
pub use projects::{EnvironmentArg, Format, ProjectArg, ProjectCommand};

use crate::config::{Config, ConfigError, Mode, Sources};
use crate::server;

/// Self-hosted control plane for real-time video calls.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, arg_required_else_help = true)]
pub struct Cli {
    /// Settings file [default: config/conclave.toml if it exists].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the database, keys and recordings lie.
    #[arg(long, global = true, value_name = "DIR", default_value = "./conclave-data")]
    pub data: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run with no configuration: sandbox on, a test project and a fresh API key.
    Dev(Addresses),
    /// Run as configured.
    Serve(Addresses),
    /// Projects.
    #[command(subcommand)]
    Project(ProjectCommand),
    /// API keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Print the OpenAPI description.
    Openapi,
    /// Check configuration, database, encryption key and media plane.
    Check,
    /// Make a new encryption key and seal everything with it, also while the server runs.
    KeyRotate(Format),
    /// Copy the database into a new file while the server runs.
    Backup {
        /// The file to make.
        file: PathBuf,
    },
}

/// Where the server listens.
#[derive(Debug, Clone, Copy, Args)]
pub struct Addresses {
    /// The API's address and port; port 0 is any free one.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// The admin listener's address and port; port 0 is any free one.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
}

/// What is logged unless `RUST_LOG` says otherwise. The libraries' own starts and stops are noise to an operator.
const DEFAULT_LOG: &str = "info,ractor=warn,actix_server=warn";

/// Reads the command line, runs it, says what went wrong.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(DEFAULT_LOG)).init();
    run(cli)
}

/// Runs a command. What went wrong goes to stderr.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conclave: {error}");
            error.exit_code()
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), CliError> {
    let Cli { config: file, data, command } = cli;
    let configured = || read(Mode::Serve, file.as_deref(), None).map_err(CliError::Config);
    match command {
        Command::Dev(at) => {
            server::run(Mode::Dev, &read(Mode::Dev, file.as_deref(), Some(at)).map_err(CliError::Config)?, &data)
        }
        Command::Serve(at) => {
            server::run(Mode::Serve, &read(Mode::Serve, file.as_deref(), Some(at)).map_err(CliError::Config)?, &data)
        }
        Command::Openapi => {
            openapi();
            Ok(())
        }
        Command::Project(command) => projects::run(command, &configured()?, &data),
        Command::Key(command) => keys::run(command, &configured()?, &data),
        Command::Check => check::run(read(Mode::Serve, file.as_deref(), None), &data),
        Command::KeyRotate(format) => rotate::run(&configured()?, &data, format),
        Command::Backup { file: to } => backup::run(to, &configured()?, &data),
    }
}

fn read(mode: Mode, file: Option<&Path>, at: Option<Addresses>) -> Result<Config, ConfigError> {
    let listen = at.and_then(|at| at.listen);
    let admin = at.and_then(|at| at.admin);
    Sources { listen, admin, ..Sources::of_process(mode, file) }.load()
}

/// Prints the OpenAPI description.
fn openapi() {
    println!("{}", crate::http::openapi::text());
}
