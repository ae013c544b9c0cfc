//! RTMP messages as a transcoder's input, in FLV.

use std::time::Duration;

use conclave_egress::{AnnouncedSize, announced_by_nal_units};

use crate::embedded::ingress::transcoding::flv::{self, AudioTag, ExtendedTag, Medium, VideoTag};
use crate::embedded::ingress::transcoding::timeline::MediaTime;
use crate::embedded::ingress::transcoding::{
    FrameRole, InputContainer, InputOpening, Message, TranscodeError,
};

/// Converter for one medium's messages.
pub struct FlvFeed {
    medium: Medium,
    /// Message with the codec parameters, which every new process needs.
    header: Option<Vec<u8>>,
    /// Bytes in the length of each NAL unit, according to the parameters.
    length_size: usize,
}

/// A message for a transcoder.
pub struct FlvMessage<'a> {
    medium: Medium,
    time: MediaTime,
    role: FrameRole,
    header: Option<&'a [u8]>,
    body: Vec<u8>,
}

impl FlvFeed {
    /// Creates a feed without messages.
    pub const fn new(medium: Medium) -> Self {
        Self {
            medium,
            header: None,
            length_size: 4,
        }
    }

    /// Converts a message.
    ///
    /// # Errors
    /// If its decoder would need too much memory.
    pub fn message(
        &mut self,
        time: MediaTime,
        body: Vec<u8>,
    ) -> Result<FlvMessage<'_>, TranscodeError> {
        self.check_size(&body)?;
        let role = role(self.medium, &body);
        if role == FrameRole::Header {
            self.header = Some(body.clone());
        }
        Ok(FlvMessage {
            medium: self.medium,
            time,
            role,
            header: self.header.as_deref(),
            body,
        })
    }

    /// Rejects video whose decoder would need too much memory. Codecs other than H.264 are left to ffmpeg's own limits.
    fn check_size(&mut self, body: &[u8]) -> Result<(), TranscodeError> {
        let announced = match (self.medium, flv::read_video(body)) {
            // Every frame is checked, too: H.264 may change its parameters in the stream.
            (Medium::Video, Some(VideoTag::Parameters(parameters))) => {
                self.length_size = parameters.length_size;
                announced_by_nal_units(parameters.sets.iter().map(Vec::as_slice))
            }
            (Medium::Video, Some(VideoTag::Frame { units, .. })) => {
                announced_by_nal_units(flv::units(units, self.length_size))
            }
            _ => AnnouncedSize::Unspecified,
        };
        match announced {
            AnnouncedSize::Refused => Err(TranscodeError::too_large()),
            AnnouncedSize::Unspecified | AnnouncedSize::Size(..) => Ok(()),
        }
    }
}

impl Message for FlvMessage<'_> {
    fn time(&self) -> Duration {
        self.time.time
    }

    fn role(&self) -> FrameRole {
        self.role
    }

    fn opening(&self) -> Option<InputOpening> {
        // Each process needs the parameters first.
        let header = self
            .header
            .and_then(|header| flv::file_tag(self.medium, 0, header));
        let is_extended = self.medium == Medium::Video && flv::read_extended(&self.body).is_some();
        Some(InputOpening {
            source: InputContainer::Flv { is_extended },
            bytes: [flv::file_header(self.medium), header.unwrap_or_default()].concat(),
        })
    }

    fn chunk(&self, since: Duration) -> Option<Vec<u8>> {
        // FLV has milliseconds in 32 bits. No stream lasts 49 days.
        let milliseconds = u32::try_from(since.as_millis()).unwrap_or(u32::MAX);
        flv::file_tag(self.medium, milliseconds, &self.body)
    }
}

fn role(medium: Medium, body: &[u8]) -> FrameRole {
    match medium {
        Medium::Audio => match flv::read_audio(body) {
            Some(AudioTag::Parameters) => FrameRole::Header,
            _ => FrameRole::Entry,
        },
        Medium::Video => match (flv::read_extended(body), flv::read_video(body)) {
            (Some(ExtendedTag::Parameters), _) | (_, Some(VideoTag::Parameters(_))) => {
                FrameRole::Header
            }
            (Some(ExtendedTag::Frame { is_key: false } | ExtendedTag::Nothing), _)
            | (_, Some(VideoTag::Frame { is_key: false, .. })) => FrameRole::Other,
            // Frame types of other codecs are unknown, so any frame may be an entry point.
            _ => FrameRole::Entry,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-80.
    #[test]
    fn video_that_needs_too_much_memory_is_refused_in_the_parameters_and_in_a_frame() {
        // Parameters for 8192x8192 with 16 reference frames: the numbers 511 and 511 after 16.
        let set = [
            0x67,
            66,
            0xc0,
            31,
            0b1101_1000,
            0b0100_0100,
            0,
            0b0100_0000,
            0,
            0,
            0b0010_0000,
            0b0000_0110,
            0b1000_0000,
        ];
        let parameters = [
            &[0x17, 0, 0, 0, 0, 1, 66, 0xc0, 31, 0xff, 0xe1, 0, 13][..],
            &set,
            &[1, 0, 1, 0x68],
        ]
        .concat();
        let frame = [&[0x17, 1, 0, 0, 0, 0, 0, 0, 13][..], &set].concat();
        for body in [parameters, frame] {
            assert!(
                FlvFeed::new(Medium::Video).check_size(&body).is_err(),
                "{body:?}"
            );
            assert!(FlvFeed::new(Medium::Audio).check_size(&body).is_ok());
        }
        assert!(
            FlvFeed::new(Medium::Video)
                .check_size(&[0x27, 1, 0, 0, 0, 0, 0, 0, 2, 0x41, 9])
                .is_ok()
        );
    }

    #[test]
    fn a_decoder_starts_with_audio_or_with_a_key_frame_after_the_parameters() {
        assert_eq!(
            role(Medium::Audio, &[0xaf, 0, 0x12, 0x10]),
            FrameRole::Header
        );
        assert_eq!(role(Medium::Audio, &[0xaf, 1, 0]), FrameRole::Entry);
        assert_eq!(role(Medium::Video, &[0x17, 1, 0, 0, 0]), FrameRole::Entry);
        assert_eq!(role(Medium::Video, &[0x27, 1, 0, 0, 0]), FrameRole::Other);
        assert_eq!(role(Medium::Video, &[0x22, 0]), FrameRole::Entry);
        let extended = |first: u8| role(Medium::Video, &[&[first][..], b"hvc1", &[0; 8]].concat());
        assert_eq!(
            [0x90, 0x91, 0x93].map(extended),
            [FrameRole::Header, FrameRole::Entry, FrameRole::Entry]
        );
        assert_eq!(
            [0xa1, 0xa3, 0x92, 0x94].map(extended),
            [FrameRole::Other; 4]
        );
    }
}
