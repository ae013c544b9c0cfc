//! Answers on stdout, and the small rules of arguments.

use std::io::{self, Write};

use serde::Serialize;

use super::CliError;

/// Writes an answer on stdout. A reader that has gone is a failed command, not a panic: a new key would be lost.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| CliError::failed(format!("stdout: {error}")))
}

/// Writes an answer as one line of JSON.
pub(super) fn json(answer: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(answer).map_err(|error| CliError::failed(error.to_string()))?;
    print(&format!("{text}\n"))
}

/// A text of so many characters, none of which moves a terminal's cursor.
pub(super) fn bounded_text<const LEAST: usize, const MOST: usize>(text: &str) -> Result<String, String> {
    let length = text.trim().chars().count();
    if (LEAST..=MOST).contains(&length) && !text.chars().any(char::is_control) {
        Ok(text.trim().to_owned())
    } else {
        Err(format!("must be {LEAST} to {MOST} characters, none of them a control character"))
    }
}
