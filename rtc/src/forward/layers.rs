//! Layers in one stream (scalable video coding): which packets of it a receiver gets.
//!
//! A picture has a frame for each spatial layer, all with one timestamp. Frames of a layer refer to earlier ones of their own layer and
//! to those below it: in every picture, or in key pictures only, as in the modes L2T1_KEY to L3T3_KEY, which browsers choose. A receiver
//! gets the frames that those of its layer need, and no others: it would not ask again for a lost one that it can do without, and
//! some decoders fail without it. It gets a better layer with a key picture, and a lower one with any picture if it has got all frames of
//! that. Temporal layers are the same in time: a receiver gets fewer pictures from any picture on, and more where the encoder says that
//! this can be decoded.

/// Spatial layers of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpatialLayers(u8);

impl SpatialLayers {
    /// A layer and all above it.
    pub const fn from(layer: u8) -> Self {
        Self(if layer < 8 { u8::MAX << layer } else { 0 })
    }

    /// One layer.
    pub const fn only(layer: u8) -> Self {
        Self(Self::bit(layer))
    }

    /// Adds a layer.
    pub const fn insert(&mut self, layer: u8) {
        self.0 |= Self::bit(layer);
    }

    /// Adds layers.
    pub const fn extend(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether a layer is one of them.
    pub const fn contains(self, layer: u8) -> bool {
        self.0 & Self::bit(layer) != 0
    }

    /// The bit of a layer. A stream has at most 8; what is above the best one is wanted by those who want all.
    const fn bit(layer: u8) -> u8 {
        1 << if layer < 8 { layer } else { 7 }
    }
}

/// The layer of a packet's frame, and the packet's place in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayer {
    /// The spatial layer, 0 for the smallest picture.
    pub spatial: u8,
    /// The temporal layer, 0 for the lowest frame rate.
    pub temporal: u8,
    /// The layers whose receivers need the frame: its own, and those above it unless theirs do without.
    pub needed_by: SpatialLayers,
    /// Whether everything behind it of higher temporal layers can be decoded by those who have got the frame, and not what is before
    /// it of these layers.
    pub switches_up: bool,
    /// Whether it refers to the lowest temporal layer only, so that it can be decoded by those who have got that.
    pub syncs: bool,
    /// Whether it is the first packet of the frame.
    pub starts_frame: bool,
    /// Whether it is the last packet of the frame.
    pub ends_frame: bool,
}

/// The layers up to which a receiver gets a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerLimit {
    /// The best spatial layer.
    pub spatial: u8,
    /// The best temporal layer.
    pub temporal: u8,
}

impl LayerLimit {
    fn includes(self, frame: &FrameLayer) -> bool {
        frame.needed_by.contains(self.spatial) && frame.temporal <= self.temporal
    }
}

/// A packet of a stream with layers.
#[derive(Debug, Clone, Copy)]
pub struct LayeredPacket {
    /// The extended sequence number.
    pub sequence: u64,
    /// The RTP timestamp, which the frames of a picture share.
    pub timestamp: u32,
    /// Its frame.
    pub frame: FrameLayer,
    /// Whether it is the first packet of a key picture.
    pub is_key: bool,
}

/// Chooses the packets of a stream with layers that a receiver gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayerFilter {
    /// What is sent now; `None` before the first key picture.
    current: Option<LayerLimit>,
    /// What was sent before the newest picture, for packets that come late.
    before: Option<LayerLimit>,
    /// The newest picture, and its first packet that came.
    picture: Option<(u32, u64)>,
    /// Whether something of the newest picture was not sent.
    has_skipped: bool,
    /// Whether something of it was sent.
    has_sent: bool,
    /// The layers of which frames were not sent since the last key picture, so that they cannot be decoded before the next one.
    incomplete: SpatialLayers,
}

impl LayerFilter {
    /// Returns the layers that are sent now.
    pub const fn current(&self) -> Option<LayerLimit> {
        self.current
    }

    /// Returns whether a layer below what is sent can begin with a key picture only, since frames of it were not sent.
    pub fn lacks(&self, layer: u8) -> bool {
        self.current.is_some_and(|current| layer < current.spatial) && self.incomplete.contains(layer)
    }

    /// Sends nothing until the next key picture.
    pub const fn stop(&mut self) {
        (self.current, self.before, self.picture) = (None, None, None);
    }

    /// Takes a packet of the stream, of which the receiver should get the layers up to a limit. Returns `None` if the packet is not sent,
    /// or else whether it is the last one of its picture for the receiver.
    pub fn admit(&mut self, packet: &LayeredPacket, target: LayerLimit) -> Option<bool> {
        let LayeredPacket { sequence, timestamp, frame, is_key } = packet;
        let is_newest = match self.picture {
            Some((newest, _)) if newest == *timestamp => true,
            Some((_, first)) if *sequence < first => false,
            _ => {
                self.begin_picture(*timestamp, *sequence, target);
                true
            }
        };
        if is_newest && *is_key && (self.current.is_none() || !self.has_skipped) {
            self.current = Some(target);
            self.incomplete = SpatialLayers::default();
        }
        if is_newest {
            self.sync(frame, target);
        }
        let limit = if is_newest { self.current } else { self.before }?;
        if !limit.includes(frame) {
            self.has_skipped |= is_newest;
            if frame.temporal <= limit.temporal {
                self.incomplete.extend(frame.needed_by);
            }
            return None;
        }
        if is_newest && frame.starts_frame && frame.switches_up && !self.has_sent {
            self.current = Some(LayerLimit { temporal: limit.temporal.max(target.temporal), ..limit });
        }
        self.has_sent |= is_newest;
        Some(frame.ends_frame && frame.spatial == limit.spatial)
    }

    /// Begins the temporal layer above the ones that are sent, with a frame that allows it.
    fn sync(&mut self, frame: &FrameLayer, target: LayerLimit) {
        if let Some(current) = &mut self.current
            && frame.syncs
            && frame.starts_frame
            && frame.temporal == current.temporal.saturating_add(1)
            && !self.has_skipped
        {
            current.temporal = frame.temporal.min(target.temporal);
        }
    }

    fn begin_picture(&mut self, timestamp: u32, sequence: u64, target: LayerLimit) {
        self.before = self.current;
        self.picture = Some((timestamp, sequence));
        (self.has_skipped, self.has_sent) = (false, false);
        let is_incomplete = self.lacks(target.spatial);
        if let Some(current) = &mut self.current {
            if !is_incomplete {
                current.spatial = current.spatial.min(target.spatial);
            }
            current.temporal = current.temporal.min(target.temporal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const ALL: LayerLimit = LayerLimit { spatial: 2, temporal: 2 };

    /// Makes the packets of a stream of three spatial and three temporal layers, L3T3 or L3T3_KEY, two packets for each frame.
    #[derive(Default)]
    struct Encoder {
        sequence: u64,
        pictures: u32,
        /// Whether layers refer to lower ones in key pictures only.
        is_independent: bool,
    }

    impl Encoder {
        /// The next picture. Its temporal layer follows the pattern of L3T3.
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
                    packets.push(LayeredPacket { sequence: self.sequence, timestamp: self.pictures, frame, is_key });
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
        assert_eq!([0, 1, 2, 3, u8::MAX].map(|layer| layers.contains(layer)), [false, false, true, true, true]);
        layers.insert(0);
        assert_eq!([0, 1, 2].map(|layer| layers.contains(layer)), [true, false, true]);
    }

    #[test]
    fn of_layers_that_refer_to_others_in_key_pictures_only_a_receiver_gets_its_own() {
        let (mut encoder, mut filter) =
            (Encoder { is_independent: true, ..Encoder::default() }, LayerFilter::default());
        let low = LayerLimit { spatial: 0, ..ALL };
        assert_eq!(sent(&mut filter, &encoder.picture(true), ALL).len(), 6);
        assert!(!filter.lacks(0), "the key picture has all of it");
        assert_eq!(sent(&mut filter, &encoder.picture(false), ALL), [(2, false), (2, true)]);
        assert!(filter.lacks(0) && filter.lacks(1) && !filter.lacks(2));
        assert_eq!(
            sent(&mut filter, &encoder.picture(false), low),
            [(2, false), (2, true)],
            "until the next key picture"
        );
        assert_eq!(sent(&mut filter, &encoder.picture(true), low), [(0, false), (0, true)]);
        assert_eq!(sent(&mut filter, &encoder.picture(false), low), [(0, false), (0, true)]);
        sent(&mut filter, &encoder.picture(true), ALL);
        assert_eq!(sent(&mut filter, &encoder.picture(false), low), [(0, false), (0, true)], "none of it was left out");
    }

    #[test]
    fn more_pictures_are_sent_from_the_first_frame_of_a_picture_on_that_is_sent() {
        let (mut encoder, mut filter) =
            (Encoder { is_independent: true, ..Encoder::default() }, LayerFilter::default());
        let slow = LayerLimit { temporal: 0, ..ALL };
        sent(&mut filter, &encoder.picture(true), slow);
        let mut count = |pictures: usize, target| {
            (0..pictures).filter(|_| !sent(&mut filter, &encoder.picture(false), target).is_empty()).count()
        };
        assert_eq!([count(7, slow), count(4, ALL), count(4, slow)], [1, 4, 1]);
    }

    /// The layer of each frame that is sent with all its packets of a picture, with whether the last one ends the picture.
    fn sent(filter: &mut LayerFilter, packets: &[LayeredPacket], target: LayerLimit) -> Vec<(u8, bool)> {
        let admitted = packets.iter().map(|packet| (packet, filter.admit(packet, target)));
        admitted.filter_map(|(packet, sent)| Some((packet.frame.spatial, sent?))).collect()
    }

    #[test]
    fn a_receiver_gets_more_layers_with_a_key_picture_and_fewer_with_any() {
        let (mut encoder, mut filter) = (Encoder::default(), LayerFilter::default());
        let low = LayerLimit { spatial: 0, ..ALL };
        assert_eq!(sent(&mut filter, &encoder.picture(false), ALL), [], "nothing without a key picture");
        let key = encoder.picture(true);
        let whole = [(0, false), (0, false), (1, false), (1, false), (2, false), (2, true)];
        assert_eq!(sent(&mut filter, &key, ALL), whole);
        assert_eq!(sent(&mut filter, &encoder.picture(false), low), [(0, false), (0, true)]);
        assert_eq!(sent(&mut filter, &encoder.picture(false), ALL), [(0, false), (0, true)], "not yet");
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
        assert_eq!(filter.admit(&late, low), Some(true), "the others of its frame were sent");
        let mut lower = encoder.picture(false);
        let late = lower.pop().unwrap();
        sent(&mut filter, &lower, low);
        sent(&mut filter, &encoder.picture(true), ALL);
        assert_eq!(filter.admit(&late, ALL), None, "the others of its frame were not");
    }

    #[test]
    fn more_pictures_are_sent_from_one_on_that_allows_it() {
        let (mut encoder, mut filter) = (Encoder::default(), LayerFilter::default());
        let slow = LayerLimit { temporal: 0, ..ALL };
        sent(&mut filter, &encoder.picture(true), slow);
        let mut count = |pictures: usize, target| {
            (0..pictures).filter(|_| !sent(&mut filter, &encoder.picture(false), target).is_empty()).count()
        };
        assert_eq!(count(7, slow), 1);
        assert_eq!(count(4, ALL), 4, "from the first one of the lowest layer on");
        assert_eq!(count(4, slow), 1);
    }

    #[test]
    fn a_temporal_layer_begins_above_those_that_are_sent_with_a_frame_that_needs_only_the_lowest() {
        let mut filter = LayerFilter::default();
        let (low, high) = (LayerLimit { spatial: 0, temporal: 0 }, LayerLimit { spatial: 0, temporal: 2 });
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
            let packet = LayeredPacket { sequence: sequence.into(), timestamp, frame, is_key };
            filter.admit(&packet, target).is_some()
        };
        assert_eq!([admit(0, false, low), admit(1, true, low), admit(0, false, low)], [true, false, true]);
        assert_eq!([admit(2, true, high), admit(1, false, high), admit(0, false, high)], [false, false, true]);
        assert_eq!([admit(1, true, high), admit(2, false, high), admit(1, false, high)], [true, false, true]);
        assert_eq!([admit(2, true, high), admit(1, false, high), admit(2, false, low)], [true, true, false]);
    }

    proptest! {
        /// What is sent can be decoded: with a frame of a spatial layer, those of its picture below it and its predecessor in the layer,
        /// and no picture above the temporal layer of one that may refer to it.
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
                        // Pictures of L3T3 refer to the last one of a lower temporal layer, and of the lowest to the one four before.
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
}
