//! Forwarded codecs: names, payload types, and profiles.
//!
//! `adapt` reads and rewrites their packets.

use str0m::RtcConfig;
use str0m::format::FormatParams;
use str0m::media::Frequency;

/// Medium of a track. The model's data tracks have no media section, so they are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackMedium {
    /// Audio.
    Audio,
    /// Video.
    Video,
}

/// Codec that this server forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Opus, the only audio codec.
    Opus,
    /// VP8, the default video codec.
    Vp8,
    /// H.264, constrained baseline.
    H264,
    /// VP9, profile 0, with SVC or simulcast.
    Vp9,
    /// AV1, main profile, with SVC or simulcast.
    Av1,
    /// H.265, main profile.
    H265,
}

impl Codec {
    /// All codecs; video codecs in the server's order of preference.
    pub const ALL: [Self; 6] = [
        Self::Vp8,
        Self::H264,
        Self::Vp9,
        Self::Av1,
        Self::H265,
        Self::Opus,
    ];

    /// Returns the name as spelled in its standard.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opus => "Opus",
            Self::Vp8 => "VP8",
            Self::H264 => "H.264",
            Self::Vp9 => "VP9",
            Self::Av1 => "AV1",
            Self::H265 => "H.265",
        }
    }

    /// Returns the MIME type as spelled in LiveKit's `TrackInfo` and `Codec` messages.
    pub const fn mime_type(self) -> &'static str {
        match self {
            Self::Opus => "audio/opus",
            Self::Vp8 => "video/VP8",
            Self::H264 => "video/H264",
            Self::Vp9 => "video/VP9",
            Self::Av1 => "video/AV1",
            Self::H265 => "video/H265",
        }
    }

    /// Returns the codec for a MIME type or its subtype, in any case; `None` if it is not forwarded.
    pub fn from_mime_type(text: &str) -> Option<Self> {
        let name = text.rsplit('/').next().unwrap_or(text);
        Self::ALL.into_iter().find(|codec| {
            codec
                .mime_type()
                .rsplit('/')
                .next()
                // Media type names are case-insensitive (RFC 6838).
                .is_some_and(|known| known.eq_ignore_ascii_case(name))
        })
    }

    /// Converts str0m's codec; `None` if it is not forwarded.
    pub(crate) const fn from_rtc(codec: str0m::format::Codec) -> Option<Self> {
        match codec {
            str0m::format::Codec::Opus => Some(Self::Opus),
            str0m::format::Codec::Vp8 => Some(Self::Vp8),
            str0m::format::Codec::H264 => Some(Self::H264),
            str0m::format::Codec::Vp9 => Some(Self::Vp9),
            str0m::format::Codec::Av1 => Some(Self::Av1),
            str0m::format::Codec::H265 => Some(Self::H265),
            _ => None,
        }
    }

    /// Returns the RTP timestamp's ticks per second.
    pub const fn clock_rate(self) -> u32 {
        match self {
            Self::Opus => 48_000,
            Self::Vp8 | Self::H264 | Self::Vp9 | Self::Av1 | Self::H265 => 90_000,
        }
    }

    /// Returns whether one stream can have several layers.
    pub const fn has_layers(self) -> bool {
        matches!(self, Self::Vp9 | Self::Av1)
    }

    /// Returns whether the payload numbers frames, so that a receiver notices missing ones. With other codecs, a
    /// receiver uses dependency descriptors. Without these, it shows nothing after a gap in the sequence numbers, even
    /// if only padding left it.
    pub const fn numbers_frames(self) -> bool {
        matches!(self, Self::Vp8 | Self::Vp9)
    }

    /// Returns the codec's medium.
    pub const fn medium(self) -> TrackMedium {
        match self {
            Self::Opus => TrackMedium::Audio,
            Self::Vp8 | Self::H264 | Self::Vp9 | Self::Av1 | Self::H265 => TrackMedium::Video,
        }
    }

    /// Returns the format parameters of the profile that every receiver of the codec supports.
    pub const fn common_profile(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Opus | Self::Vp8 => &[],
            // Constrained baseline.
            Self::H264 => &[("profile-level-id", "42e01f")],
            Self::Vp9 => &[("profile-id", "0")],
            // Level 5 is 3.1, the default if none is given.
            Self::Av1 => &[("profile", "0"), ("level-idx", "5"), ("tier", "0")],
            Self::H265 => &[("profile-id", "1"), ("tier-flag", "0")],
        }
    }

    /// Returns whether the server forwards the codec with these format parameters: the common profile's, or any H.264
    /// baseline.
    pub(crate) fn is_forwarded<'a>(self, parameter: impl Fn(&str) -> Option<&'a str>) -> bool {
        let is = |name: &str, value: &str| parameter(name).is_none_or(|found| found == value);
        let is_common = || {
            let mut profile = self.common_profile().iter();
            profile.all(|(name, value)| is(name, value))
        };
        match self {
            Self::H264 => parameter("profile-level-id").is_none_or(is_baseline),
            // Single RTP stream on a single transport, the default (RFC 7798, section 7.1).
            Self::H265 => is_common() && is("tx-mode", "SRST"),
            Self::Opus | Self::Vp8 | Self::Vp9 | Self::Av1 => is_common(),
        }
    }

    /// Enables all codecs with their payload types.
    pub(crate) fn enable_all(config: RtcConfig) -> RtcConfig {
        let mut config = config.enable_opus(true, true).enable_vp8(true);
        add_h264(&mut config);
        add_vp9(&mut config);
        config.enable_av1(true).enable_h265(true)
    }
}

/// Returns whether an H.264 profile is baseline, or constrained baseline under another name (RFC 6184, table 5).
fn is_baseline(profile_level_id: &str) -> bool {
    const BASELINE: u32 = 66;
    const WITH_CONSTRAINTS: [u32; 2] = [77, 88];
    const FITS_BASELINE: u32 = 0x80;
    // Without a valid profile, the default applies, which is baseline (RFC 6184, section 8.1).
    let Ok(id) = u32::from_str_radix(profile_level_id, 16) else {
        return true;
    };
    let (profile, constraints) = (id >> 16, id >> 8 & 0xff);
    // Main and extended profile with `constraint_set0_flag`: the stream obeys baseline's constraints.
    profile == BASELINE || (WITH_CONSTRAINTS.contains(&profile) && constraints & FITS_BASELINE != 0)
}

/// Adds constrained baseline and baseline in both packetization modes, which all browsers have.
fn add_h264(config: &mut RtcConfig) {
    const PROFILES: [(u8, u8, bool, u32); 4] = [
        (108, 109, true, 0x0042_e01f),
        (124, 120, false, 0x0042_e01f),
        (127, 121, true, 0x0042_001f),
        (125, 107, false, 0x0042_001f),
    ];
    for (payload_type, resend, is_mode_1, profile) in PROFILES {
        config.codec_config().add_h264(
            payload_type.into(),
            Some(resend.into()),
            is_mode_1,
            profile,
        );
    }
}

/// Adds VP9 profile 0, which has 8 bits.
fn add_vp9(config: &mut RtcConfig) {
    let format = FormatParams {
        profile_id: Some(0),
        ..FormatParams::default()
    };
    let (payload_type, resend) = (98.into(), Some(99.into()));
    config.codec_config().add_config(
        payload_type,
        resend,
        str0m::format::Codec::Vp9,
        Frequency::NINETY_KHZ,
        None,
        format,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_found_by_its_mime_type_in_any_case() {
        for (text, codec) in [
            ("video/vp8", Codec::Vp8),
            ("H264", Codec::H264),
            ("audio/OPUS", Codec::Opus),
            ("vp9", Codec::Vp9),
            ("video/AV1", Codec::Av1),
        ] {
            assert_eq!(Codec::from_mime_type(text), Some(codec));
        }
        assert_eq!(Codec::from_mime_type("video/AV1X"), None);
    }

    #[test]
    fn messages_name_a_codec_as_its_standard_does() {
        assert_eq!(
            Codec::ALL.map(Codec::name),
            ["VP8", "H.264", "VP9", "AV1", "H.265", "Opus"]
        );
    }
}
