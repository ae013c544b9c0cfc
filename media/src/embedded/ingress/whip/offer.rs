//! An encoder's offer: the tracks that it announces, and its codec profiles, which are rewritten.
//!
//! A media worker negotiates only the profile of each codec that all receivers support. Transcoded video may have any profile, so an
//! offer is rewritten before the media worker parses it, and its answer afterwards.

use std::collections::HashMap;
use std::sync::LazyLock;

use conclave_model::participant::{TrackKind, TrackSource};
use conclave_sfu::{Codec, OfferedSection, TrackMedium};
use livekit_protocol as proto;
use proto::{AddTrackRequest, AudioTrackFeature, SimulcastCodec};

use crate::embedded::ingress::refusal::EncoderRefusal;
use crate::protocol::{source_to_proto, track_kind_to_proto};

/// Refusal of an offer that the media worker cannot use.
pub(super) const UNUSABLE: EncoderRefusal =
    EncoderRefusal::BadStream("the session description of the encoder cannot be used");

/// Returns the tracks that an offer announces: at most one per medium.
pub fn announced_tracks(offer: &str) -> Result<Vec<AddTrackRequest>, EncoderRefusal> {
    conclave_sfu::check_description(offer).map_err(|_| UNUSABLE)?;
    // Sections that only receive are ignored: encoders may offer both directions by default.
    let sections: Vec<_> = conclave_sfu::read_sections(offer)
        .into_iter()
        .filter(|section| section.sends)
        .collect();
    let number = |medium| {
        sections
            .iter()
            .filter(|section| section.medium == medium)
            .count()
    };
    if sections.is_empty() {
        return Err(EncoderRefusal::BadStream(
            "the offer must have an audio or a video section that sends",
        ));
    } else if number(TrackMedium::Audio) > 1 || number(TrackMedium::Video) > 1 {
        return Err(EncoderRefusal::BadStream(
            "the offer must not have more than one section of audio and of video",
        ));
    }
    sections.iter().map(announced_track).collect()
}

/// Refusal of an offer without a supported codec.
static NO_CODEC: LazyLock<String> = LazyLock::new(|| {
    let videos = Codec::ALL
        .into_iter()
        .filter(|codec| codec.medium() == TrackMedium::Video);
    let names: Vec<_> = videos.map(Codec::name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!(
        "the offer must have Opus for audio, and {} or {last} for video",
        others.join(", ")
    )
});

fn announced_track(section: &OfferedSection) -> Result<AddTrackRequest, EncoderRefusal> {
    let Some(codec) = section.codecs.first() else {
        return Err(EncoderRefusal::BadStream(&NO_CODEC));
    };
    let (kind, source) = match section.medium {
        TrackMedium::Audio => (TrackKind::Audio, TrackSource::Microphone),
        TrackMedium::Video => (TrackKind::Video, TrackSource::Camera),
    };
    Ok(AddTrackRequest {
        // Without `a=msid`, the section's own id identifies the track.
        cid: section
            .track_id
            .clone()
            .unwrap_or_else(|| section.mid.clone()),
        r#type: track_kind_to_proto(kind).into(),
        source: source_to_proto(source).into(),
        // The first codec in a section is the encoder's preference.
        simulcast_codecs: vec![SimulcastCodec {
            codec: codec.mime_type().into(),
            ..SimulcastCodec::default()
        }],
        // Encoders usually send music or a programme, which discontinuous transmission would cut.
        audio_features: vec![
            AudioTrackFeature::TfStereo.into(),
            AudioTrackFeature::TfNoDtx.into(),
        ],
        ..AddTrackRequest::default()
    })
}

/// Original format parameters in an encoder's offer, by payload type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OfferedProfiles(HashMap<String, String>);

impl OfferedProfiles {
    /// Rewrites an offer to profiles that a media worker accepts, unless it already contains one.
    pub fn replace(offer: &str) -> (String, Self) {
        let is_known = conclave_sfu::read_sections(offer)
            .iter()
            .filter(|section| section.medium == TrackMedium::Video && section.sends)
            .all(|section| !section.codecs.is_empty());
        // The media worker chooses the supported profile, so only the others would be rewritten.
        if is_known {
            return (offer.to_owned(), Self::default());
        }
        let mut offered = HashMap::new();
        // Payload types are unique in the whole description, since all sections share a connection.
        let encodings: HashMap<_, _> = offer.lines().filter_map(encoding).collect();
        let changed = map_formats(offer, |payload_type, parameters| {
            let known = known_parameters(encodings.get(payload_type)?, parameters)?;
            offered.insert(payload_type.to_owned(), parameters.to_owned());
            Some(known)
        });
        (changed, Self(offered))
    }

    /// Restores the encoder's profiles in an answer.
    pub fn restore(&self, answer: &str) -> String {
        map_formats(answer, |payload_type, _| self.0.get(payload_type).cloned())
    }
}

/// Returns payload type and encoding name from an `rtpmap` line.
fn encoding(line: &str) -> Option<(&str, &str)> {
    let (payload_type, encoding) = line.trim_end().strip_prefix("a=rtpmap:")?.split_once(' ')?;
    // The clock rate follows the slash.
    Some((payload_type, encoding.split('/').next()?))
}

/// Returns format parameters that a media worker accepts; `None` if they need no change.
fn known_parameters(encoding: &str, parameters: &str) -> Option<String> {
    let codec = Codec::from_mime_type(encoding)?;
    let value = |name: &str| {
        codec
            .common_profile()
            .iter()
            // Encoders differ in the case of parameter names.
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
    // Only the parameters of the profile change. Others, such as the packetization mode, must stay.
    let changed = parameters.split(';').map(|parameter| {
        let name = parameter.split('=').next().unwrap_or_default().trim();
        value(name).map_or_else(
            || parameter.trim().to_owned(),
            |value| format!("{name}={value}"),
        )
    });
    let changed = changed.collect::<Vec<_>>().join(";");
    (changed != parameters).then_some(changed)
}

/// Replaces format parameters for which `change` returns others, by payload type and parameters.
fn map_formats(description: &str, mut change: impl FnMut(&str, &str) -> Option<String>) -> String {
    let mut changed = String::with_capacity(description.len());
    // Unchanged lines keep their line ends.
    for line in description.split_inclusive('\n') {
        let format = line.trim_end().strip_prefix("a=fmtp:");
        let replaced = format.and_then(|format| format.split_once(' ')).and_then(
            |(payload_type, parameters)| {
                let parameters = change(payload_type, parameters)?;
                Some(format!("a=fmtp:{payload_type} {parameters}\r\n"))
            },
        );
        changed.push_str(replaced.as_deref().unwrap_or(line));
    }
    changed
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn offer(formats: &[(&str, &str)]) -> String {
        let payload_types: String = (96..)
            .take(formats.len())
            .map(|payload_type| format!(" {payload_type}"))
            .collect();
        let mut offer = format!(
            "v=0\r\nm=audio 9 X 111\r\na=mid:0\r\na=sendonly\r\na=rtpmap:111 opus/48000/2\r\n\
            a=fmtp:111 useinbandfec=1\r\nm=video 9 X{payload_types}\r\na=mid:1\r\na=sendonly\r\n"
        );
        for ((encoding, parameters), payload_type) in formats.iter().zip(96..) {
            write!(
                offer,
                "a=rtpmap:{payload_type} {encoding}/90000\r\na=fmtp:{payload_type} {parameters}\r\n"
            )
            .unwrap();
        }
        offer
    }

    #[test]
    fn an_encoder_may_offer_any_profile_and_is_answered_by_it() {
        for (encoding, offered, known, codec) in [
            (
                "H264",
                "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=6e0028",
                "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f",
                Codec::H264,
            ),
            ("VP9", "profile-id=2", "profile-id=0", Codec::Vp9),
            (
                "av1",
                "level-idx=8; profile=1;tier=1",
                "level-idx=5;profile=0;tier=0",
                Codec::Av1,
            ),
            (
                "H265",
                "level-id=93;profile-id=2;tier-flag=1;tx-mode=SRST",
                "level-id=93;profile-id=1;tier-flag=0;tx-mode=SRST",
                Codec::H265,
            ),
        ] {
            let text = offer(&[(encoding, offered)]);
            assert!(conclave_sfu::read_sections(&text)[1].codecs.is_empty());
            let (changed, profiles) = OfferedProfiles::replace(&text);
            assert_eq!(changed, offer(&[(encoding, known)]));
            assert_eq!(conclave_sfu::read_sections(&changed)[1].codecs, [codec]);
            assert_eq!(profiles.restore(&changed), text);
        }
    }

    #[test]
    fn an_offer_with_a_known_profile_stays_as_it_is() {
        let text = offer(&[
            ("H264", "packetization-mode=1;profile-level-id=640028"),
            ("H264", "packetization-mode=1;profile-level-id=42e01f"),
        ]);
        assert_eq!(
            OfferedProfiles::replace(&text),
            (text.clone(), OfferedProfiles::default())
        );
        let other = offer(&[("H263", "profile=3")]);
        assert_eq!(
            OfferedProfiles::replace(&other),
            (other.clone(), OfferedProfiles::default())
        );
    }

    const BOTH: &str = "v=0\r\nm=audio 9 X 111\r\na=mid:0\r\na=sendonly\r\na=rtpmap:111 opus/48000/2\r\n\
        m=video 9 X 97 96\r\na=mid:1\r\na=sendonly\r\na=msid:stream pictures\r\na=rtpmap:96 VP8/90000\r\n\
        a=rtpmap:97 H264/90000\r\n";

    fn description(sections: &str) -> String {
        format!("v=0\r\n{sections}")
    }

    #[test]
    fn the_first_codec_of_a_section_is_preferred_and_its_msid_names_the_track() {
        let tracks = announced_tracks(BOTH).unwrap();
        let seen: Vec<_> = tracks
            .iter()
            .map(|track| (track.cid.as_str(), &*track.simulcast_codecs[0].codec))
            .collect();
        assert_eq!(
            seen,
            [
                ("0", Codec::Opus.mime_type()),
                ("pictures", Codec::H264.mime_type())
            ]
        );
    }

    #[test]
    fn an_offer_has_one_section_of_a_medium_with_a_codec_of_ours() {
        let section = |codec: &str| {
            format!(
                "m=video 9 X 96\r\na=mid:{codec}\r\na=sendonly\r\na=rtpmap:96 {codec}/90000\r\n"
            )
        };
        assert!(
            announced_tracks(&description(&section("VP8"))).is_ok()
                && announced_tracks(&description(&section("AV1"))).is_ok()
        );
        for refused in [
            String::new(),
            section("H263"),
            section("VP8") + &section("H264"),
        ] {
            assert!(
                matches!(
                    announced_tracks(&description(&refused)),
                    Err(EncoderRefusal::BadStream(_))
                ),
                "{refused}"
            );
        }
        let Err(EncoderRefusal::BadStream(reason)) =
            announced_tracks(&description(&section("H263")))
        else {
            panic!("the codec is not forwarded");
        };
        let begin = "the offer must have Opus for audio, and VP8, H.264, ";
        assert!(
            reason.starts_with(begin) && reason.ends_with(" for video"),
            "{reason}"
        );
    }
}
