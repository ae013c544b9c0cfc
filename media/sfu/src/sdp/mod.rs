//! SDP as text: what an offer of a client says, and changes to the text that str0m has written.
//!
//! str0m negotiates, but it gives every sending section a random stream and cannot rename one, nor order payload types.
//! It does not read its own text back, so that text is changed before it is sent.

mod codecs;
mod limits;
mod offer;
mod rewrite;

use codecs::Formats;
pub use codecs::{without_sent_codecs, without_unused_codecs};
pub use limits::{DescriptionTooLarge, check, check_description};
pub use offer::{OfferedSection, filter_candidates, read_sections};
pub use rewrite::{Receiving, SectionChange, rewrite};

/// Splits a text into its session part and its media sections, each beginning with its `m=` line.
fn split_sections(sdp: &str) -> impl Iterator<Item = &str> {
    let mut rest = sdp;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find("\nm=").map_or(rest.len(), |at| at + 1);
        let (section, behind) = rest.split_at(end);
        rest = behind;
        Some(section)
    })
}

/// Returns the value of the first attribute with this name in a section.
fn attribute<'a>(section: &'a str, name: &str) -> Option<&'a str> {
    attributes(section, name).next()
}

/// Returns the payload types of a section, each with the name of the encoding that it stands for.
fn encodings(section: &str) -> impl Iterator<Item = (&str, &str)> {
    attributes(section, "rtpmap").filter_map(|map| {
        let (payload_type, encoding) = map.split_once(' ')?;
        Some((payload_type, encoding.split('/').next().unwrap_or(encoding)))
    })
}

/// Returns the values of all attributes with this name in a section.
fn attributes<'a>(section: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    section.lines().filter_map(move |line| {
        line.strip_prefix("a=")?
            .strip_prefix(name)?
            .strip_prefix(':')
            .map(str::trim)
    })
}
