//! Dependency descriptor (AV1 RTP payload format, appendix A): a header extension with a frame's layer and references.

mod structure;

use std::sync::Arc;

use structure::{Indication, Structure};

use super::layers::FrameLayer;
use crate::bits::Bits;

/// Maximum size in bytes for a forwarded descriptor: the most that a two-byte extension header can carry.
pub const MAX_DESCRIPTOR: usize = 255;

/// Encoded descriptor as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyDescriptor(pub Arc<[u8]>);

impl DependencyDescriptor {
    /// Returns the frame number, which wraps; `None` if the descriptor is too short.
    pub fn frame_number(&self) -> Option<u16> {
        let (_flags_and_template, number) = self.0.split_first()?;
        number.first_chunk().copied().map(u16::from_be_bytes)
    }

    /// Returns a copy with another frame number.
    #[must_use]
    pub fn with_frame_number(&self, number: u16) -> Self {
        let mut bytes = self.0.to_vec();
        if let Some(place) = bytes.get_mut(1..3) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        Self(bytes.into())
    }
}

/// Reads a stream's descriptors. Some contain a structure to which later ones refer.
#[derive(Debug, Default)]
pub struct DependencyReader {
    structure: Option<Box<Structure>>,
}

/// A descriptor's contents, as far as forwarding depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependencies {
    /// The frame's layer, and the packet's position in it.
    pub layer: FrameLayer,
    /// Whether it contains the stream's structure, as in the first packet of a key unit.
    pub has_structure: bool,
}

impl DependencyReader {
    /// Returns whether, as far as known, a spatial layer's receivers need lower layers only in key units.
    pub fn has_independent_layers(&self) -> bool {
        self.structure
            .as_ref()
            .is_some_and(|structure| structure.has_independent_layers)
    }

    /// Reads a descriptor; `None` if it is malformed, or if it refers to a structure that has not arrived.
    pub fn read(&mut self, descriptor: &[u8]) -> Option<Dependencies> {
        let mut bits = Bits::new(descriptor);
        let (starts_frame, ends_frame) = (bits.flag()?, bits.flag()?);
        let (template, _frame_number) = (bits.number(6)?, bits.number(16)?);
        // Only the mandatory fields fit into three bytes.
        let is_extended = descriptor.len() > 3;
        let [has_structure, has_active, has_indications] = if is_extended {
            [bits.flag()?, bits.flag()?, bits.flag()?]
        } else {
            [false; 3]
        };
        if is_extended {
            // Flags for own references and chains. They follow last, and forwarding does not need them.
            bits.skip(2)?;
        }
        if has_structure {
            self.structure = Some(Box::new(Structure::read(&mut bits)?));
        }
        let structure = self.structure.as_ref()?;
        // Bit mask with the active decode targets. Receivers choose layers by packets that arrive, so it is not needed.
        if has_active {
            bits.skip(structure.targets())?;
        }
        let template = structure.template(template)?;
        let own = if has_indications {
            Some(structure.read_indications(&mut bits)?)
        } else {
            None
        };
        let (spatial, temporal) = (template.spatial, template.temporal);
        // The frame counts as a switch for its spatial layer if it is one for the target with all temporal layers.
        let best = structure.best_target(spatial)?;
        let indications = own.as_ref().unwrap_or(&template.indications);
        let switches_up = *indications.get(best)? == Indication::Switch;
        let needed_by = structure.needed_by(spatial, indications);
        Some(Dependencies {
            layer: FrameLayer {
                spatial,
                temporal,
                needed_by,
                switches_up,
                syncs: false,
                starts_frame,
                ends_frame,
            },
            has_structure,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::structure::tests::{Written, written};
    use super::*;
    use crate::bits::BitWriter;

    /// Encodes the descriptor of a packet in a stream with these layers; its frame has the layer with an index.
    /// `place`: whether the packet is the first one and the last one of its frame.
    pub fn descriptor_of(
        layers: &[(u8, u8)],
        index: usize,
        place: [bool; 2],
        has_structure: bool,
    ) -> Vec<u8> {
        placed_descriptor(
            &Written::with_layers(layers, 5),
            index,
            place,
            has_structure,
        )
    }

    /// Like [`descriptor_of`], for a stream whose layers refer to others only in key units, which use the first
    /// template of each spatial layer.
    pub fn independent_descriptor_of(
        layers: &[(u8, u8)],
        index: usize,
        place: [bool; 2],
        has_structure: bool,
    ) -> Vec<u8> {
        let written = Written::with_layers(layers, 5).with_independent_layers();
        placed_descriptor(&written, index, place, has_structure)
    }

    fn placed_descriptor(
        written: &Written,
        index: usize,
        place: [bool; 2],
        has_structure: bool,
    ) -> Vec<u8> {
        let mut bytes = descriptor(written, index, has_structure, None);
        bytes[0] = (bytes[0] & 0x3f) | u8::from(place[0]) << 7 | u8::from(place[1]) << 6;
        bytes
    }

    /// Encodes a frame's descriptor by its template, with the structure or without.
    fn descriptor(
        written: &Written,
        template: usize,
        has_structure: bool,
        own: Option<&[u64]>,
    ) -> Vec<u8> {
        let mut bits = BitWriter::default();
        bits.write(1, 1);
        bits.write(1, 0);
        bits.write(6, (written.offset + template as u64) % 64);
        bits.write(16, 0xbeef);
        if has_structure || own.is_some() {
            for flag in [has_structure, false, own.is_some(), false, false] {
                bits.write(1, flag.into());
            }
        }
        if has_structure {
            written.write(&mut bits);
        }
        own.into_iter()
            .flatten()
            .for_each(|indication| bits.write(2, *indication));
        bits.bytes()
    }

    #[test]
    fn a_descriptor_of_chromium_is_read() {
        // L1T2: two targets, two layers, no sizes.
        let mut reader = DependencyReader::default();
        assert_eq!(
            reader.read(&[0x80, 0, 1]),
            None,
            "nothing says what it refers to"
        );
        let written = Written::with_layers(&[(0, 0), (0, 1)], 5);
        let key = reader.read(&descriptor(&written, 0, true, None)).unwrap();
        assert!(
            key.has_structure
                && key.layer.starts_frame
                && !key.layer.ends_frame
                && key.layer.switches_up
        );
        let second = reader.read(&descriptor(&written, 1, false, None)).unwrap();
        assert_eq!((second.layer.temporal, second.has_structure), (1, false));
        assert_eq!(
            reader.read(&descriptor(&written, 7, false, None)),
            None,
            "no such template"
        );
    }

    #[test]
    fn the_receivers_who_need_a_frame_are_read() {
        let layers = [
            (0, 0),
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 0),
            (1, 1),
            (2, 0),
            (2, 0),
            (2, 1),
        ];
        for is_independent in [false, true] {
            let written = Written::with_layers(&layers, 5);
            let written = if is_independent {
                written.with_independent_layers()
            } else {
                written
            };
            let mut reader = DependencyReader::default();
            reader.read(&descriptor(&written, 0, true, None)).unwrap();
            assert_eq!(reader.has_independent_layers(), is_independent);
            for (template, (spatial, _)) in layers.into_iter().enumerate() {
                let needed_by = reader
                    .read(&descriptor(&written, template, false, None))
                    .unwrap()
                    .layer
                    .needed_by;
                let has_others = !is_independent || template % 3 == 0;
                let expected = [0, 1, 2, 9].map(|layer| {
                    layer == spatial || layer > spatial && (has_others || spatial == 2)
                });
                assert_eq!(
                    [0, 1, 2, 9].map(|layer| needed_by.contains(layer)),
                    expected,
                    "{template}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn the_layer_of_a_frame_is_that_of_its_template(written in written(), at in any::<prop::sample::Index>()) {
            let mut reader = DependencyReader::default();
            let template = at.index(written.templates.len());
            let (spatial, temporal) = written.templates[template].layer;
            for has_structure in [true, false] {
                let read = reader.read(&descriptor(&written, template, has_structure, None));
                let read = read.expect("a whole descriptor");
                prop_assert_eq!((read.layer.spatial, read.layer.temporal), (spatial, temporal));
                prop_assert_eq!(read.layer.switches_up, written.switches_up(template, None));
                prop_assert_eq!(read.has_structure, has_structure);
            }
            let own: Vec<_> = (0..written.targets).map(|target| (target as u64 * 7) % 4).collect();
            let read = reader.read(&descriptor(&written, template, false, Some(&own))).expect("a whole descriptor");
            prop_assert_eq!(read.layer.switches_up, written.switches_up(template, Some(&own)));
        }

        #[test]
        fn any_bytes_are_read(descriptors in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..8)) {
            let mut reader = DependencyReader::default();
            for descriptor in descriptors {
                reader.read(&descriptor);
            }
        }

        #[test]
        fn a_descriptor_that_ends_too_early_is_not_read(written in written()) {
            let whole = descriptor(&written, 0, true, None);
            for length in 0..whole.len() {
                prop_assert_eq!(DependencyReader::default().read(&whole[..length]), None, "{} bytes", length);
            }
        }
    }
}
