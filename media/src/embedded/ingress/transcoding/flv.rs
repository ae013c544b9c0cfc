//! Media in RTMP messages: bodies of FLV tags (Video File Format Specification 10.1, annex E), and FLV files for
//! ffmpeg.

use std::iter;

/// Maximum tag size in bytes. The format has 24 bits for it.
const MAX_TAG: usize = 0x00ff_ffff;

/// A video message's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VideoTag<'a> {
    /// H.264 parameters: the decoder configuration record.
    Parameters(AvcParameters),
    /// An H.264 frame, as NAL units with a length before each.
    Frame {
        /// Whether the encoder marked it as a key frame.
        is_key: bool,
        /// The frame's NAL units.
        units: &'a [u8],
    },
    /// The end of the stream, or a command for players.
    Nothing,
    /// Another codec, by its number; 255 for the extended header, which contains a codec of its own.
    OtherCodec(u8),
}

/// H.264 stream parameters (ISO 14496-15, section 5.2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvcParameters {
    /// Bytes in each NAL unit's length: 1, 2 or 4.
    pub length_size: usize,
    /// The SPS and PPS units.
    pub sets: Vec<Vec<u8>>,
}

const CODEC_AVC: u8 = 7;
const EXTENDED: u8 = 0x80;
const COMMAND_FRAME: u8 = 5;
const KEY_FRAME: u8 = 1;

/// Parses a video message; `None` if it is malformed.
pub fn read_video(body: &[u8]) -> Option<VideoTag<'_>> {
    let (header, rest) = body.split_first()?;
    if header & EXTENDED != 0 {
        // Always transcoded, whatever its codec, so its content need not be known here.
        return Some(VideoTag::OtherCodec(u8::MAX));
    }
    let (frame_type, codec) = (header >> 4, header & 0x0f);
    if frame_type == COMMAND_FRAME {
        return Some(VideoTag::Nothing);
    } else if codec != CODEC_AVC {
        return Some(VideoTag::OtherCodec(codec));
    }
    // Packet type, and the composition time offset in three bytes.
    let [kind, _, _, _, data @ ..] = rest else {
        return None;
    };
    match kind {
        0 => read_parameters(data).map(VideoTag::Parameters),
        1 => Some(VideoTag::Frame {
            is_key: frame_type == KEY_FRAME,
            units: data,
        }),
        _ => Some(VideoTag::Nothing),
    }
}

/// Content behind a video message's extended header (Enhanced RTMP, version 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendedTag {
    /// The codec's parameters.
    Parameters,
    Frame {
        /// Whether the encoder marked it as a key frame.
        is_key: bool,
    },
    /// Anything else.
    Nothing,
}

/// Parses a video message's extended header; `None` if it has the older one.
pub fn read_extended(body: &[u8]) -> Option<ExtendedTag> {
    let header = *body.first().filter(|header| *header & EXTENDED != 0)?;
    Some(match header & 0x0f {
        0 => ExtendedTag::Parameters,
        // Types 1 and 3 are coded frames, with and without a composition time.
        1 | 3 => ExtendedTag::Frame {
            is_key: header >> 4 & 7 == KEY_FRAME,
        },
        _ => ExtendedTag::Nothing,
    })
}

fn read_parameters(record: &[u8]) -> Option<AvcParameters> {
    let [1, _, _, _, length, rest @ ..] = record else {
        return None;
    };
    let length_size = usize::from(length & 3) + 1;
    // The upper bits of the first count are reserved.
    let (sequences, rest) = read_sets(rest, 0x1f)?;
    let (pictures, _) = read_sets(rest, 0xff)?;
    // Lengths with three bytes are not allowed.
    if sequences.is_empty() || pictures.is_empty() || length_size == 3 {
        return None;
    }
    Some(AvcParameters {
        length_size,
        sets: sequences.into_iter().chain(pictures).collect(),
    })
}

/// Parses parameter sets after their count, each after its length in two bytes.
fn read_sets(bytes: &[u8], mask: u8) -> Option<(Vec<Vec<u8>>, &[u8])> {
    let (count, mut rest) = bytes.split_first()?;
    let mut sets = Vec::new();
    for _ in 0..count & mask {
        let [high, low, behind @ ..] = rest else {
            return None;
        };
        let (set, behind) =
            behind.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        sets.push(set.to_vec());
        rest = behind;
    }
    Some((sets, rest))
}

/// Iterates over a frame's NAL units, up to the first length that does not fit.
pub fn units(mut bytes: &[u8], length_size: usize) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        let (length, rest) = bytes.split_at_checked(length_size)?;
        let length = length
            .iter()
            .fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        let (unit, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some(unit)
    })
    .filter(|unit| !unit.is_empty())
}

const UNIT_TYPE: u8 = 0x1f;
const SLICE: u8 = 1;
const PARTITION: u8 = 2;

/// Returns whether a unit is a slice of a B-frame, which is displayed before a frame that was sent earlier. WebRTC
/// clients cannot play such a stream, since they display frames as they arrive.
pub fn is_b_slice(unit: &[u8]) -> bool {
    let Some((header, body)) = unit.split_first() else {
        return false;
    };
    // Slices in key frames have their own type, and are never B slices.
    if !matches!(header & UNIT_TYPE, SLICE | PARTITION) {
        return false;
    }
    let mut bits = Bits {
        bytes: body,
        position: 0,
    };
    // The slice's first macroblock precedes its type.
    bits.exp_golomb()
        .and_then(|_| bits.exp_golomb())
        // Types 1 and 6 are B slices; the higher number announces that all slices in the frame are.
        .is_some_and(|slice_type| slice_type % 5 == 1)
}

/// Bit reader. Emulation prevention bytes are ignored: the first bits of a slice contain none.
struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> Option<u32> {
        let byte = self.bytes.get(self.position / 8)?;
        let bit = byte >> (7 - self.position % 8) & 1;
        self.position += 1;
        Some(u32::from(bit))
    }

    fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            // No real slice has such a number, and the shift below must not overflow.
            if zeros > 16 {
                return None;
            }
        }
        let suffix = (0..zeros).try_fold(0, |value, _| Some(value << 1 | self.bit()?))?;
        Some((1 << zeros) - 1 + suffix)
    }
}

/// An audio message's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AudioTag {
    /// AAC parameters, which a decoder needs.
    Parameters,
    /// An audio frame.
    Frame,
}

const FORMAT_AAC: u8 = 10;

/// Parses an audio message; `None` if it is empty.
pub fn read_audio(body: &[u8]) -> Option<AudioTag> {
    let (header, rest) = body.split_first()?;
    let first = rest.first()?;
    Some(if header >> 4 == FORMAT_AAC && *first == 0 {
        AudioTag::Parameters
    } else {
        AudioTag::Frame
    })
}

/// A message's medium, with its number in FLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Audio.
    Audio = 8,
    /// Video.
    Video = 9,
}

/// Returns the FLV file header for one medium.
pub fn file_header(medium: Medium) -> Vec<u8> {
    let flags = match medium {
        Medium::Audio => 4,
        Medium::Video => 1,
    };
    vec![b'F', b'L', b'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0]
}

/// Returns an FLV tag: a message with its time in milliseconds. `None` if it is too large.
pub fn file_tag(medium: Medium, milliseconds: u32, body: &[u8]) -> Option<Vec<u8>> {
    if body.len() > MAX_TAG {
        return None;
    }
    let [_, size @ ..] = u32::try_from(body.len()).ok()?.to_be_bytes();
    // The time's highest byte comes last.
    let [extension, time @ ..] = milliseconds.to_be_bytes();
    let header = [&[medium as u8], &size[..], &time[..], &[extension, 0, 0, 0]].concat();
    let length = u32::try_from(header.len() + body.len()).ok()?.to_be_bytes();
    // Each tag is followed by its own length.
    Some([&header, body, &length[..]].concat())
}

/// A video message with its time in milliseconds.
pub type TimedMessage = (u32, Vec<u8>);

/// Parser for FLV tags that arrive in pieces.
#[derive(Debug, Default)]
pub struct FileReader {
    buffer: Vec<u8>,
    has_header: bool,
}

/// Bytes before the first tag, in each tag's header, and in the length after each tag.
const FILE_HEADER: usize = 13;
const TAG_HEADER: usize = 11;
const TAG_TRAILER: usize = 4;

impl FileReader {
    /// Parses the next piece. Returns the complete video messages.
    pub fn read(&mut self, piece: &[u8]) -> Vec<TimedMessage> {
        self.buffer.extend_from_slice(piece);
        let mut read = if self.has_header { 0 } else { FILE_HEADER };
        if self.buffer.len() < read {
            return Vec::new();
        }
        self.has_header = true;
        let mut tags = Vec::new();
        while let Some((length, tag)) = self.buffer.get(read..).and_then(read_tag) {
            tags.extend(tag);
            read += length;
        }
        self.buffer.drain(..read);
        tags
    }
}

/// Parses a tag: its length, and its content if that is video.
fn read_tag(bytes: &[u8]) -> Option<(usize, Option<TimedMessage>)> {
    let [kind, s0, s1, s2, t0, t1, t2, extension, _, _, _, rest @ ..] = bytes else {
        return None;
    };
    let size = usize::try_from(u32::from_be_bytes([0, *s0, *s1, *s2])).ok()?;
    let body = rest.get(..size + TAG_TRAILER)?.get(..size)?;
    // ffmpeg writes tags with metadata, too, which are skipped.
    let time = u32::from_be_bytes([*extension, *t0, *t1, *t2]);
    Some((
        TAG_HEADER + size + TAG_TRAILER,
        (*kind == Medium::Video as u8).then(|| (time, body.to_vec())),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RECORD: [u8; 19] = [
        0x17, 0, 0, 0, 0, 1, 0x42, 0xc0, 0x1f, 0xff, 0xe1, 0, 2, 0x67, 0x42, 1, 0, 1, 0x68,
    ];

    #[test]
    fn parameters_and_frames_of_h264_are_read() {
        let parameters = AvcParameters {
            length_size: 4,
            sets: vec![vec![0x67, 0x42], vec![0x68]],
        };
        assert_eq!(read_video(&RECORD), Some(VideoTag::Parameters(parameters)));
        let frame = [0x27, 1, 0, 0, 0, 0, 0, 0, 2, 0x41, 9, 0, 0, 0, 1, 0x06];
        let Some(VideoTag::Frame {
            is_key: false,
            units: bytes,
        }) = read_video(&frame)
        else {
            panic!("a frame")
        };
        assert_eq!(
            units(bytes, 4).collect::<Vec<_>>(),
            [&[0x41, 9][..], &[0x06]]
        );
        assert_eq!(read_video(&[0x57, 0]), Some(VideoTag::Nothing));
        assert_eq!(read_video(&[0x17, 2, 0, 0, 0]), Some(VideoTag::Nothing));
    }

    #[test]
    fn other_codecs_are_named_and_malformed_messages_are_not_read() {
        assert_eq!(read_video(&[0x12, 1]), Some(VideoTag::OtherCodec(2)));
        assert_eq!(
            read_video(&[0x90, b'h', b'v', b'c', b'1']),
            Some(VideoTag::OtherCodec(255))
        );
        for malformed in [
            &[][..],
            &[0x17],
            &[0x17, 0, 0, 0, 0],
            &RECORD[..18],
            &[0x17, 0, 0, 0, 0, 2, 0, 0, 0, 0xff],
        ] {
            assert_eq!(read_video(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn slices_of_b_frames_are_found() {
        // first_mb_in_slice 0 is the bit 1; slice_type 1 and 6 are B, 0 and 5 are P, 7 is I.
        for (unit, is_b) in [
            ([0x01, 0b1010_0000], true),
            ([0x01, 0b1001_1100], true),
            ([0x41, 0b1110_0000], false),
            ([0x41, 0b1001_1000], false),
            ([0x65, 0b1010_0000], false),
            ([0x01, 0], false),
        ] {
            assert_eq!(is_b_slice(&unit), is_b, "{unit:?}");
        }
    }

    #[test]
    fn aac_has_parameters_and_frames() {
        assert_eq!(
            read_audio(&[0xaf, 0, 0x12, 0x10]),
            Some(AudioTag::Parameters)
        );
        assert_eq!(read_audio(&[0xaf, 1, 0x21]), Some(AudioTag::Frame));
        assert_eq!(read_audio(&[0x2f, 0]), Some(AudioTag::Frame));
        assert_eq!(read_audio(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200), length_size in 1_usize..5) {
            if let Some(VideoTag::Frame { units: bytes, .. }) = read_video(&body) {
                prop_assert!(units(bytes, length_size).map(<[u8]>::len).sum::<usize>() <= bytes.len());
            }
            is_b_slice(&body);
            read_audio(&body);
            FileReader::default().read(&body);
        }

        #[test]
        fn a_file_that_comes_in_pieces_has_the_tags_that_were_written(
            tags in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..300)), 0..6),
            piece in 1_usize..50,
        ) {
            let mut file = file_header(Medium::Video);
            for (time, body) in &tags {
                file.extend(file_tag(Medium::Audio, *time, body).unwrap());
                file.extend(file_tag(Medium::Video, *time, body).unwrap());
            }
            let mut reader = FileReader::default();
            let read: Vec<_> = file.chunks(piece).flat_map(|piece| reader.read(piece)).collect();
            prop_assert_eq!(read, tags);
        }
    }
}
