//! `conclave completions` and `conclave manual`: what a shell and `man` know of the command line, made from its declaration. `conclave
//! docs`: the documentation as a static site.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::output::print;
use crate::error::CliError;
use crate::http::admin::docs::site::{Form, Site};

/// Prints a script with which a shell completes commands and options.
pub(super) fn print_completions(shell: Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "conclave", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for the program and for each of its commands into a directory, which is created if it is missing.
pub(super) fn write_manual(directory: &Path) -> Result<(), CliError> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|error| CliError::failed(format!("{}: {error}", directory.display())))
}

/// Writes the documentation into a directory, which is created if it is missing. Other files in it stay.
pub(super) fn write_docs(directory: &Path) -> Result<(), CliError> {
    let site = Site::new(Form::Static);
    for path in site.paths() {
        let file = directory.join(&path);
        let content = site.content(&path).unwrap_or_default();
        let written = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&file, content));
        written.map_err(|error| CliError::failed(format!("{}: {error}", file.display())))?;
    }
    Ok(())
}
