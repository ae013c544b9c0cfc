//! The counters in the payload descriptor of VP8 that go on across changes of the source.

use str0m::rtp::{Vp8Descriptor, Vp8Patch};

use super::counter::Counter;
use super::numbers::SequenceNumbers;

/// Picture ids, extended so that they never wrap.
#[derive(Debug, Clone, Default)]
struct ExtendedIds {
    newest: u64,
}

impl ExtendedIds {
    /// Starts with the id of a picture, and room for those before it.
    fn start(&mut self, id: u16) -> u64 {
        self.newest = u64::from(LONG_IDS) + 1 + u64::from(id);
        self.newest
    }

    /// Returns the number for an id of so many values: the nearest one to the newest.
    fn extend(&mut self, id: u16, mask: u16) -> u64 {
        // The lowest bits are those of an id.
        let newest = u16::try_from(self.newest & u64::from(mask)).unwrap_or_default();
        let ahead = id.wrapping_sub(newest) & mask;
        if ahead <= mask / 2 {
            self.newest += u64::from(ahead);
            return self.newest;
        }
        self.newest.saturating_sub(u64::from(mask - ahead + 1))
    }
}

/// `PictureID`, `TL0PICIDX` and `KEYIDX` of VP8 (RFC 7741), continued across changes of the source.
#[derive(Debug, Clone)]
pub struct PictureIds {
    extended: ExtendedIds,
    picture_id: SequenceNumbers,
    tl0_pic_idx: Counter,
    key_idx: Counter,
}

/// One less than the number of picture ids, of 15 and of 7 bits.
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

    /// Notes that the picture of a packet is not sent, so that the series has no gap for it. `mask` is one less than the number of its
    /// picture ids.
    pub fn skip(&mut self, descriptor: &Vp8Descriptor, mask: u16) {
        if let Some(id) = descriptor.picture_id() {
            self.picture_id.skip(self.extended.extend(id, mask));
        }
    }

    /// Returns the counters of a packet of the source as they continue the series. `mask` is one less than the number of its picture ids.
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
        let short = Self {
            picture_id: self.picture_id.map(|id| id & SHORT_IDS),
            ..self
        };
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
