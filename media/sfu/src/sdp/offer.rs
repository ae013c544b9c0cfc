//! Media sections in a client's offer.

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Formats, attribute, attributes, encodings, split_sections};
use crate::codec::{Codec, TrackMedium};

/// Number of RTP payload types. Entries beyond it would only take time.
const PAYLOAD_TYPES: usize = 128;

/// Audio or video section of a client's offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedSection {
    /// Media section id.
    pub mid: String,
    /// Audio or video.
    pub medium: TrackMedium,
    /// Whether the client offers to send.
    pub sends: bool,
    /// Whether the client offers to receive.
    pub receives: bool,
    /// The client's id for the track that it sends, if given.
    pub track_id: Option<String>,
    /// Rids of the simulcast layers that it sends, in its order; empty without simulcast.
    pub rids: Vec<String>,
    /// SSRCs that it sends, each with the SSRC of its retransmissions, as far as given.
    pub retransmissions: Vec<(u32, u32)>,
    /// Offered codecs that the server forwards, in the client's order of preference.
    pub codecs: Vec<Codec>,
    /// Requested bitrates per video payload type, as format parameters (`x-google-start-bitrate=1000`).
    pub bitrates: Vec<(String, String)>,
}

/// Format parameters for bitrates, in kilobits per second, understood by WebRTC's native library. It reads them only
/// from the remote description. So LiveKit's SDKs write them into the offer, and an answer must repeat them, as
/// LiveKit's server does.
const BITRATES: [&str; 3] = [
    "x-google-start-bitrate",
    "x-google-min-bitrate",
    "x-google-max-bitrate",
];

/// Maximum payload types whose bitrates are repeated.
const MOST_BITRATES: usize = 16;

/// Maximum SSRCs per section whose retransmissions are read. A client sends three layers, and may list a few earlier
/// SSRCs.
const MOST_SOURCES: usize = 8;

/// Reads the audio and video sections of an offer. Sections without a mid or with other media are left out: Firefox
/// gives its data section a direction, too.
pub fn read_sections(sdp: &str) -> Vec<OfferedSection> {
    // A direction at session level is the default for all sections (RFC 8866, section 6.7).
    let session_direction = split_sections(sdp)
        .next()
        .and_then(direction)
        .unwrap_or(Direction::SendRecv);
    split_sections(sdp)
        .filter_map(|section| read_section(section, session_direction))
        .collect()
}

fn read_section(section: &str, default: Direction) -> Option<OfferedSection> {
    let medium = match section.strip_prefix("m=")?.split_whitespace().next()? {
        "audio" => TrackMedium::Audio,
        "video" => TrackMedium::Video,
        _ => return None,
    };
    let direction = direction(section).unwrap_or(default);
    Some(OfferedSection {
        mid: attribute(section, "mid")?.to_owned(),
        medium,
        sends: matches!(direction, Direction::SendRecv | Direction::SendOnly),
        receives: matches!(direction, Direction::SendRecv | Direction::RecvOnly),
        // The first word is the stream's id.
        track_id: attribute(section, "msid")
            .and_then(|msid| msid.split_whitespace().nth(1))
            .map(str::to_owned),
        rids: attributes(section, "rid")
            .filter_map(sent_rid)
            .map(str::to_owned)
            .collect(),
        retransmissions: attributes(section, "ssrc-group")
            .filter_map(flow_identification)
            .take(MOST_SOURCES)
            .collect(),
        codecs: codecs(section),
        bitrates: if medium == TrackMedium::Video {
            bitrates(section)
        } else {
            Vec::new()
        },
    })
}

/// Returns a section's bitrates by payload type.
fn bitrates(section: &str) -> Vec<(String, String)> {
    let of_format = |format: &str| {
        let (payload_type, parameters) = format.split_once(' ')?;
        let named = parameters
            .split(';')
            .map(str::trim)
            .filter(|parameter| is_bitrate(parameter));
        let named = named.take(BITRATES.len()).collect::<Vec<_>>().join(";");
        (!named.is_empty()).then(|| (payload_type.to_owned(), named))
    };
    attributes(section, "fmtp")
        .filter_map(of_format)
        .take(MOST_BITRATES)
        .collect()
}

fn is_bitrate(parameter: &str) -> bool {
    let is_number = |value: &str| {
        // The value is copied into the answer, so it must not contain anything but a number.
        (1..=9).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
    };
    parameter
        .split_once('=')
        .is_some_and(|(name, value)| BITRATES.contains(&name) && is_number(value))
}

#[derive(Clone, Copy)]
enum Direction {
    SendRecv,
    SendOnly,
    RecvOnly,
    Inactive,
}

fn direction(section: &str) -> Option<Direction> {
    section.lines().find_map(|line| match line.trim_end() {
        "a=sendrecv" => Some(Direction::SendRecv),
        "a=sendonly" => Some(Direction::SendOnly),
        "a=recvonly" => Some(Direction::RecvOnly),
        "a=inactive" => Some(Direction::Inactive),
        _ => None,
    })
}

fn sent_rid(value: &str) -> Option<&str> {
    let mut words = value.split_whitespace();
    let rid = words.next()?;
    // A client may also offer to receive simulcast, which the server never sends.
    (words.next()? == "send").then_some(rid)
}

/// Parses an SSRC with its retransmissions (RFC 5576, section 4.2, and RFC 4588, section 8.8).
fn flow_identification(group: &str) -> Option<(u32, u32)> {
    let mut words = group
        .strip_prefix("FID ")?
        .split_whitespace()
        .map(str::parse);
    let (source, retransmissions) = (words.next()?.ok()?, words.next()?.ok()?);
    // More words, or the same SSRC twice, are not a retransmission pair.
    (words.next().is_none() && source != retransmissions).then_some((source, retransmissions))
}

/// Returns a section's forwarded codecs in the client's order of preference, which is the order of payload types in the
/// `m=` line.
fn codecs(section: &str) -> Vec<Codec> {
    let formats = Formats::new(section);
    let known: Vec<_> = encodings(section)
        .filter_map(|(number, name)| Some((number, formats.forwarded_codec(number, name)?)))
        .collect();
    let payload_types = section
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        // `m=video 9 UDP/TLS/RTP/SAVPF` precedes the payload types.
        .skip(3)
        .take(PAYLOAD_TYPES);
    let mut found = Vec::new();
    for payload_type in payload_types {
        let codec = known
            .iter()
            .find(|(number, _)| *number == payload_type)
            .map(|(_, codec)| *codec);
        found.extend(codec.filter(|codec| !found.contains(codec)));
    }
    found
}

/// Removes candidates whose address is not to keep, and candidates without an address, such as mDNS names.
pub fn filter_candidates(sdp: &str, mut keep: impl FnMut(IpAddr) -> bool) -> Cow<'_, str> {
    // Most browsers trickle their candidates, so there is usually nothing to remove.
    if !sdp.contains("a=candidate") {
        return Cow::Borrowed(sdp);
    }
    let is_kept =
        |line: &&str| !line.starts_with("a=candidate") || address(line).is_some_and(&mut keep);
    Cow::Owned(sdp.split_inclusive('\n').filter(is_kept).collect())
}

/// Returns a candidate's address: `a=candidate:foundation component transport priority address port ...`.
fn address(line: &str) -> Option<IpAddr> {
    line.split(' ').nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: &str = "v=0\r\ns=-\r\na=group:BUNDLE 0 1 2\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\na=mid:0\r\na=recvonly\r\na=rtpmap:111 opus/48000/2\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 102 96 97 98\r\na=mid:1\r\na=sendonly\r\na=msid:stream cid-1\r\n\
        a=rtpmap:96 VP8/90000\r\na=rtpmap:97 rtx/90000\r\na=rtpmap:98 VP9/90000\r\na=rtpmap:102 H264/90000\r\n\
        a=rid:q send\r\na=rid:h send\r\na=rid:x recv\r\na=simulcast:send q;h\r\n\
        m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:2\r\na=sendrecv\r\n";

    #[test]
    fn the_media_sections_of_an_offer_are_read() {
        let sections = read_sections(OFFER);
        let [audio, video] = sections.as_slice() else {
            panic!("two sections, not {sections:?}")
        };
        assert_eq!(
            (audio.mid.as_str(), audio.sends, audio.receives),
            ("0", false, true)
        );
        assert_eq!(
            (audio.medium, audio.codecs.as_slice()),
            (TrackMedium::Audio, &[Codec::Opus][..])
        );
        assert_eq!(
            (video.sends, video.receives, video.track_id.as_deref()),
            (true, false, Some("cid-1"))
        );
        assert_eq!(video.rids, ["q", "h"]);
        assert_eq!(video.codecs, [Codec::H264, Codec::Vp8, Codec::Vp9]);
    }

    #[test]
    fn the_bitrates_of_payload_types_are_read_and_nothing_else_is_taken_for_one() {
        let section = "m=video 9 X 96 102\r\na=mid:0\r\na=fmtp:96 x-google-start-bitrate=1190\r\n\
            a=fmtp:97 apt=96\r\na=fmtp:102 profile-level-id=42e01f; x-google-max-bitrate=9;x-google-start-bitrate=1\r\n\
            a=fmtp:103 x-google-start-bitrate=1x;x-google-start-bitrate=;x-google-flag=1\r\n";
        let bitrates = |section: &str| read_sections(section)[0].bitrates.clone();
        let expected = [
            ("96", "x-google-start-bitrate=1190"),
            ("102", "x-google-max-bitrate=9;x-google-start-bitrate=1"),
        ];
        assert_eq!(
            bitrates(section),
            expected.map(|(number, named)| (number.to_owned(), named.to_owned()))
        );
        assert_eq!(bitrates(&section.replace("m=video", "m=audio")), []);
    }

    #[test]
    fn the_sources_of_retransmissions_are_read_and_no_other_groups() {
        let section = "m=video 9 X 96\r\na=mid:0\r\na=ssrc-group:FID 1 2\r\na=ssrc-group:FEC-FR 1 3\r\na=ssrc-group:FID 4\r\n\
            a=ssrc-group:FID 5 5\r\na=ssrc-group:FID 6 7 8\r\na=ssrc-group:FID 9 4294967296\r\na=ssrc-group:FID 4294967295 10\r\n";
        assert_eq!(
            read_sections(section)[0].retransmissions,
            [(1, 2), (u32::MAX, 10)]
        );
        let many = format!(
            "m=video 9 X 96\na=mid:0\n{}",
            "a=ssrc-group:FID 1 2\n".repeat(MOST_SOURCES + 1)
        );
        assert_eq!(read_sections(&many)[0].retransmissions.len(), MOST_SOURCES);
    }

    #[test]
    fn a_direction_of_the_session_holds_for_sections_without_one() {
        let sections = read_sections(
            "v=0\na=inactive\nm=audio 9 X 0\na=mid:0\nm=video 9 X 0\na=mid:1\na=sendrecv\n",
        );
        assert_eq!(
            sections
                .iter()
                .map(|section| section.sends)
                .collect::<Vec<_>>(),
            [false, true]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "(m=(audio|video) |a=(mid|rid|msid|rtpmap):?|sendonly|\\PC|\r|\n| ){0,60}") {
            read_sections(&text);
        }
    }

    #[test]
    fn only_candidates_with_a_wanted_address_are_kept() {
        let candidate =
            |address: &str| format!("a=candidate:1 1 udp 2130706431 {address} 5000 typ host\r\n");
        let text = |addresses: &[&str]| {
            let candidates: String = addresses.iter().map(|address| candidate(address)).collect();
            format!("v=0\r\nm=audio 9 X 0\r\n{candidates}a=end-of-candidates\r\na=mid:0\r\n")
        };
        // With tabs, a parser that splits at any white space would read another address.
        let hidden = "a=candidate:1\t1\t1\t1\t192.0.2.1\t1 1 udp 1 10.0.0.1 1 typ host\n";
        let offered = text(&["192.0.2.1", "10.0.0.1", "x.local", "2001:db8::1", ""])
            + hidden
            + "a=candidate:1";
        let kept = filter_candidates(&offered, |address| address != IpAddr::from([10, 0, 0, 1]));
        assert_eq!(kept, text(&["192.0.2.1", "2001:db8::1"]));
        assert_eq!(filter_candidates(&offered, |_| false), text(&[]));
        assert!(matches!(
            filter_candidates(&text(&[]), |_| false),
            Cow::Borrowed(_)
        ));
    }
}
