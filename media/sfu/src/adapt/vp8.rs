//! What the payload descriptor of VP8 says of the picture (RFC 7741, section 4.2).

use super::layers::{FrameLayer, SpatialLayers};
use super::picture_ids::{LONG_IDS, SHORT_IDS};

const EXTENDED: u8 = 0x80;
const START_OF_PARTITION: u8 = 0x10;
const PARTITION: u8 = 0x07;
const PICTURE_ID: u8 = 0x80;
const LONG_PICTURE_ID: u8 = 0x80;
const TL0_PIC_IDX: u8 = 0x40;
const TEMPORAL_LAYER: u8 = 0x20;
const SYNC: u8 = 0x20;

/// Returns the temporal layer of a packet; `None` if it names none.
pub fn frame_layer(payload: &[u8]) -> Option<FrameLayer> {
    let [first, extensions, ..] = payload else {
        return None;
    };
    if first & EXTENDED == 0 || extensions & TEMPORAL_LAYER == 0 {
        return None;
    }
    let mut at = 2;
    if extensions & PICTURE_ID != 0 {
        at += if payload.get(at)? & LONG_PICTURE_ID != 0 {
            2
        } else {
            1
        };
    }
    at += usize::from(extensions & TL0_PIC_IDX != 0);
    let layer = *payload.get(at)?;
    Some(FrameLayer {
        spatial: 0,
        temporal: layer >> 6,
        needed_by: SpatialLayers::from(0),
        switches_up: false,
        syncs: layer & SYNC != 0,
        starts_frame: first & START_OF_PARTITION != 0 && first & PARTITION == 0,
        // The marker of the packet says it.
        ends_frame: false,
    })
}

/// Returns one less than the number of picture ids that the descriptor has room for.
pub fn picture_id_mask(payload: &[u8]) -> u16 {
    match payload {
        [first, extensions, id, ..] if first & EXTENDED != 0 && extensions & PICTURE_ID != 0 => {
            if id & LONG_PICTURE_ID != 0 {
                LONG_IDS
            } else {
                SHORT_IDS
            }
        }
        _ => LONG_IDS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temporal_layer_is_found_behind_what_may_come_before_it() {
        let layer = |payload: &[u8]| {
            frame_layer(payload).map(|layer| (layer.temporal, layer.syncs, layer.starts_frame))
        };
        assert_eq!(
            layer(&[0x90, 0xe0, 0x81, 2, 3, 0x60, 0]),
            Some((1, true, true))
        );
        assert_eq!(layer(&[0x80, 0xe0, 1, 3, 0x80, 0]), Some((2, false, false)));
        assert_eq!(layer(&[0x91, 0x20, 0x00, 0]), Some((0, false, false)));
        for other in [
            &[][..],
            &[0x10, 0],
            &[0x90, 0xd0, 1, 2, 3, 0],
            &[0x90, 0x10, 1],
            &[0x90, 0xe0, 0x81, 2, 3],
        ] {
            assert_eq!(layer(other), None, "{other:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..12)) {
            frame_layer(&bytes);
        }
    }
}
