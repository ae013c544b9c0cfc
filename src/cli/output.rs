//! Results on stdout, and the arguments that several commands share.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use conclave_model::visible::{checked_label, is_deceptive};
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
    print_json_text(&serde_json::to_string(value)?)
}

/// Writes valid JSON to stdout as one line, without characters that control a terminal: a server may have sent them in a text.
pub(super) fn print_json_text(json: &str) -> Result<(), CliError> {
    let line = json
        .chars()
        .fold(String::with_capacity(json.len() + 1), |mut line, letter| {
            match letter {
                // Valid JSON has them between its parts only, and all others in texts only.
                '\n' | '\r' | '\t' => line.push(' '),
                // None of them is beyond the first plane.
                _ if is_deceptive(letter) => _ = write!(line, "\\u{:04x}", u32::from(letter)),
                _ => line.push(letter),
            }
            line
        });
    print(&format!("{line}\n"))
}

/// Parses an argument of `MIN` to `MAX` characters, none of which could move the terminal's cursor or set the direction of a text.
pub(super) fn parse_text<const MIN: usize, const MAX: usize>(text: &str) -> Result<String, String> {
    checked_label(text.trim(), MIN..=MAX).map(str::to_owned)
}
