//! The codecs with which a client offers to send.

use std::collections::HashSet;

use super::codecs::{push_used, repairs};
use super::{encodings, split_sections};
use crate::track::Codec;

/// Removes codecs from the sections of an offer in which the client sends. It may receive them all the same. A section of which no codec
/// would be left stays as it is. The offer has passed [`check_description`](crate::check_description).
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

/// Returns the payload types of a section that stay; `None` if that is all of them, or none with a codec.
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
        fn any_text_is_read(text in "(m=(audio|video) |a=(rtpmap|fmtp):|VP8|H264|rtx/| apt=|a=sendonly|[0-9]|\\PC|\r|\n| ){0,60}") {
            without_sent_codecs(&text, &[Codec::H264]);
        }
    }
}
