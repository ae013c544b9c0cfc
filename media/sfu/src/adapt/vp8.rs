//! VP8's payload descriptor (RFC 7741, section 4.2): the frame's layer, and counters that continue across changes of
//! the source.

use str0m::rtp::{Vp8Descriptor, Vp8Patch};

use super::layers::{FrameLayer, SpatialLayers};
use super::numbers::{Counter, SequenceNumbers};

const EXTENDED: u8 = 0x80;
const START_OF_PARTITION: u8 = 0x10;
const PARTITION: u8 = 0x07;
const PICTURE_ID: u8 = 0x80;
const LONG_PICTURE_ID: u8 = 0x80;
const TL0_PIC_IDX: u8 = 0x40;
const TEMPORAL_LAYER: u8 = 0x20;
const SYNC: u8 = 0x20;

/// Returns a packet's temporal layer; `None` if it names none.
pub fn frame_layer(payload: &[u8]) -> Option<FrameLayer> {
    let [first, extensions, ..] = payload else {
        return None;
    };
    // The extension byte is optional, and so is each of its fields.
    if first & EXTENDED == 0 || extensions & TEMPORAL_LAYER == 0 {
        return None;
    }
    // Optional fields come before the layer: a PictureID with one or two bytes, then TL0PICIDX.
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
        // A frame starts with its first partition.
        starts_frame: first & START_OF_PARTITION != 0 && first & PARTITION == 0,
        // The RTP marker bit has this information.
        ends_frame: false,
    })
}

/// Returns how many `PictureID` values the descriptor has room for, minus one.
pub fn picture_id_mask(payload: &[u8]) -> u16 {
    match payload {
        [first, extensions, id, ..] if first & EXTENDED != 0 && extensions & PICTURE_ID != 0 => {
            if id & LONG_PICTURE_ID != 0 {
                LONG_IDS
            } else {
                SHORT_IDS
            }
        }
        // Without an id, the mask is never used.
        _ => LONG_IDS,
    }
}

/// `PictureID` values, extended so that they never wrap.
#[derive(Debug, Clone, Default)]
struct ExtendedIds {
    newest: u64,
}

impl ExtendedIds {
    /// Starts with a frame's id, and leaves room for earlier ones.
    fn start(&mut self, id: u16) -> u64 {
        // A whole round below, so that late frames do not underflow.
        self.newest = u64::from(LONG_IDS) + 1 + u64::from(id);
        self.newest
    }

    /// Returns the extended number for an id with `mask` + 1 values: the one nearest to the newest.
    fn extend(&mut self, id: u16, mask: u16) -> u64 {
        // The newest number's lowest bits are its id.
        let newest = u16::try_from(self.newest & u64::from(mask)).unwrap_or_default();
        let ahead = id.wrapping_sub(newest) & mask;
        if ahead <= mask / 2 {
            self.newest += u64::from(ahead);
            return self.newest;
        }
        self.newest.saturating_sub(u64::from(mask - ahead + 1))
    }
}

/// VP8's `PictureID`, `TL0PICIDX` and `KEYIDX` (RFC 7741), continued across changes of the source.
#[derive(Debug, Clone)]
pub struct PictureIds {
    extended: ExtendedIds,
    picture_id: SequenceNumbers,
    tl0_pic_idx: Counter,
    key_idx: Counter,
}

/// `PictureID` values with 15 and with 7 bits, minus one.
pub const LONG_IDS: u16 = 0x7fff;
pub const SHORT_IDS: u16 = 0x7f;
const TL0_PIC_IDX_MASK: u16 = 0xff;
const KEY_IDX_MASK: u16 = 0x1f;

impl Default for PictureIds {
    fn default() -> Self {
        Self {
            extended: ExtendedIds::default(),
            picture_id: SequenceNumbers::new(1),
            tl0_pic_idx: Counter::default(),
            key_idx: Counter::default(),
        }
    }
}

impl PictureIds {
    /// Continues with a source whose first packet has this descriptor.
    pub fn switch(&mut self, first: &Vp8Descriptor) {
        self.picture_id
            .switch(self.extended.start(first.picture_id().unwrap_or_default()));
        self.tl0_pic_idx
            .switch(first.tl0_pic_idx().map_or(0, u16::from));
        self.key_idx.switch(first.key_idx().map_or(0, u16::from));
    }

    /// Skips a packet's frame, so that the series has no gap for it. `mask`: see [`picture_id_mask`].
    pub fn skip(&mut self, descriptor: &Vp8Descriptor, mask: u16) {
        if let Some(id) = descriptor.picture_id() {
            self.picture_id.skip(self.extended.extend(id, mask));
        }
    }

    /// Returns the counters for the source's packet in the series. `mask`: see [`picture_id_mask`].
    // Skipped frames leave no gap in TL0PICIDX: they belong to higher temporal layers, which share the base layer's
    // value.
    pub fn rewrite(&mut self, descriptor: &Vp8Descriptor, mask: u16) -> Counters {
        let tl0 = descriptor
            .tl0_pic_idx()
            .map(|index| self.tl0_pic_idx.rewrite(index.into(), TL0_PIC_IDX_MASK));
        let key = descriptor
            .key_idx()
            .map(|index| self.key_idx.rewrite(index.into(), KEY_IDX_MASK));
        Counters {
            picture_id: descriptor
                .picture_id()
                .and_then(|id| self.picture_id(id, mask)),
            tl0_pic_idx: tl0.map(low_byte),
            key_idx: key.map(low_byte),
        }
    }
}

impl PictureIds {
    fn picture_id(&mut self, id: u16, mask: u16) -> Option<u16> {
        let number = self.picture_id.rewrite(self.extended.extend(id, mask))?;
        u16::try_from(number & u64::from(LONG_IDS)).ok()
    }
}

/// A payload descriptor's counters; `None` if it lacks one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub picture_id: Option<u16>,
    pub tl0_pic_idx: Option<u8>,
    pub key_idx: Option<u8>,
}

impl Counters {
    /// Returns the patch that writes the counters into their descriptor.
    pub fn patch(self, descriptor: &Vp8Descriptor) -> Option<Vp8Patch> {
        let short = Self {
            picture_id: self.picture_id.map(|id| id & SHORT_IDS),
            ..self
        };
        // The first attempt fails if the descriptor has a 7-bit id.
        self.build(descriptor).or_else(|| short.build(descriptor))
    }

    fn build(self, descriptor: &Vp8Descriptor) -> Option<Vp8Patch> {
        let mut patch = descriptor.patch();
        if let Some(picture_id) = self.picture_id {
            patch = patch.picture_id(picture_id);
        }
        if let Some(index) = self.tl0_pic_idx {
            patch = patch.tl0_pic_idx(index);
        }
        if let Some(index) = self.key_idx {
            patch = patch.key_idx(index);
        }
        patch.build().ok()
    }
}

const fn low_byte(value: u16) -> u8 {
    value.to_le_bytes()[0]
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
