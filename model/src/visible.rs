//! Characters that change how a terminal or a page shows the text around them.

use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;

/// Returns whether a character is a control character, ends a line, or sets the direction of the following text: it could make a text look
/// like another one.
#[must_use]
pub fn is_deceptive(letter: char) -> bool {
    // Arabic letter mark, direction marks, line and paragraph separators, then embeddings, overrides
    // and isolates (UAX #9, section 2).
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Characters for which [`is_deceptive`] is true, for a class in a pattern.
macro_rules! deceptive_class {
    () => {
        r"\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    };
}
pub(crate) use deceptive_class;

/// Checks a project's name or a key's label: `lengths` characters, none of them deceptive.
///
/// # Errors
/// Returns the allowed values.
pub fn checked_label(text: &str, lengths: RangeInclusive<usize>) -> Result<&str, String> {
    if lengths.contains(&text.chars().count()) && !text.contains(is_deceptive) {
        return Ok(text);
    }
    let (least, most) = (lengths.start(), lengths.end());
    Err(format!(
        "must be {least} to {most} characters, none of them a control character or a mark of direction"
    ))
}

/// Text whose deceptive characters are escaped, as `\n` or `\u{202e}`.
#[derive(Debug, Clone, Copy)]
pub struct Visible<T>(pub T);

impl<T: Display> Display for Visible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Escapes written text.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        // Most texts have none, and are written as a whole.
        while let Some(at) = rest.find(is_deceptive) {
            let (before, found) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut letters = found.chars();
            if let Some(letter) = letters.next() {
                // A log line with it stays one line.
                write!(self.0, "{}", letter.escape_default())?;
            }
            rest = letters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_deceives_is_escaped_and_all_else_is_shown() {
        for (text, shown) in [
            ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
            ("a\nb\r\t", "a\\nb\\r\\t"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("gpj\u{202e}exe", "gpj\\u{202e}exe"),
            (
                "\u{2066}\u{2069}\u{61c}\u{2028}",
                "\\u{2066}\\u{2069}\\u{61c}\\u{2028}",
            ),
            (
                "Küche שלום 会議 👩\u{200d}🍳",
                "Küche שלום 会議 👩\u{200d}🍳",
            ),
        ] {
            assert_eq!(Visible(text).to_string(), shown);
        }
    }

    #[test]
    fn a_label_has_no_deceptive_character() {
        assert_eq!(checked_label("Küche שלום", 1..=10), Ok("Küche שלום"));
        for refused in [
            "",
            "12345678901",
            "a\nb",
            "a\u{202e}b",
            "\u{200f}",
            "a\u{2067}",
        ] {
            assert!(checked_label(refused, 1..=10).is_err(), "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_deceptive_is_shown(text in any::<String>()) {
            prop_assert!(!Visible(&text).to_string().contains(is_deceptive));
        }
    }
}
