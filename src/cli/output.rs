//! Results on stdout, and arguments that several commands share.
//!
//! Text is in plain tables, whose columns are aligned with spaces and have no borders, so that `cut` and `awk` can read them. Characters
//! that control a terminal, or the direction of text, are escaped.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use conclave_model::visible::{Visible, checked_label, is_deceptive};
use serde::Serialize;

use crate::error::CliError;

/// A command's output format.
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

/// Writes valid JSON to stdout as one line. Characters that control a terminal are escaped, since a text may come from a server.
pub(super) fn print_json_text(json: &str) -> Result<(), CliError> {
    let line = json
        .chars()
        .fold(String::with_capacity(json.len() + 1), |mut line, letter| {
            match letter {
                // Valid JSON has these between its tokens only, and all other control characters in strings only.
                '\n' | '\r' | '\t' => line.push(' '),
                // All of them are in the Basic Multilingual Plane, so they need no surrogate pair.
                _ if is_deceptive(letter) => _ = write!(line, "\\u{:04x}", u32::from(letter)),
                _ => line.push(letter),
            }
            line
        });
    print(&format!("{line}\n"))
}

/// Parses an argument with `MIN` to `MAX` characters. Characters that move the terminal's cursor or set the direction of text are refused.
pub(super) fn parse_text<const MIN: usize, const MAX: usize>(text: &str) -> Result<String, String> {
    checked_label(text.trim(), MIN..=MAX).map(str::to_owned)
}

/// Formats rows below a line of upper-case headings. Lines have no trailing spaces.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> = headings
        .iter()
        .map(|heading| heading.to_uppercase())
        .collect();
    // The headings take part in the widths.
    lines(std::iter::once(&headings).chain(rows))
}

/// Formats each field as a line `name  value`.
pub fn fields(fields: &[(&str, String)]) -> String {
    let rows: Vec<_> = fields
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), value.clone()])
        .collect();
    lines(rows.iter())
}

/// Formats rows without headings.
pub fn rows(rows: &[Vec<String>]) -> String {
    lines(rows.iter())
}

fn lines<'a>(rows: impl Iterator<Item = &'a Vec<String>>) -> String {
    let visible = |row: &'a Vec<String>| {
        row.iter()
            .map(|cell| Visible(cell).to_string())
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = rows.map(visible).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        for (index, cell) in row.iter().enumerate() {
            // Characters rather than bytes; wide ones are rare in ids and labels.
            let width = cell.chars().count();
            match widths.get_mut(index) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:width$}"))
        .collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["prj_1".into(), "x".into()],
            vec!["p".into(), "ünïcode".into()],
        ];
        assert_eq!(
            table(&["id", "name"], &rows),
            "ID     NAME\nprj_1  x\np      ünïcode\n"
        );
        assert_eq!(table(&["id"], &[]), "ID\n");
        let rows = [
            vec!["a\u{1b}[2J\n".into(), "x".into()],
            vec!["b\u{202e}c".into(), "y".into()],
        ];
        assert_eq!(
            table(&["id", "name"], &rows),
            "ID            NAME\na\\u{1b}[2J\\n  x\nb\\u{202e}c    y\n"
        );
        assert_eq!(
            fields(&[("name", "x".into()), ("id", String::new())]),
            "name  x\nid\n"
        );
    }
}
