//! FLV as the encoder writes it, cut into tags, so that each receiver can begin with a key frame.

/// A tag, with the size behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// What it is.
    pub kind: TagKind,
    /// The bytes of the tag.
    pub bytes: Vec<u8>,
}

/// What a tag is for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagKind {
    /// What a receiver needs before everything else: metadata, and the headers of the codecs.
    Header,
    /// A key frame of video.
    KeyFrame,
    /// Another frame of video.
    Frame,
    /// Audio, as AAC.
    Audio,
}

/// The header of the file, and the size of the tag before the first one.
pub const FILE_HEADER_BYTES: usize = 13;

/// Cuts a stream into tags, in pieces of any size.
#[derive(Debug, Default)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// Whether the header of the file was read, which receivers do not get.
    has_header: bool,
}

impl Splitter {
    /// Takes the next bytes of the stream, and returns the tags that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Tag> {
        self.buffer.extend_from_slice(bytes);
        if !self.has_header && self.buffer.len() >= FILE_HEADER_BYTES {
            self.buffer.drain(..FILE_HEADER_BYTES);
            self.has_header = true;
        }
        let (mut tags, mut read) = (Vec::new(), 0);
        if self.has_header {
            while let Some(length) = tag_length(&self.buffer[read..]) {
                let bytes = self.buffer[read..read + length].to_vec();
                tags.push(Tag {
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

/// Returns the bytes of the first tag and of the size behind it, if all of them are there.
fn tag_length(bytes: &[u8]) -> Option<usize> {
    let [_, high, middle, low, ..] = bytes else {
        return None;
    };
    let content = usize::try_from(u32::from_be_bytes([0, *high, *middle, *low])).ok()?;
    let length = 11 + content + 4;
    (bytes.len() >= length).then_some(length)
}

fn kind(tag: &[u8]) -> TagKind {
    const AUDIO: u8 = 8;
    const VIDEO: u8 = 9;
    match (tag.first(), tag.get(11), tag.get(12)) {
        // AVC and AAC: the packet type 0 is the header of the codec.
        (Some(&VIDEO), Some(first), Some(0)) if first & 0x0f == 7 => TagKind::Header,
        (Some(&AUDIO), Some(first), Some(0)) if first >> 4 == 10 => TagKind::Header,
        (Some(&VIDEO), Some(first), _) if first >> 4 == 1 => TagKind::KeyFrame,
        (Some(&VIDEO), _, _) => TagKind::Frame,
        (Some(&AUDIO), _, _) => TagKind::Audio,
        _ => TagKind::Header,
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
            (tag(18, b"metadata"), TagKind::Header),
            (tag(9, &[0x17, 0, 1]), TagKind::Header),
            (tag(8, &[0xaf, 0, 1]), TagKind::Header),
            (tag(9, &[0x17, 1, 1]), TagKind::KeyFrame),
            (tag(8, &[0xaf, 1, 1]), TagKind::Audio),
            (tag(9, &[0x27, 1, 1]), TagKind::Frame),
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
            let mut splitter = Splitter::default();
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
