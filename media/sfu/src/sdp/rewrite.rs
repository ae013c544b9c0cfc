//! Changes to session descriptions that str0m has written.

use super::{attribute, attributes, encodings, split_sections};
use crate::codec::Codec;

/// Change of a media section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionChange {
    /// Inactive: the section carries nothing, but may be used later.
    Inactive,
    /// The server sends a track on it.
    Sending {
        /// Stream id: `{participant sid}|{track sid}`.
        stream: String,
        /// Track id: the track's sid.
        track: String,
    },
    /// The server receives a track on it.
    Receiving(Receiving),
}

/// Preferences for a track that the client will send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiving {
    /// Codec to list first. Clients send an answer's first codec.
    pub codec: Codec,
    /// Opus: send in stereo, with a higher bitrate.
    pub is_stereo: bool,
    /// Opus: stop sending during silence (DTX).
    pub uses_dtx: bool,
    /// Opus: send with redundancy (RED) if the client supports it.
    pub uses_red: bool,
    /// Video: the bitrates in the client's offer, by payload type.
    pub bitrates: Vec<(String, String)>,
}

/// Changes sections as `change` returns for their mids; `None` leaves a section unchanged.
pub fn rewrite(sdp: &str, mut change: impl FnMut(&str) -> Option<SectionChange>) -> String {
    // The added parameters usually fit into the reserve.
    let mut text = String::with_capacity(sdp.len() + 256);
    for section in split_sections(sdp) {
        match attribute(section, "mid").and_then(&mut change) {
            Some(change) => apply(&mut text, section, &change),
            None => text.push_str(section),
        }
    }
    text
}

fn apply(text: &mut String, section: &str, change: &SectionChange) {
    for line in section.lines() {
        match change {
            SectionChange::Inactive => push_inactive(text, line),
            SectionChange::Sending { stream, track } => push_sending(text, line, stream, track),
            SectionChange::Receiving(receiving) => push_receiving(text, section, line, receiving),
        }
    }
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push_str("\r\n");
}

fn is_direction(line: &str) -> bool {
    matches!(
        line,
        "a=sendrecv" | "a=sendonly" | "a=recvonly" | "a=inactive"
    )
}

fn push_inactive(text: &mut String, line: &str) {
    if is_direction(line) {
        push(text, "a=inactive");
    // Without them, the client sees no track on the section.
    } else if !["a=msid:", "a=ssrc:", "a=ssrc-group:"]
        .iter()
        .any(|prefix| line.starts_with(prefix))
    {
        push(text, line);
    }
}

fn push_sending(text: &mut String, line: &str, stream: &str, track: &str) {
    if is_direction(line) {
        push(text, "a=sendonly");
    // LiveKit's clients find the publisher and the track by these ids.
    } else if line.starts_with("a=msid:") {
        push(text, &format!("a=msid:{stream} {track}"));
    } else if let Some(ssrc) = line
        .strip_prefix("a=ssrc:")
        .and_then(|value| value.split_once(" msid:"))
        .map(|(ssrc, _)| ssrc)
    {
        // The SSRC's attribute repeats the ids, and must agree with `a=msid`.
        push(text, &format!("a=ssrc:{ssrc} msid:{stream} {track}"));
    } else {
        push(text, line);
    }
}

fn push_receiving(text: &mut String, section: &str, line: &str, receiving: &Receiving) {
    if line.starts_with("m=") {
        push(text, &ordered_payload_types(section, line, receiving));
    } else if is_opus_format(section, line) {
        push(text, &format!("{line}{}", opus_parameters(receiving)));
    } else if let Some(bitrates) = bitrates_of(line, "a=fmtp:", receiving) {
        push(text, &format!("{line};{bitrates}"));
    // Without redundancy, its payload type must disappear from the whole section.
    } else if receiving.uses_red || !is_about_red(section, line) {
        push(text, line);
        push_format_with_bitrates(text, section, line, receiving);
    }
}

/// Returns the bitrates for an attribute's payload type.
fn bitrates_of<'a>(line: &str, attribute: &str, receiving: &'a Receiving) -> Option<&'a str> {
    let (payload_type, _) = line.strip_prefix(attribute)?.split_once(' ')?;
    receiving
        .bitrates
        .iter()
        .find(|(number, _)| number == payload_type)
        .map(|(_, bitrates)| bitrates.as_str())
}

/// Adds format parameters after the first line of a payload type that has none except bitrates, such as VP8.
fn push_format_with_bitrates(text: &mut String, section: &str, line: &str, receiving: &Receiving) {
    let Some(bitrates) = bitrates_of(line, "a=rtpmap:", receiving) else {
        return;
    };
    let Some(payload_type) = line
        .strip_prefix("a=rtpmap:")
        .and_then(|map| map.split(' ').next())
    else {
        return;
    };
    let mut formats = attributes(section, "fmtp").filter_map(|format| format.split(' ').next());
    // Otherwise the bitrates are appended to the existing parameters.
    if !formats.any(|known| known == payload_type) {
        push(text, &format!("a=fmtp:{payload_type} {bitrates}"));
    }
}

/// Returns whether a line describes redundancy's payload type.
fn is_about_red(section: &str, line: &str) -> bool {
    let described = ["a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"]
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix));
    let payload_type = described.and_then(|text| text.split(' ').next());
    payload_type
        .and_then(|number| encoding(section, number))
        .is_some_and(is_red)
}

fn is_red(encoding: &str) -> bool {
    encoding.eq_ignore_ascii_case("red")
}

/// Returns the `m=` line with the codec's payload types first, and without redundancy unless it is wanted.
fn ordered_payload_types(section: &str, line: &str, receiving: &Receiving) -> String {
    let mut words = line.split(' ');
    let head: Vec<_> = words.by_ref().take(3).collect();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for payload_type in words {
        let codec = encoding(section, payload_type);
        let is_red = codec.is_some_and(is_red);
        if is_red && !receiving.uses_red {
            continue;
        }
        // Redundancy first: it wraps the Opus payload type, and clients send the first one.
        let is_first = is_red || codec.and_then(Codec::from_mime_type) == Some(receiving.codec);
        if is_first { &mut first } else { &mut others }.push(payload_type);
    }
    [head, first, others].concat().join(" ")
}

/// Returns a payload type's encoding name.
fn encoding<'a>(section: &'a str, payload_type: &str) -> Option<&'a str> {
    encodings(section)
        .find(|(number, _)| *number == payload_type)
        .map(|(_, name)| name)
}

/// Returns whether a line contains format parameters for Opus.
fn is_opus_format(section: &str, line: &str) -> bool {
    let payload_type = line
        .strip_prefix("a=fmtp:")
        .and_then(|format| format.split_once(' '))
        .map(|(number, _)| number);
    payload_type
        .and_then(|number| encoding(section, number))
        .and_then(Codec::from_mime_type)
        == Some(Codec::Opus)
}

fn opus_parameters(receiving: &Receiving) -> String {
    let dtx = if receiving.uses_dtx { ";usedtx=1" } else { "" };
    let stereo = if receiving.is_stereo {
        // The maximum for Opus (RFC 7587, section 6.1).
        ";stereo=1;maxaveragebitrate=510000"
    } else {
        ""
    };
    format!("{dtx}{stereo}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Like str0m's text, but shortened.
    const TEXT: &str = "v=0\r\na=group:BUNDLE 0 1\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 63 111\r\na=mid:0\r\na=sendonly\r\na=msid:x y\r\na=rtpmap:63 red/48000/2\r\n\
        a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\na=fmtp:63 111/111\r\n\
        a=ssrc:1 cname:y\r\na=ssrc:1 msid:x y\r\na=ssrc-group:FID 1 2\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 96 97 102\r\na=mid:1\r\na=recvonly\r\na=rtpmap:96 VP8/90000\r\n\
        a=rtpmap:97 rtx/90000\r\na=rtpmap:102 H264/90000\r\n";

    fn receiving(codec: Codec, bitrates: &[(&str, &str)]) -> Receiving {
        let bitrates = bitrates
            .iter()
            .map(|(number, named)| ((*number).to_owned(), (*named).to_owned()))
            .collect();
        Receiving {
            codec,
            is_stereo: false,
            uses_dtx: false,
            uses_red: false,
            bitrates,
        }
    }

    fn changed(mid: &'static str, change: &SectionChange) -> String {
        rewrite(TEXT, |found| (found == mid).then(|| change.clone()))
    }

    #[test]
    fn a_section_without_change_stays_as_it_is() {
        assert_eq!(rewrite(TEXT, |_| None), TEXT);
    }

    #[test]
    fn an_inactive_section_names_no_stream_and_no_source() {
        let text = changed("0", &SectionChange::Inactive);
        assert!(
            text.contains("a=mid:0\r\na=inactive\r\na=rtpmap:63"),
            "{text}"
        );
        assert!(!text.contains("ssrc") && !text.contains("msid"), "{text}");
    }

    #[test]
    fn a_sending_section_names_its_track() {
        let text = changed(
            "0",
            &SectionChange::Sending {
                stream: "PA_1|TR_1".to_owned(),
                track: "TR_1".to_owned(),
            },
        );
        assert!(text.contains("a=msid:PA_1|TR_1 TR_1\r\n"), "{text}");
        assert!(
            text.contains("a=ssrc:1 cname:y\r\na=ssrc:1 msid:PA_1|TR_1 TR_1\r\n"),
            "{text}"
        );
    }

    #[test]
    fn a_receiving_section_asks_for_its_codec_first() {
        let text = changed("1", &SectionChange::Receiving(receiving(Codec::H264, &[])));
        assert!(
            text.contains("m=video 9 UDP/TLS/RTP/SAVPF 102 96 97\r\n"),
            "{text}"
        );
        assert!(
            !text.contains("a=fmtp:96") && !text.contains("a=fmtp:102"),
            "{text}"
        );
    }

    #[test]
    fn a_receiving_section_repeats_the_bitrates_of_the_offer() {
        let of = [
            ("96", "x-google-start-bitrate=1190"),
            ("102", "x-google-start-bitrate=900"),
        ];
        let text = changed("1", &SectionChange::Receiving(receiving(Codec::Vp8, &of)));
        assert!(
            text.contains("a=rtpmap:96 VP8/90000\r\na=fmtp:96 x-google-start-bitrate=1190\r\n"),
            "{text}"
        );
        // A payload type without parameters gets a new line.
        assert_eq!(text.matches("a=fmtp:102").count(), 1, "{text}");
        // With parameters, the bitrates are appended to them.
        let with_format = TEXT.replace(
            "H264/90000\r\n",
            "H264/90000\r\na=fmtp:102 packetization-mode=1\r\n",
        );
        let change = SectionChange::Receiving(receiving(Codec::Vp8, &of));
        let text = rewrite(&with_format, |mid| (mid == "1").then(|| change.clone()));
        assert!(
            text.contains("a=fmtp:102 packetization-mode=1;x-google-start-bitrate=900\r\n"),
            "{text}"
        );
        assert_eq!(text.matches("a=fmtp:102").count(), 1, "{text}");
    }

    #[test]
    fn opus_is_asked_for_as_the_publisher_wants_it() {
        let all = Receiving {
            is_stereo: true,
            uses_dtx: true,
            uses_red: true,
            ..receiving(Codec::Opus, &[])
        };
        let text = changed("0", &SectionChange::Receiving(all));
        assert!(text.contains("SAVPF 63 111\r\n"), "{text}");
        assert!(
            text.contains("useinbandfec=1;usedtx=1;stereo=1;maxaveragebitrate=510000\r\n"),
            "{text}"
        );
        let text = changed("0", &SectionChange::Receiving(receiving(Codec::Opus, &[])));
        assert!(
            text.contains("SAVPF 111\r\n")
                && !text.contains("red/")
                && text.contains("useinbandfec=1\r\n"),
            "{text}"
        );
    }
}
