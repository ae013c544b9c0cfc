//! VP9's payload descriptor (RFC 9628, section 4.2).

use super::layers::{FrameLayer, SpatialLayers};

/// VP9 payload descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vp9Descriptor {
    /// `PictureID` with 7 or 15 bits.
    pub picture_id: Option<u16>,
    /// Whether the frame refers to earlier frames.
    pub is_predicted: bool,
    /// Whether the frame refers to the next lower layer's frame in its temporal unit.
    pub uses_lower_layer: bool,
    /// The frame's layer, and the packet's position in it.
    pub layer: FrameLayer,
    /// Spatial layers in the stream; only in the first packet of a key temporal unit.
    pub spatial_layers: Option<u8>,
    /// The descriptor's length in bytes.
    pub length: usize,
}

const PICTURE_ID: u8 = 0x80;
const PREDICTED: u8 = 0x40;
const LAYERS: u8 = 0x20;
const FLEXIBLE: u8 = 0x10;
const START: u8 = 0x08;
const END: u8 = 0x04;
const STRUCTURE: u8 = 0x02;

/// Maximum references per frame.
const REFERENCES: usize = 3;

impl Vp9Descriptor {
    /// Reads the descriptor at the start of a payload; `None` if it is malformed, or if there are no bytes after it.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(payload);
        let flags = bytes.next()?;
        let has = |flag: u8| flags & flag != 0;
        let picture_id = if has(PICTURE_ID) {
            Some(bytes.picture_id()?)
        } else {
            None
        };
        let (mut spatial, mut temporal, mut switches_up, mut uses_lower_layer) =
            (0, 0, false, false);
        if has(LAYERS) {
            let indices = bytes.next()?;
            (temporal, switches_up, spatial) =
                (indices >> 5, indices & 0x10 != 0, (indices >> 1) & 0x07);
            uses_lower_layer = indices & 0x01 != 0;
            if !has(FLEXIBLE) {
                // TL0PICIDX, which exists only in non-flexible mode.
                bytes.next()?;
            }
        }
        // Only flexible mode lists references; otherwise the structure implies them.
        if has(FLEXIBLE) && has(PREDICTED) {
            bytes.skip_references()?;
        }
        let spatial_layers = if has(STRUCTURE) {
            Some(bytes.structure()?)
        } else {
            None
        };
        let (starts_frame, ends_frame) = (has(START), has(END));
        let needed_by = SpatialLayers::from(spatial);
        // VP9's descriptor does not name a frame's receivers: assume all higher layers, until `Vp9Layers` knows better.
        let layer = FrameLayer {
            spatial,
            temporal,
            needed_by,
            switches_up,
            syncs: false,
            starts_frame,
            ends_frame,
        };
        let length = payload.len() - bytes.0.len();
        let is_predicted = has(PREDICTED);
        // A descriptor without a frame would be an empty packet for decoders.
        (length < payload.len()).then_some(Self {
            picture_id,
            is_predicted,
            uses_lower_layer,
            layer,
            spatial_layers,
            length,
        })
    }

    /// Returns whether the packet is the first one of a key temporal unit with all its layers.
    pub fn starts_key_unit(&self) -> bool {
        self.layer.starts_frame && !self.is_predicted && self.layer.spatial == 0
    }
}

/// Derives which receivers need a stream's frames, from descriptors that describe only their own frame. The Python
/// SDK's encoder sends no dependency descriptor, but uses modes such as L3T3_KEY as well.
#[derive(Debug, Clone, Copy, Default)]
pub struct Vp9Layers {
    has_independent_layers: bool,
}

impl Vp9Layers {
    /// Returns whether, as far as known, frames refer to lower layers only in key temporal units.
    pub const fn has_independent_layers(self) -> bool {
        self.has_independent_layers
    }

    /// Returns the layer for a packet's frame. Until a higher layer's first frame outside a key temporal unit, all
    /// frames are needed.
    pub const fn read(&mut self, descriptor: &Vp9Descriptor) -> FrameLayer {
        let mut layer = descriptor.layer;
        // In key units, higher layers always refer to lower ones; only later frames show the mode.
        if descriptor.is_predicted && layer.spatial > 0 {
            self.has_independent_layers = !descriptor.uses_lower_layer;
        }
        if descriptor.is_predicted && self.has_independent_layers {
            layer.needed_by = SpatialLayers::only(layer.spatial);
        }
        layer
    }
}

/// Unread rest.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn picture_id(&mut self) -> Option<u16> {
        let first = self.next()?;
        let is_long = first & 0x80 != 0;
        let low = if is_long { self.next()? } else { 0 };
        // The highest bit is the flag for 15 bits.
        let high = first & 0x7f;
        Some(if is_long {
            u16::from_be_bytes([high, low])
        } else {
            high.into()
        })
    }

    fn skip_references(&mut self) -> Option<()> {
        for _ in 0..REFERENCES {
            let has_more = self.next()? & 1 != 0;
            if !has_more {
                return Some(());
            }
        }
        // The last allowed reference announces another one: the descriptor is malformed.
        None
    }

    /// Returns the number of layers. Skips their sizes, and the references within a group.
    fn structure(&mut self) -> Option<u8> {
        let flags = self.next()?;
        let layers = (flags >> 5) + 1;
        // Width and height per layer, two bytes each.
        if flags & 0x10 != 0 {
            self.skip(usize::from(layers) * 4)?;
        }
        // The group's frames: a byte with flags and the reference count, then a byte per reference.
        if flags & 0x08 != 0 {
            for _ in 0..self.next()? {
                let references = (self.next()? >> 2) & 0x03;
                self.skip(references.into())?;
            }
        }
        Some(layers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A descriptor as an encoder creates it.
    #[derive(Debug, Clone)]
    struct Written {
        picture_id: Option<(u16, bool)>,
        is_predicted: bool,
        uses_lower_layer: bool,
        is_flexible: bool,
        has_layers: bool,
        layer: FrameLayer,
        references: Vec<u8>,
        /// Number of layers, whether their sizes follow, and the references of a group's frames.
        structure: Option<(u8, bool, Vec<u8>)>,
    }

    impl Written {
        fn bytes(&self) -> Vec<u8> {
            let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            let mut bytes = vec![
                flag(self.picture_id.is_some(), PICTURE_ID)
                    | flag(self.is_predicted, PREDICTED)
                    | flag(self.has_layers, LAYERS)
                    | flag(self.is_flexible, FLEXIBLE)
                    | flag(self.layer.starts_frame, START)
                    | flag(self.layer.ends_frame, END)
                    | flag(self.structure.is_some(), STRUCTURE),
            ];
            match self.picture_id {
                Some((id, true)) => bytes.extend((id | 0x8000).to_be_bytes()),
                Some((id, false)) => bytes.push(id.to_le_bytes()[0]),
                None => {}
            }
            if self.has_layers {
                let switches_up = flag(self.layer.switches_up, 0x10);
                bytes.push(
                    self.layer.temporal << 5
                        | switches_up
                        | self.layer.spatial << 1
                        | flag(self.uses_lower_layer, 1),
                );
                if !self.is_flexible {
                    // TL0PICIDX, whose value must not matter.
                    bytes.push(0xab);
                }
            }
            if self.is_flexible && self.is_predicted {
                let last = self.references.len() - 1;
                let references = self.references.iter().enumerate();
                bytes.extend(
                    references.map(|(index, reference)| reference << 1 | u8::from(index < last)),
                );
            }
            if let Some((layers, has_sizes, pictures)) = &self.structure {
                bytes.push(
                    (layers - 1) << 5 | flag(*has_sizes, 0x10) | flag(!pictures.is_empty(), 0x08),
                );
                bytes.extend(if *has_sizes {
                    vec![7; usize::from(*layers) * 4]
                } else {
                    Vec::new()
                });
                if !pictures.is_empty() {
                    bytes.push(u8::try_from(pictures.len()).unwrap());
                    for references in pictures {
                        bytes.push(references << 2);
                        bytes.extend(vec![1; usize::from(*references)]);
                    }
                }
            }
            bytes
        }
    }

    fn written() -> impl Strategy<Value = Written> {
        let id = prop_oneof![(0..0x80_u16, Just(false)), (0..0x8000_u16, Just(true))];
        let layer = (0..8_u8, 0..8_u8, any::<[bool; 3]>()).prop_map(
            |(spatial, temporal, [switches_up, starts_frame, ends_frame])| FrameLayer {
                spatial,
                temporal,
                needed_by: SpatialLayers::from(spatial),
                switches_up,
                syncs: false,
                starts_frame,
                ends_frame,
            },
        );
        let structure = (1..9_u8, any::<bool>(), prop::collection::vec(0..4_u8, 0..9));
        let references = prop::collection::vec(0..0x80_u8, 1..=REFERENCES);
        (
            prop::option::of(id),
            any::<[bool; 4]>(),
            layer,
            references,
            prop::option::of(structure),
        )
            .prop_map(
                |(
                    picture_id,
                    [is_predicted, uses_lower_layer, is_flexible, has_layers],
                    layer,
                    references,
                    structure,
                )| {
                    Written {
                        picture_id,
                        is_predicted,
                        uses_lower_layer,
                        is_flexible,
                        has_layers,
                        layer,
                        references,
                        structure,
                    }
                },
            )
    }

    #[test]
    fn the_first_packet_of_a_key_picture_is_recognised() {
        // Chromium's first descriptor, with the sizes of three layers.
        let first = [
            0xaa, 0x80, 0x01, 0x00, 0x00, 0x50, 0, 160, 0, 90, 1, 64, 0, 180, 2, 128, 1, 104,
        ];
        let starts = |payload: &[u8]| {
            Vp9Descriptor::parse(payload).is_some_and(|read| read.starts_key_unit())
        };
        assert!(!starts(&first), "nothing is behind the descriptor");
        assert!(
            starts(&[&first[..], &[1]].concat())
                && starts(&[0x08, 1])
                && starts(&[0x28, 0x00, 0, 1])
        );
        for other in [
            &[][..],
            &[0x08],
            &[0x00, 1],
            &[0x48, 1],
            &[0x28, 0x02, 0, 1],
        ] {
            assert!(!starts(other), "{other:?}");
        }
    }

    #[test]
    fn frames_of_lower_layers_are_needed_while_frames_refer_to_them() {
        let mut layers = Vp9Layers::default();
        let mut needed_by = |is_predicted: bool, spatial: u8, uses_lower_layer: bool| {
            // Layer indices and the start of a frame.
            let flags = 0x28 | if is_predicted { PREDICTED } else { 0 };
            let payload = [flags, spatial << 1 | u8::from(uses_lower_layer), 0, 1];
            let needed_by = layers
                .read(&Vp9Descriptor::parse(&payload).unwrap())
                .needed_by;
            [0, 1, 2].map(|layer| needed_by.contains(layer))
        };
        assert_eq!(
            needed_by(true, 0, false),
            [true; 3],
            "nothing else is known"
        );
        assert_eq!(needed_by(true, 1, false), [false, true, false]);
        assert_eq!(needed_by(true, 0, false), [true, false, false]);
        assert_eq!(
            [needed_by(false, 0, false), needed_by(false, 1, true)],
            [[true; 3], [false, true, true]],
            "a key picture"
        );
        assert_eq!(needed_by(true, 0, false), [true, false, false]);
        assert_eq!(needed_by(true, 2, true), [false, false, true]);
        assert_eq!(needed_by(true, 0, false), [true; 3]);
    }

    proptest! {
        #[test]
        fn a_descriptor_is_read_as_it_was_written_and_not_without_all_its_bytes(written in written(), data in 1..4_usize) {
            let bytes = written.bytes();
            let read = Vp9Descriptor::parse(&[bytes.clone(), vec![0x55; data]].concat());
            let none = FrameLayer {
                spatial: 0,
                temporal: 0,
                needed_by: SpatialLayers::from(0),
                switches_up: false,
                ..written.layer
            };
            let expected = Vp9Descriptor {
                picture_id: written.picture_id.map(|(id, _)| id),
                is_predicted: written.is_predicted,
                uses_lower_layer: written.has_layers && written.uses_lower_layer,
                layer: if written.has_layers { written.layer } else { none },
                spatial_layers: written.structure.as_ref().map(|(layers, ..)| *layers),
                length: bytes.len(),
            };
            prop_assert_eq!(read, Some(expected));
            for length in 0..=bytes.len() {
                prop_assert_eq!(Vp9Descriptor::parse(&bytes[..length]), None, "{} bytes", length);
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let read = Vp9Descriptor::parse(&bytes);
            prop_assert!(read.is_none_or(|read| read.length < bytes.len()));
        }
    }
}
