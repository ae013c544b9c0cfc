//! Codecs in a session description.

use std::collections::{HashMap, HashSet};

use super::{attributes, encodings, split_sections};
use crate::codec::Codec;

/// Attributes that concern a payload type.
const PAYLOAD_TYPE_ATTRIBUTES: [&str; 3] = ["a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"];

/// Format parameters of a section's payload types. Collected once, because a section can have thousands of lines.
pub struct Formats<'a>(HashMap<&'a str, &'a str>);

impl<'a> Formats<'a> {
    /// Reads a section's format parameters.
    pub fn new(section: &'a str) -> Self {
        Self(
            attributes(section, "fmtp")
                .filter_map(|format| format.split_once(' '))
                .collect(),
        )
    }

    /// Returns a payload type's codec; `None` if it is not forwarded.
    pub fn forwarded_codec(&self, payload_type: &str, encoding: &str) -> Option<Codec> {
        let codec = Codec::from_mime_type(encoding)?;
        let parameters = self.0.get(payload_type).copied().unwrap_or_default();
        let is_forwarded = codec.is_forwarded(|name| parameter(parameters, name));
        is_forwarded.then_some(codec)
    }
}

/// Returns the value of a format parameter.
fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// Removes codecs that are not forwarded from an offer. Browsers offer up to twenty per video, and str0m takes 3 µs to
/// parse each line. A section that would become empty is left unchanged.
pub fn without_unused_codecs(sdp: &str) -> String {
    let mut text = String::with_capacity(sdp.len());
    for section in split_sections(sdp) {
        let used = used_payload_types(section);
        if used.is_empty() {
            text.push_str(section);
        } else {
            push_used(&mut text, section, &used);
        }
    }
    text
}

/// Returns the payload types of forwarded codecs and of audio redundancy, with their retransmissions.
fn used_payload_types(section: &str) -> Vec<&str> {
    let formats = Formats::new(section);
    let (mut used, mut retransmissions) = (Vec::new(), Vec::new());
    for (payload_type, encoding) in encodings(section) {
        // Video has `red` as well, for ULPFEC, which the server does not forward.
        let is_redundancy = section.starts_with("m=audio") && encoding.eq_ignore_ascii_case("red");
        if is_redundancy || formats.forwarded_codec(payload_type, encoding).is_some() {
            used.push(payload_type);
        } else if encoding.eq_ignore_ascii_case("rtx") {
            retransmissions.push(payload_type);
        }
    }
    // Retransmissions of a removed codec would have nothing to repeat.
    if !used.is_empty() && !retransmissions.is_empty() {
        let of_used = repairs(section)
            .filter(|(_, of)| used.contains(of))
            .map(|(payload_type, _)| payload_type);
        let found: Vec<_> = of_used
            .filter(|payload_type| retransmissions.contains(payload_type))
            .collect();
        used.extend(found);
    }
    used
}

/// Returns a section's retransmission payload types, each with the payload type that it repairs.
pub(super) fn repairs(section: &str) -> impl Iterator<Item = (&str, &str)> {
    let repairs = attributes(section, "fmtp").filter_map(|value| value.split_once(" apt="));
    repairs.map(|(payload_type, of)| (payload_type, of.trim()))
}

/// Appends a section with only these payload types.
pub(super) fn push_used(text: &mut String, section: &str, used: &[&str]) {
    for line in section.split_inclusive('\n') {
        if line.starts_with("m=") {
            let mut words = line.split_whitespace();
            // Medium, port and protocol.
            let first: Vec<_> = words.by_ref().take(3).collect();
            text.push_str(&first.join(" "));
            for payload_type in words.filter(|word| used.contains(word)) {
                text.push(' ');
                text.push_str(payload_type);
            }
            text.push_str("\r\n");
        } else if is_used(line, used) {
            text.push_str(line);
        }
    }
}

fn is_used(line: &str, used: &[&str]) -> bool {
    let of = PAYLOAD_TYPE_ATTRIBUTES
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix));
    let payload_type = of.and_then(|value| value.split_whitespace().next());
    // `a=rtcp-fb:*` concerns all payload types.
    payload_type.is_none_or(|payload_type| payload_type == "*" || used.contains(&payload_type))
}

/// Removes codecs from an offer's sections in which the client sends. It may still receive them. A section that would
/// have no codec left is unchanged. The offer has passed [`check_description`](crate::check_description).
pub fn without_sent_codecs(sdp: &str, refused: &[Codec]) -> String {
    let mut text = String::with_capacity(sdp.len());
    for section in split_sections(sdp) {
        match kept_payload_types(section, refused) {
            Some(kept) => push_used(&mut text, section, &kept),
            None => text.push_str(section),
        }
    }
    text
}

/// Returns the payload types of a section that stay; `None` if all do, or if no codec would be left.
fn kept_payload_types<'a>(section: &'a str, refused: &[Codec]) -> Option<Vec<&'a str>> {
    let sends = section
        .lines()
        .any(|line| matches!(line.trim_end(), "a=sendonly" | "a=sendrecv"));
    if !sends || !section.starts_with("m=") {
        return None;
    }
    let is_refused =
        |name: &str| Codec::from_mime_type(name).is_some_and(|codec| refused.contains(&codec));
    let removed: HashSet<_> = encodings(section)
        .filter(|(_, name)| is_refused(name))
        .map(|(number, _)| number)
        .collect();
    if removed.is_empty() {
        return None;
    }
    let without_use: HashSet<_> = repairs(section)
        .filter(|(_, of)| removed.contains(of))
        .map(|(number, _)| number)
        .collect();
    let kept: Vec<_> = encodings(section)
        .map(|(number, _)| number)
        .filter(|number| !removed.contains(number) && !without_use.contains(number))
        .collect();
    let has_codec = encodings(section)
        .any(|(number, name)| !removed.contains(number) && Codec::from_mime_type(name).is_some());
    has_codec.then_some(kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_said_of_other_codecs_and_of_their_retransmissions_is_removed() {
        // The last section has no forwarded codec at all, and must stay as it is.
        let session = "v=0\r\na=group:BUNDLE 0 1 2\r\n";
        let other = "m=video 9 X 98 99\r\na=mid:2\r\na=rtpmap:98 VP9/90000\r\na=fmtp:98 profile-id=2\r\na=rtpmap:99 rtx/90000\r\na=fmtp:99 apt=98\r\n";
        let offered = "m=audio 9 X 111 63 0 8\r\na=mid:0\r\na=rtpmap:111 opus/48000/2\r\na=rtcp-fb:111 transport-cc\r\n\
            a=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\na=rtpmap:0 PCMU/8000\r\n\
            m=video 9 X 98 99 96 97 100 102\r\na=mid:1\r\na=rtpmap:98 VP9/90000\r\na=rtcp-fb:98 nack\r\na=fmtp:98 profile-id=1\r\n\
            a=rtpmap:99 rtx/90000\r\na=fmtp:99 apt=98\r\na=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 nack pli\r\na=rtcp-fb:* nack\r\n\
            a=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\na=rtpmap:100 red/90000\r\na=rtpmap:102 h264/90000\r\na=sendonly\r\n";
        let used = "m=audio 9 X 111 63\r\na=mid:0\r\na=rtpmap:111 opus/48000/2\r\na=rtcp-fb:111 transport-cc\r\n\
            a=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n\
            m=video 9 X 96 97 102\r\na=mid:1\r\na=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 nack pli\r\na=rtcp-fb:* nack\r\n\
            a=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\na=rtpmap:102 h264/90000\r\na=sendonly\r\n";
        assert_eq!(
            without_unused_codecs(&[session, offered, other].concat()),
            [session, used, other].concat()
        );
    }

    #[test]
    fn one_profile_of_each_codec_is_forwarded() {
        for (encoding, format, codec) in [
            ("VP9/90000", None, Some(Codec::Vp9)),
            ("VP9/90000", Some("profile-id=0"), Some(Codec::Vp9)),
            ("VP9/90000", Some("profile-id=2"), None),
            (
                "AV1/90000",
                Some("level-idx=5;profile=0;tier=0"),
                Some(Codec::Av1),
            ),
            ("AV1/90000", Some("level-idx=5;profile=1;tier=0"), None),
            ("AV1/90000", Some("level-idx=13"), None),
            (
                "H265/90000",
                Some("level-id=93; profile-id=1; tier-flag=0; tx-mode=SRST"),
                Some(Codec::H265),
            ),
            (
                "H265/90000",
                Some("level-id=156;profile-id=2;tier-flag=0;tx-mode=SRST"),
                None,
            ),
            ("H264/90000", None, Some(Codec::H264)),
            (
                "H264/90000",
                Some("packetization-mode=1;profile-level-id=42e01f"),
                Some(Codec::H264),
            ),
            (
                "H264/90000",
                Some("profile-level-id=4d801f"),
                Some(Codec::H264),
            ),
            ("H264/90000", Some("profile-level-id=4d001f"), None),
            ("H264/90000", Some("profile-level-id=f4001f"), None),
            ("VP10/90000", None, None),
        ] {
            let format = format
                .map(|format| format!("a=fmtp:96 {format}\r\n"))
                .unwrap_or_default();
            let section = format!("m=video 9 X 96\r\na=rtpmap:96 {encoding}\r\n{format}");
            let name = encoding.split('/').next().unwrap();
            assert_eq!(
                Formats::new(&section).forwarded_codec("96", name),
                codec,
                "{section}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "(m=(audio|video) |a=(rtpmap|fmtp|rtcp-fb):|VP8|VP9|AV1|rtx/| apt=|profile(-id)?=|;|[0-9]|\\PC|\r|\n| ){0,60}") {
            without_unused_codecs(&text);
        }
    }

    fn section(direction: &str) -> String {
        format!(
            "m=video 9 X 96 97 102 103\r\na=mid:1\r\na=rtpmap:96 VP8/90000\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n\
             a=rtpmap:102 H264/90000\r\na=rtcp-fb:102 nack\r\na=rtpmap:103 rtx/90000\r\na=fmtp:103 apt=102\r\na={direction}\r\n"
        )
    }

    #[test]
    fn a_refused_codec_is_removed_with_its_retransmissions_where_the_client_sends() {
        let kept = "m=video 9 X 96 97\r\na=mid:1\r\na=rtpmap:96 VP8/90000\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n";
        for direction in ["sendonly", "sendrecv"] {
            let offer = format!("v=0\r\n{}{}", section(direction), section("recvonly"));
            let expected = format!("v=0\r\n{kept}a={direction}\r\n{}", section("recvonly"));
            assert_eq!(without_sent_codecs(&offer, &[Codec::H264]), expected);
            assert_eq!(without_sent_codecs(&offer, &[Codec::Opus]), offer);
        }
    }

    #[test]
    fn a_section_with_no_other_codec_stays() {
        let offer = "v=0\r\nm=video 9 X 102\r\na=rtpmap:102 H264/90000\r\na=sendonly\r\n";
        assert_eq!(without_sent_codecs(offer, &[Codec::H264]), offer);
    }

    proptest! {
        #[test]
        fn codecs_are_removed_from_any_text(text in "(m=(audio|video) |a=(rtpmap|fmtp):|VP8|H264|rtx/| apt=|a=sendonly|[0-9]|\\PC|\r|\n| ){0,60}") {
            without_sent_codecs(&text, &[Codec::H264]);
        }
    }
}
