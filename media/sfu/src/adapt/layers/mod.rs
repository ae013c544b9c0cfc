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

    /// A layer alone.
    pub const fn only(layer: u8) -> Self {
        Self(Self::bit(layer))
    }

    /// Adds the layers of another set.
    pub const fn extend(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether a layer is one of them.
    pub const fn contains(self, layer: u8) -> bool {
        self.0 & Self::bit(layer) != 0
    }

    /// The bit of a layer. A stream has at most 8; a higher number, as that of a limit which includes all, stands for the last one.
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
    /// The layer of its frame, and its place in that frame.
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
        self.current.is_some_and(|current| layer < current.spatial)
            && self.incomplete.contains(layer)
    }

    /// Sends nothing until the next key picture.
    pub const fn stop(&mut self) {
        (self.current, self.before, self.picture) = (None, None, None);
    }

    /// Takes a packet of the stream, of which the receiver should get the layers up to a limit. Returns `None` if the packet is not sent,
    /// or else whether it is the last one of its picture for the receiver.
    pub fn admit(&mut self, packet: &LayeredPacket, target: LayerLimit) -> Option<bool> {
        let LayeredPacket {
            sequence,
            timestamp,
            frame,
            is_key,
        } = packet;
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
            self.current = Some(LayerLimit {
                temporal: limit.temporal.max(target.temporal),
                ..limit
            });
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
mod tests;
