//! Choice of a receiver's codec for a track.

use str0m::format::PayloadParams;
use str0m::media::Mid;

use super::tracks::PublishedTrack;
use crate::codec::Codec;
use crate::transport::{PeerKey, TrackKey, Transport};

impl PublishedTrack {
    /// Returns the codecs of a track, first one first, each with its key if it is being sent. `self` is the first
    /// codec.
    pub fn codecs(&self, key: TrackKey) -> Vec<(OfferedCodec, Option<TrackKey>)> {
        let first = (
            OfferedCodec {
                codec: self.codec,
                is_sent: true,
            },
            Some(key),
        );
        let offered = |codec, streams: Option<TrackKey>| {
            (
                OfferedCodec {
                    codec,
                    is_sent: streams.is_some(),
                },
                streams,
            )
        };
        let backups = self
            .backups
            .iter()
            .map(|backup| offered(backup.codec, backup.streams));
        std::iter::once(first).chain(backups).collect()
    }

    /// Returns whether a receiver waits for a codec.
    pub fn is_awaited_by(&self, peer: PeerKey) -> bool {
        self.awaiting.iter().any(|awaiting| awaiting.peer == peer)
    }
}

/// Returns the parameters that a client negotiated for a codec on a section, if it did.
pub(super) fn negotiated(transport: &Transport, mid: Mid, codec: Codec) -> Option<PayloadParams> {
    let rtc = transport.rtc();
    let media = rtc.media(mid)?;
    let mut params = rtc
        .codec_config()
        .params()
        .iter()
        // The connection's parameters are for all sections, and each section accepts a part of them.
        .filter(|params| media.remote_pts().contains(&params.pt()));
    params
        .find(|params| Codec::from_rtc(params.spec().codec) == Some(codec))
        .copied()
}

/// Codec of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedCodec {
    /// Codec, whatever its parameters.
    pub codec: Codec,
    /// Whether the publisher sends it. If not, it starts on request.
    pub is_sent: bool,
}

/// Codec for a receiver, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecChoice {
    /// A codec that the publisher sends.
    Sent(usize),
    /// A codec that must be requested from the publisher.
    Awaited(usize),
}

/// Chooses a receiver's codec among its decoders: the first codec that the publisher sends, or else the first that it
/// could send. With `prefers_backup`, backup codecs come before the first codec. `None` if the receiver can decode
/// none.
pub fn choose_codec(
    codecs: &[OfferedCodec],
    prefers_backup: bool,
    can_decode: impl Fn(Codec) -> bool,
) -> Option<CodecChoice> {
    // Number of codecs to try last.
    let backups = if prefers_backup {
        1.min(codecs.len())
    } else {
        0
    };
    let in_order = || (backups..codecs.len()).chain(0..backups);
    let find = |is_sent: bool| {
        in_order()
            .find(|index| codecs[*index].is_sent == is_sent && can_decode(codecs[*index].codec))
    };
    // A codec that is sent already comes first: another one costs the publisher a second encoder.
    find(true)
        .map(CodecChoice::Sent)
        .or_else(|| find(false).map(CodecChoice::Awaited))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn track(codecs: &[(Codec, bool)]) -> Vec<OfferedCodec> {
        codecs
            .iter()
            .map(|(codec, is_sent)| OfferedCodec {
                codec: *codec,
                is_sent: *is_sent,
            })
            .collect()
    }

    #[test]
    fn a_receiver_gets_the_first_codec_that_it_can_decode_and_a_backup_is_awaited_only_without_one()
    {
        let (vp8, vp9, h264) = (Codec::Vp8, Codec::Vp9, Codec::H264);
        let choose = |codecs: &[(Codec, bool)], prefers_backup, decoded: &[Codec]| {
            choose_codec(&track(codecs), prefers_backup, |codec| {
                decoded.contains(&codec)
            })
        };
        let both = [(vp9, true), (vp8, true)];
        assert_eq!(
            choose(&both, false, &[vp8, vp9]),
            Some(CodecChoice::Sent(0))
        );
        assert_eq!(choose(&both, false, &[vp8]), Some(CodecChoice::Sent(1)));
        assert_eq!(choose(&both, true, &[vp8, vp9]), Some(CodecChoice::Sent(1)));
        assert_eq!(choose(&both, true, &[vp9]), Some(CodecChoice::Sent(0)));
        assert_eq!(choose(&both, false, &[h264]), None);
        let first = [(vp9, true), (h264, false), (vp8, false)];
        assert_eq!(
            choose(&first, true, &[vp8, vp9]),
            Some(CodecChoice::Sent(0)),
            "it works without"
        );
        assert_eq!(choose(&first, false, &[vp8]), Some(CodecChoice::Awaited(2)));
        assert_eq!(
            choose(&first, false, &[vp8, h264]),
            Some(CodecChoice::Awaited(1))
        );
        assert_eq!(choose(&[], true, &[vp8]), None);
    }

    proptest! {
        #[test]
        fn what_is_chosen_can_be_decoded_and_nothing_is_awaited_that_is_not_needed(
            codecs in prop::collection::vec((0..6_usize, any::<bool>()), 0..5),
            decoded in prop::collection::vec(any::<bool>(), 6), prefers_backup in any::<bool>(),
        ) {
            let codecs: Vec<_> = codecs.into_iter().map(|(codec, is_sent)| (Codec::ALL[codec], is_sent)).collect();
            let can_decode = |codec: Codec| Codec::ALL.iter().zip(&decoded).any(|(known, can)| *known == codec && *can);
            let usable = |is_sent: bool| codecs.iter().any(|(codec, sent)| *sent == is_sent && can_decode(*codec));
            match choose_codec(&track(&codecs), prefers_backup, can_decode) {
                Some(CodecChoice::Sent(index)) => prop_assert!(codecs[index].1 && can_decode(codecs[index].0)),
                Some(CodecChoice::Awaited(index)) => {
                    prop_assert!(!codecs[index].1 && can_decode(codecs[index].0) && !usable(true));
                }
                None => prop_assert!(!usable(true) && !usable(false)),
            }
        }
    }
}
