//! Which packets a layered stream's receivers get.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const ALL: LayerLimit = LayerLimit {
    spatial: 2,
    temporal: 2,
};

/// Encodes a stream with three spatial and three temporal layers, L3T3 or L3T3_KEY, two packets per frame.
#[derive(Default)]
struct Encoder {
    sequence: u64,
    pictures: u32,
    /// Whether layers refer to lower ones only in key units.
    is_independent: bool,
}

impl Encoder {
    /// Returns the next temporal unit. Its temporal layer follows L3T3's pattern.
    fn picture(&mut self, is_key: bool) -> Vec<LayeredPacket> {
        if is_key {
            self.pictures = self.pictures.next_multiple_of(4);
        }
        let temporal = [0, 2, 1, 2][self.pictures as usize % 4];
        self.pictures += 1;
        let mut packets = Vec::new();
        for spatial in 0..3 {
            for starts_frame in [true, false] {
                self.sequence += 1;
                let (switches_up, ends_frame) = (temporal == 0, !starts_frame);
                let needed_by = self.needed_by(spatial, is_key);
                let frame = FrameLayer {
                    spatial,
                    temporal,
                    needed_by,
                    switches_up,
                    syncs: false,
                    starts_frame,
                    ends_frame,
                };
                let is_key = is_key && spatial == 0 && starts_frame;
                packets.push(LayeredPacket {
                    sequence: self.sequence,
                    timestamp: self.pictures,
                    frame,
                    is_key,
                });
            }
        }
        packets
    }

    fn needed_by(&self, spatial: u8, is_key: bool) -> SpatialLayers {
        if is_key || spatial == 2 || !self.is_independent {
            return SpatialLayers::from(spatial);
        }
        SpatialLayers::only(spatial)
    }
}

#[test]
fn layers_are_a_set() {
    let mut layers = SpatialLayers::from(2);
    assert_eq!(
        [0, 1, 2, 3, u8::MAX].map(|layer| layers.contains(layer)),
        [false, false, true, true, true]
    );
    layers.extend(SpatialLayers::only(0));
    assert_eq!(
        [0, 1, 2].map(|layer| layers.contains(layer)),
        [true, false, true]
    );
}

#[test]
fn of_layers_that_refer_to_others_in_key_pictures_only_a_receiver_gets_its_own() {
    let (mut encoder, mut filter) = (
        Encoder {
            is_independent: true,
            ..Encoder::default()
        },
        LayerFilter::default(),
    );
    let low = LayerLimit { spatial: 0, ..ALL };
    assert_eq!(sent(&mut filter, &encoder.picture(true), ALL).len(), 6);
    assert!(!filter.lacks(0), "the key picture has all of it");
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), ALL),
        [(2, false), (2, true)]
    );
    assert!(filter.lacks(0) && filter.lacks(1) && !filter.lacks(2));
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), low),
        [(2, false), (2, true)],
        "until the next key picture"
    );
    assert_eq!(
        sent(&mut filter, &encoder.picture(true), low),
        [(0, false), (0, true)]
    );
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), low),
        [(0, false), (0, true)]
    );
    sent(&mut filter, &encoder.picture(true), ALL);
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), low),
        [(0, false), (0, true)],
        "none of it was left out"
    );
}

#[test]
fn more_pictures_are_sent_from_the_first_frame_of_a_picture_on_that_is_sent() {
    let (mut encoder, mut filter) = (
        Encoder {
            is_independent: true,
            ..Encoder::default()
        },
        LayerFilter::default(),
    );
    let slow = LayerLimit { temporal: 0, ..ALL };
    sent(&mut filter, &encoder.picture(true), slow);
    let mut count = |pictures: usize, target| {
        (0..pictures)
            .filter(|_| !sent(&mut filter, &encoder.picture(false), target).is_empty())
            .count()
    };
    assert_eq!([count(7, slow), count(4, ALL), count(4, slow)], [1, 4, 1]);
}

/// Returns, for each sent packet of a unit, its layer and whether it ends the unit.
fn sent(
    filter: &mut LayerFilter,
    packets: &[LayeredPacket],
    target: LayerLimit,
) -> Vec<(u8, bool)> {
    let admitted = packets
        .iter()
        .map(|packet| (packet, filter.admit(packet, target)));
    admitted
        .filter_map(|(packet, sent)| Some((packet.frame.spatial, sent?)))
        .collect()
}

#[test]
fn a_receiver_gets_more_layers_with_a_key_picture_and_fewer_with_any() {
    let (mut encoder, mut filter) = (Encoder::default(), LayerFilter::default());
    let low = LayerLimit { spatial: 0, ..ALL };
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), ALL),
        [],
        "nothing without a key picture"
    );
    let key = encoder.picture(true);
    let whole = [
        (0, false),
        (0, false),
        (1, false),
        (1, false),
        (2, false),
        (2, true),
    ];
    assert_eq!(sent(&mut filter, &key, ALL), whole);
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), low),
        [(0, false), (0, true)]
    );
    assert_eq!(
        sent(&mut filter, &encoder.picture(false), ALL),
        [(0, false), (0, true)],
        "not yet"
    );
    assert_eq!(sent(&mut filter, &encoder.picture(true), ALL), whole);
}

#[test]
fn late_packets_of_a_picture_are_sent_as_the_others_of_it() {
    let (mut encoder, mut filter) = (Encoder::default(), LayerFilter::default());
    let mut key = encoder.picture(true);
    let late = key.pop().unwrap();
    sent(&mut filter, &key, ALL);
    let low = LayerLimit { spatial: 1, ..ALL };
    sent(&mut filter, &encoder.picture(false)[..3], low);
    assert_eq!(
        filter.admit(&late, low),
        Some(true),
        "the others of its frame were sent"
    );
    let mut lower = encoder.picture(false);
    let late = lower.pop().unwrap();
    sent(&mut filter, &lower, low);
    sent(&mut filter, &encoder.picture(true), ALL);
    assert_eq!(
        filter.admit(&late, ALL),
        None,
        "the others of its frame were not"
    );
}

#[test]
fn more_pictures_are_sent_from_one_on_that_allows_it() {
    let (mut encoder, mut filter) = (Encoder::default(), LayerFilter::default());
    let slow = LayerLimit { temporal: 0, ..ALL };
    sent(&mut filter, &encoder.picture(true), slow);
    let mut count = |pictures: usize, target| {
        (0..pictures)
            .filter(|_| !sent(&mut filter, &encoder.picture(false), target).is_empty())
            .count()
    };
    assert_eq!(count(7, slow), 1);
    assert_eq!(
        count(4, ALL),
        4,
        "from the first one of the lowest layer on"
    );
    assert_eq!(count(4, slow), 1);
}

#[test]
fn a_temporal_layer_begins_above_those_that_are_sent_with_a_frame_that_needs_only_the_lowest() {
    let mut filter = LayerFilter::default();
    let (low, high) = (
        LayerLimit {
            spatial: 0,
            temporal: 0,
        },
        LayerLimit {
            spatial: 0,
            temporal: 2,
        },
    );
    let mut sequence = 0;
    let mut admit = |temporal, syncs, target| {
        sequence += 1;
        let frame = FrameLayer {
            spatial: 0,
            temporal,
            needed_by: SpatialLayers::from(0),
            switches_up: false,
            syncs,
            starts_frame: true,
            ends_frame: true,
        };
        let (timestamp, is_key) = (sequence * 3000, sequence == 1);
        let packet = LayeredPacket {
            sequence: sequence.into(),
            timestamp,
            frame,
            is_key,
        };
        filter.admit(&packet, target).is_some()
    };
    assert_eq!(
        [
            admit(0, false, low),
            admit(1, true, low),
            admit(0, false, low)
        ],
        [true, false, true]
    );
    assert_eq!(
        [
            admit(2, true, high),
            admit(1, false, high),
            admit(0, false, high)
        ],
        [false, false, true]
    );
    assert_eq!(
        [
            admit(1, true, high),
            admit(2, false, high),
            admit(1, false, high)
        ],
        [true, false, true]
    );
    assert_eq!(
        [
            admit(2, true, high),
            admit(1, false, high),
            admit(2, false, low)
        ],
        [true, true, false]
    );
}

proptest! {
    /// Everything that is sent can be decoded: a spatial layer's frame comes with the lower ones of its unit and with
    /// its predecessor in the layer, and no unit comes from above the temporal layer of a unit that may refer to it.
    #[test]
    fn what_is_sent_refers_only_to_what_was_sent(
        steps in prop::collection::vec((prop::bool::weighted(0.1), 0..3_u8, 0..3_u8), 1..200), is_independent in any::<bool>(),
    ) {
        let (mut encoder, mut filter) = (Encoder { is_independent, ..Encoder::default() }, LayerFilter::default());
        let mut newest: [Option<[u32; 3]>; 3] = [None; 3];
        let mut ended = BTreeSet::new();
        for (is_key, spatial, temporal) in steps {
            let packets = encoder.picture(is_key);
            let target = LayerLimit { spatial, temporal };
            let admitted: Vec<_> = packets.iter().map(|packet| filter.admit(packet, target)).collect();
            for (pair, frame) in admitted.chunks(2).zip(packets.chunks(2)) {
                prop_assert_eq!(pair[0].is_some(), pair[1].is_some(), "a frame is sent whole or not at all");
                if pair[0].is_none() {
                    continue;
                }
                let (layer, at, picture) = (frame[0].frame.spatial, frame[0].frame.temporal, frame[0].timestamp);
                if layer > 0 && (is_key || !is_independent) {
                    prop_assert!(admitted[usize::from(layer) * 2 - 1].is_some(), "the layer below");
                }
                let own = &mut newest[usize::from(layer)];
                if !is_key {
                    let before = own.expect("it begins with a key picture");
                    // Units of L3T3 refer to the last one of a lower temporal layer; the lowest refers to the one four
                    // before.
                    let lower = if at == 0 { before[0] } else { before[..usize::from(at)].iter().copied().max().unwrap() };
                    let distance = match at { 0 => 4, 1 => 2, _ => 1 };
                    prop_assert_eq!(lower, picture - distance);
                }
                let mut numbers = own.unwrap_or_default();
                numbers[usize::from(at)] = picture;
                *own = Some(numbers);
            }
            let layers = admitted.chunks(2).filter(|pair| pair[0].is_some()).count();
            prop_assert!(is_key || !is_independent || layers <= 1, "no layer that is not shown");
            if layers > 0 {
                prop_assert_eq!(admitted.iter().filter(|sent| **sent == Some(true)).count(), 1, "one packet ends a picture");
                prop_assert!(ended.insert(packets[0].timestamp));
            }
        }
    }
}
