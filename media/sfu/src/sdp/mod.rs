//! SDP as text: reading clients' offers, and changing the descriptions that str0m writes.
//!
//! str0m negotiates, but it gives every sending section a random stream id and cannot rename it, nor order payload
//! types. It does not read its own text back, so the text can be changed before it is sent. A client's description is
//! checked for its size before it is parsed, which takes far longer.

mod codecs;
mod offer;
mod rewrite;

use crate::config::Limits;
use codecs::Formats;
pub use codecs::{without_sent_codecs, without_unused_codecs};
pub use offer::{OfferedSection, filter_candidates, read_sections};
pub use rewrite::{Receiving, SectionChange, rewrite};

/// A session description is larger than any client needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionTooLarge {
    /// The text, or one line, has too many bytes.
    #[error("a session description has too many bytes")]
    Bytes,
    /// Too many lines.
    #[error("a session description has too many lines")]
    Lines,
    /// Too many media sections.
    #[error("a session description has too many media sections")]
    Sections,
    /// Too many ICE candidates.
    #[error("a session description has too many candidates")]
    Candidates,
}

/// Checks a session description's size by the media workers' default limits, so that oversized ones do not reach them.
///
/// # Errors
///
/// If a limit is exceeded.
pub fn check_description(text: &str) -> Result<(), DescriptionTooLarge> {
    check(text, &Limits::default())
}

/// Checks a session description's size.
pub fn check(text: &str, limits: &Limits) -> Result<(), DescriptionTooLarge> {
    if text.len() > limits.sdp_bytes {
        return Err(DescriptionTooLarge::Bytes);
    }
    let (mut lines, mut sections, mut candidates) = (0, 0, 0);
    // Counted without a parser, so that even a description of megabytes costs little.
    for line in text.split(['\r', '\n']).filter(|line| !line.is_empty()) {
        lines += 1;
        sections += usize::from(line.starts_with("m="));
        candidates += usize::from(line.starts_with("a=candidate"));
        if line.len() > limits.sdp_line_bytes {
            return Err(DescriptionTooLarge::Bytes);
        }
    }
    // One of the sections may be for the data channels.
    match (lines, sections, candidates) {
        (lines, _, _) if lines > limits.sdp_lines => Err(DescriptionTooLarge::Lines),
        (_, sections, _) if sections > limits.media_sections + 1 => {
            Err(DescriptionTooLarge::Sections)
        }
        (_, _, candidates) if candidates > limits.candidates => {
            Err(DescriptionTooLarge::Candidates)
        }
        _ => Ok(()),
    }
}

/// Splits a text into its session part and its media sections, each starting with its `m=` line.
fn split_sections(sdp: &str) -> impl Iterator<Item = &str> {
    let mut rest = sdp;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // A section starts after the line break before its `m=`.
        let end = rest.find("\nm=").map_or(rest.len(), |at| at + 1);
        let (section, behind) = rest.split_at(end);
        rest = behind;
        Some(section)
    })
}

/// Returns the first value of a section's attribute with this name.
fn attribute<'a>(section: &'a str, name: &str) -> Option<&'a str> {
    attributes(section, name).next()
}

/// Returns a section's payload types, each with its encoding name.
fn encodings(section: &str) -> impl Iterator<Item = (&str, &str)> {
    attributes(section, "rtpmap").filter_map(|map| {
        let (payload_type, encoding) = map.split_once(' ')?;
        Some((payload_type, encoding.split('/').next().unwrap_or(encoding)))
    })
}

/// Returns all values of a section's attributes with this name.
fn attributes<'a>(section: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    section.lines().filter_map(move |line| {
        line.strip_prefix("a=")?
            .strip_prefix(name)?
            .strip_prefix(':')
            .map(str::trim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_too_large_by_any_of_its_counts() {
        let limits = Limits {
            sdp_bytes: 1000,
            sdp_lines: 20,
            sdp_line_bytes: 100,
            media_sections: 2,
            candidates: 3,
            ..Limits::default()
        };
        let check = |text: &str, count| check(&text.repeat(count), &limits);
        assert_eq!(check("v", 100), Ok(()));
        assert_eq!(check("v", 101), Err(DescriptionTooLarge::Bytes));
        assert_eq!(check("a=x\r\n", 20), Ok(()));
        assert_eq!(check("a=x\r\n", 21), Err(DescriptionTooLarge::Lines));
        assert_eq!(check("a=x\r", 21), Err(DescriptionTooLarge::Lines));
        assert_eq!(check("m=audio\n", 3), Ok(()));
        assert_eq!(check("m=audio\n", 4), Err(DescriptionTooLarge::Sections));
        assert_eq!(check("a=candidate:1 1 udp\r\n", 3), Ok(()));
        assert_eq!(
            check("a=candidate:1 1 udp\r\n", 4),
            Err(DescriptionTooLarge::Candidates)
        );
        assert_eq!(
            check("a=candidate:1 1 udp\r\n", 60),
            Err(DescriptionTooLarge::Bytes)
        );
    }

    #[test]
    fn a_description_of_a_large_call_fits() {
        let section = "m=video 9 UDP/TLS/RTP/SAVPF 96 97\r\n".to_owned()
            + &"a=rtpmap:96 VP8/90000\r\n".repeat(18);
        assert_eq!(check_description(&section.repeat(1024)), Ok(()));
        assert_eq!(
            check_description(&"m=audio 9 UDP/TLS/RTP/SAVPF 96\r\n".repeat(1026)),
            Err(DescriptionTooLarge::Sections)
        );
    }
}
