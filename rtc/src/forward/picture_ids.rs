//! The counters in the payload descriptor of VP8 that go on across changes of the source.

use str0m::rtp::{Vp8Descriptor, Vp8Patch};

/// A counter of some bits that goes on across changes of its source.
#[derive(Debug, Clone, Default)]
struct Counter {
    /// What is added to the source's values.
    offset: u16,
    /// The newest value handed out.
    last: u16,
}

impl Counter {
    /// Continues behind the last value with a source whose first value this is.
    fn switch(&mut self, value: u16) {
        self.offset = self.last.wrapping_add(1).wrapping_sub(value);
    }

    /// Returns the value in the series, within `mask`, which is one less than a power of two.
    fn rewrite(&mut self, value: u16, mask: u16) -> u16 {
        let mapped = value.wrapping_add(self.offset) & mask;
        let ahead = mapped.wrapping_sub(self.last) & mask;
        if ahead != 0 && ahead <= mask / 2 {
            self.last = mapped;
        }
        mapped
    }
}

/// `PictureID`, `TL0PICIDX` and `KEYIDX` of VP8 (RFC 7741), continued across changes of the source.
#[derive(Debug, Clone, Default)]
pub struct PictureIds {
    picture_id: Counter,
    tl0_pic_idx: Counter,
    key_idx: Counter,
}

const PICTURE_ID_MASK: u16 = 0x7fff;
const SHORT_PICTURE_ID_MASK: u16 = 0x7f;
const TL0_PIC_IDX_MASK: u16 = 0xff;
const KEY_IDX_MASK: u16 = 0x1f;

impl PictureIds {
    /// Continues with a source whose first packet has this descriptor.
    pub fn switch(&mut self, first: &Vp8Descriptor) {
        self.picture_id.switch(first.picture_id().unwrap_or_default());
        self.tl0_pic_idx.switch(first.tl0_pic_idx().map_or(0, u16::from));
        self.key_idx.switch(first.key_idx().map_or(0, u16::from));
    }

    /// Returns the counters of a packet of the source as they continue the series.
    pub fn rewrite(&mut self, descriptor: &Vp8Descriptor) -> Counters {
        let tl0 = descriptor.tl0_pic_idx().map(|index| self.tl0_pic_idx.rewrite(index.into(), TL0_PIC_IDX_MASK));
        let key = descriptor.key_idx().map(|index| self.key_idx.rewrite(index.into(), KEY_IDX_MASK));
        Counters {
            picture_id: descriptor.picture_id().map(|id| self.picture_id.rewrite(id, PICTURE_ID_MASK)),
            tl0_pic_idx: tl0.map(low_byte),
            key_idx: key.map(low_byte),
        }
    }
}

/// The counters of a payload descriptor; `None` where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub picture_id: Option<u16>,
    pub tl0_pic_idx: Option<u8>,
    pub key_idx: Option<u8>,
}

impl Counters {
    /// Returns the change that writes the counters into the descriptor that they are of.
    pub fn patch(self, descriptor: &Vp8Descriptor) -> Option<Vp8Patch> {
        let short = Self { picture_id: self.picture_id.map(|id| id & SHORT_PICTURE_ID_MASK), ..self };
        // The first fails if the descriptor has a picture id of seven bits.
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
