//! Results on stdout, and the arguments that several commands share.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::CliError;

/// How a command prints its result.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct OutputFormat {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Writes text to stdout. A closed stdout is an error and not a panic, because the text may be a key that is shown once.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| CliError::failed(format!("stdout: {error}")))
}

/// Writes a value to stdout as one line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print(&format!("{}\n", serde_json::to_string(value)?))
}

/// Parses an argument of `MIN` to `MAX` characters without control characters, which could move the terminal's cursor.
pub(super) fn parse_text<const MIN: usize, const MAX: usize>(text: &str) -> Result<String, String> {
    let length = text.trim().chars().count();
    if (MIN..=MAX).contains(&length) && !text.chars().any(char::is_control) {
        Ok(text.trim().to_owned())
    } else {
        Err(format!("must be {MIN} to {MAX} characters, none of them a control character"))
    }
}
