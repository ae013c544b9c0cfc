//! FLV as the encoder writes it, split into tags, so that each connection can start at a key frame.

/// FLV tag, including the size that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlvTag {
    pub kind: FlvTagKind,
    pub bytes: Vec<u8>,
}

/// Tag role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlvTagKind {
    /// Metadata or codec header, needed before any media.
    Header,
    /// Video key frame.
    KeyFrame,
    /// Other video frame.
    InterFrame,
    /// Audio (AAC).
    Audio,
}

/// Bytes before the first tag: the file header, and a zero size.
pub const FILE_HEADER_BYTES: usize = 13;

/// Splits a stream into tags.
#[derive(Debug, Default)]
pub struct FlvSplitter {
    buffer: Vec<u8>,
    /// Whether the file header was read, which RTMP does not have.
    has_header: bool,
}

impl FlvSplitter {
    /// Adds the next bytes, however many, and returns the tags that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<FlvTag> {
        self.buffer.extend_from_slice(bytes);
        if !self.has_header && self.buffer.len() >= FILE_HEADER_BYTES {
            self.buffer.drain(..FILE_HEADER_BYTES);
            self.has_header = true;
        }
        let (mut tags, mut read) = (Vec::new(), 0);
        if self.has_header {
            while let Some(length) = tag_length(&self.buffer[read..]) {
                let bytes = self.buffer[read..read + length].to_vec();
                tags.push(FlvTag {
                    kind: kind(&bytes),
                    bytes,
                });
                read += length;
            }
        }
        self.buffer.drain(..read);
        tags
    }
}

/// Returns the first tag's length, including the size after it, if it is complete.
fn tag_length(bytes: &[u8]) -> Option<usize> {
    let [_, high, middle, low, ..] = bytes else {
        return None;
    };
    let content = usize::try_from(u32::from_be_bytes([0, *high, *middle, *low])).ok()?;
    // A header of 11 bytes, the content, and the tag's size in four bytes.
    let length = 11 + content + 4;
    (bytes.len() >= length).then_some(length)
}

fn kind(tag: &[u8]) -> FlvTagKind {
    const AUDIO: u8 = 8;
    const VIDEO: u8 = 9;
    match (tag.first(), tag.get(11), tag.get(12)) {
        // For AVC and AAC, packet type 0 is the codec's header.
        (Some(&VIDEO), Some(first), Some(0)) if first & 0x0f == 7 => FlvTagKind::Header,
        (Some(&AUDIO), Some(first), Some(0)) if first >> 4 == 10 => FlvTagKind::Header,
        // The upper four bits are the frame type; 1 is a key frame.
        (Some(&VIDEO), Some(first), _) if first >> 4 == 1 => FlvTagKind::KeyFrame,
        (Some(&VIDEO), _, _) => FlvTagKind::InterFrame,
        (Some(&AUDIO), _, _) => FlvTagKind::Audio,
        // Script data, which holds the metadata.
        _ => FlvTagKind::Header,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut tag = vec![
            kind,
            0,
            0,
            u8::try_from(content.len()).unwrap(),
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        tag.extend_from_slice(content);
        tag.extend_from_slice(&u32::try_from(tag.len()).unwrap().to_be_bytes());
        tag
    }

    #[test]
    fn a_stream_is_cut_into_tags_whatever_the_pieces_are() {
        let tags = [
            (tag(18, b"metadata"), FlvTagKind::Header),
            (tag(9, &[0x17, 0, 1]), FlvTagKind::Header),
            (tag(8, &[0xaf, 0, 1]), FlvTagKind::Header),
            (tag(9, &[0x17, 1, 1]), FlvTagKind::KeyFrame),
            (tag(8, &[0xaf, 1, 1]), FlvTagKind::Audio),
            (tag(9, &[0x27, 1, 1]), FlvTagKind::InterFrame),
        ];
        let header = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
        let stream = [
            &header[..],
            &tags
                .iter()
                .flat_map(|(bytes, _)| bytes.clone())
                .collect::<Vec<_>>(),
        ]
        .concat();
        for piece in [1, 7, 1000] {
            let mut splitter = FlvSplitter::default();
            let cut: Vec<_> = stream
                .chunks(piece)
                .flat_map(|piece| splitter.push(piece))
                .collect();
            assert_eq!(
                cut.into_iter()
                    .map(|tag| (tag.bytes, tag.kind))
                    .collect::<Vec<_>>(),
                tags
            );
        }
    }
}
