//! Codec profiles in session descriptions. A media worker negotiates only the profile of each codec that all receivers support.
//! Transcoded video may have any profile, so an offer is rewritten before the media worker reads it, and its answer afterwards.

use std::collections::HashMap;

use conclave_sfu::{Codec, TrackMedium};

/// Rewritten format parameters of an encoder's offer, by payload type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OfferedProfiles(HashMap<String, String>);

impl OfferedProfiles {
    /// Rewrites an offer to profiles that a media worker accepts, unless it has such a profile already.
    pub fn replace(offer: &str) -> (String, Self) {
        let is_known = conclave_sfu::read_sections(offer)
            .iter()
            .filter(|section| section.medium == TrackMedium::Video && section.sends)
            .all(|section| !section.codecs.is_empty());
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

/// Returns payload type and encoding name of an `rtpmap` line.
fn encoding(line: &str) -> Option<(&str, &str)> {
    let (payload_type, encoding) = line.trim_end().strip_prefix("a=rtpmap:")?.split_once(' ')?;
    Some((payload_type, encoding.split('/').next()?))
}

/// Returns format parameters that a media worker accepts; `None` if they need no change.
fn known_parameters(encoding: &str, parameters: &str) -> Option<String> {
    let codec = Codec::from_mime_type(encoding)?;
    let value = |name: &str| {
        codec
            .common_profile()
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
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

    use conclave_sfu::Codec;

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
}
