//! First bytes of generated payloads: the part that servers read. The rest is noise.

use str0m::format::Codec;

use super::source::{Layer, Part};

/// Template structure of the AV1 frames, from the first packet in a key frame: three spatial layers that each refer to the layer below and
/// to their own last frame, and three decode targets with one, two and three layers.
const AV1_STRUCTURE: [u8; 9] = [0x80, 0x02, 0xae, 0xa2, 0x82, 0x92, 0x50, 0x4a, 0x00];

/// Returns a payload's first bytes.
pub fn head(codec: Codec, part: &Part, layers: &[Layer]) -> Vec<u8> {
    match codec {
        Codec::Vp9 => vp9(part, layers),
        // One unit, the first of a sequence in a key frame.
        Codec::Av1 => vec![if begins_key_picture(part) { 0x18 } else { 0x10 }],
        _ => vp8(part, &layers[0]),
    }
}

/// Returns the descriptor (RFC 7741) and the frame's header.
fn vp8(part: &Part, layer: &Layer) -> Vec<u8> {
    let [high, low] = picture_id(part);
    let mut payload = vec![
        if part.is_first { 0x90 } else { 0x80 },
        0xf0,
        high,
        low,
        low,
        0,
    ];
    if part.is_first {
        // The first partition has 16 bytes, so that decoders accept the frame, whatever it shows.
        payload.extend([0x10 | u8::from(!part.is_key), 2, 0]);
        if part.is_key {
            payload.extend([0x9d, 0x01, 0x2a]);
            payload.extend(
                [layer.width, layer.height]
                    .into_iter()
                    .flat_map(|side| side_of(side).to_le_bytes()),
            );
        }
    }
    payload
}

/// Returns the descriptor in flexible mode (RFC 9628), with the layers' sizes at the start of a key frame.
fn vp9(part: &Part, layers: &[Layer]) -> Vec<u8> {
    let has_structure = begins_key_picture(part);
    let [high, low] = picture_id(part);
    let flags = [
        (0xb0, true),
        (0x40, !part.is_key),
        (0x08, part.is_first),
        (0x04, part.is_last),
        (0x02, has_structure),
    ];
    let flags = flags
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .fold(0, |flags, (flag, _)| flags | flag);
    let mut payload = vec![flags, high, low, part.layer << 1 | u8::from(part.layer > 0)];
    // The frame refers to the previous one.
    payload.extend((!part.is_key).then_some(2));
    if has_structure {
        payload.push((layers.len() as u8 - 1) << 5 | 0x10);
        let sides = layers.iter().flat_map(|layer| [layer.width, layer.height]);
        payload.extend(sides.flat_map(|side| side_of(side).to_be_bytes()));
    }
    payload
}

/// Returns AV1's dependency descriptor.
pub fn descriptor(part: &Part) -> Vec<u8> {
    let place = u8::from(part.is_first) << 7 | u8::from(part.is_last) << 6;
    let [.., high, low] = (part.picture * 3 + u32::from(part.layer)).to_be_bytes();
    let mut bytes = vec![place | part.layer, high, low];
    if begins_key_picture(part) {
        bytes.extend(AV1_STRUCTURE);
    }
    bytes
}

fn begins_key_picture(part: &Part) -> bool {
    part.is_key && part.is_first && part.layer == 0
}

/// Returns the PictureID in 15 bits, with the bit that marks this length.
fn picture_id(part: &Part) -> [u8; 2] {
    let [.., high, low] = (part.picture | 0x8000).to_be_bytes();
    [high, low]
}

fn side_of(side: u32) -> u16 {
    u16::try_from(side).unwrap_or(0)
}
