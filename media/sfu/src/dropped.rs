//! Reasons for not forwarding packets.

/// Reason why a packet is not forwarded, or not to one of its track's receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The packet came from an address without a participant.
    Stranger,
    /// The datagram is not a WebRTC packet.
    Malformed,
    /// The payload exceeds the maximum size for forwarding.
    TooLarge,
    /// The SSRC belongs to no published track.
    Unclaimed,
    /// The packet's codec differs from the track's codec.
    OtherCodec,
    /// The track is muted.
    Muted,
    /// The receiver is not connected, or silent.
    NotConnected,
    /// The receiver has not negotiated the packet's codec.
    NotNegotiated,
    /// The receiver gets no layer of the track, because it disabled the track or lacks bandwidth.
    NotWanted,
    /// The receiver gets another layer of the track.
    OtherLayer,
    /// The receiver waits for the next key frame.
    AwaitsKeyFrame,
    /// The packet is padding without a payload.
    Padding,
    /// The packet is older than the receiver's first packet.
    Late,
    /// The packet has redundancy that the receiver does not support, and that cannot be removed.
    MalformedRedundancy,
    /// The receiver's section has no SSRC.
    NoSource,
    /// A recorder's queue is full.
    RecorderFull,
    /// A reliable message does not fit into the receiver's queue.
    DataBacklog,
    /// Too many packets are queued for the worker of the receivers.
    MirrorFull,
}

impl DropReason {
    /// All reasons, in their order.
    // `reason as usize` is an index into this list, so it has the order of the declaration.
    pub const ALL: [Self; 18] = [
        Self::Stranger,
        Self::Malformed,
        Self::TooLarge,
        Self::Unclaimed,
        Self::OtherCodec,
        Self::Muted,
        Self::NotConnected,
        Self::NotNegotiated,
        Self::NotWanted,
        Self::OtherLayer,
        Self::AwaitsKeyFrame,
        Self::Padding,
        Self::Late,
        Self::MalformedRedundancy,
        Self::NoSource,
        Self::RecorderFull,
        Self::DataBacklog,
        Self::MirrorFull,
    ];

    /// Returns its value for the metrics label `reason`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Unclaimed => "unclaimed",
            Self::OtherCodec => "other_codec",
            Self::Muted => "muted",
            Self::NotConnected => "not_connected",
            Self::NotNegotiated => "not_negotiated",
            Self::NotWanted => "not_wanted",
            Self::OtherLayer => "other_layer",
            Self::AwaitsKeyFrame => "awaits_key_frame",
            Self::Padding => "padding",
            Self::Late => "late",
            Self::MalformedRedundancy => "malformed_redundancy",
            Self::NoSource => "no_source",
            Self::RecorderFull => "recorder_full",
            Self::DataBacklog => "data_backlog",
            Self::MirrorFull => "mirror_full",
        }
    }
}

/// Number of packets that were not forwarded, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Counts a packet.
    pub fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Returns how many packets were not forwarded for a reason.
    #[must_use]
    pub const fn count_for(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the reasons with at least one packet, each with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL
            .into_iter()
            .map(|reason| (reason, self.count_for(reason)))
            // Most reasons never occur, so snapshots stay short.
            .filter(|(_, packets)| *packets > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_count_and_a_label_of_its_own() {
        let mut drops = Drops::default();
        for (position, reason) in DropReason::ALL.into_iter().enumerate() {
            (0..=position).for_each(|_| drops.count(reason));
        }
        let counted: Vec<_> = drops.iter().map(|(_, packets)| packets).collect();
        assert_eq!(counted, Vec::from_iter(1..=18));
        let labels: std::collections::BTreeSet<_> = DropReason::ALL.map(DropReason::label).into();
        assert_eq!(labels.len(), DropReason::ALL.len());
    }
}
