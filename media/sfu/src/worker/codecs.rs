//! In which of its codecs a track is sent to a receiver.

use std::time::Duration;

use str0m::format::PayloadParams;
use str0m::media::Mid;

use super::Worker;
use super::subscription::{LayerChoice, Subscription};
use super::tracks::{AwaitedCodec, PublishedTrack};
use crate::adapt::Rewriter;
use crate::event::PeerEvent;
use crate::measure::RateMeter;
use crate::track::{Codec, TrackMedium};
use crate::transport::{PeerKey, TrackKey, Transport};

/// How long a receiver waits for a backup codec before its subscription is reported as one that cannot be served. The codec may come
/// later.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(10);

impl PublishedTrack {
    /// Returns the codecs of the track, of which this is the first, each with the track in it.
    fn codecs(&self, key: TrackKey) -> Vec<(OfferedCodec, Option<TrackKey>)> {
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

impl Worker {
    /// Starts to send a section's track in the codec that suits the client best, unless it is being sent in that.
    pub(super) fn attach(&mut self, key: PeerKey, index: usize) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        let Some(section) = peer.sections.get(index) else {
            return;
        };
        let (Some(mid), Some(track_key)) = (section.mid(), section.track()) else {
            return;
        };
        let Some(track) = self.tracks.get(track_key) else {
            return;
        };
        if section.sent() == Some(track_key) && track.backups.is_empty() {
            return;
        }
        let Some(transport) = self.connections.get(peer.subscriber) else {
            return;
        };
        let (codecs, streams): (Vec<_>, Vec<_>) = track.codecs(track_key).into_iter().unzip();
        let can_decode = |codec| negotiated(transport, mid, codec).is_some();
        match choose_codec(&codecs, track.info.prefers_backup, can_decode) {
            Some(CodecChoice::Sent(codec)) => {
                self.send_in(key, index, streams[codec].unwrap_or(track_key));
            }
            Some(CodecChoice::Awaited(codec)) => self.await_codec(key, index, codecs[codec].codec),
            None => self.refuse_codec(key, index, track_key),
        }
    }

    /// Sends a section's track in the codec of `streams`, unless it is being sent in that.
    fn send_in(&mut self, key: PeerKey, index: usize, streams: TrackKey) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        let transport_key = peer.subscriber;
        let Some(section) = peer
            .sections
            .get_mut(index)
            .filter(|section| section.sent() != Some(streams))
        else {
            return;
        };
        let (Some(mid), Some(track_key)) = (section.mid(), section.track()) else {
            return;
        };
        let before = self.tracks.take_subscription(section, key);
        let Some(track) = self.tracks.get_mut(streams) else {
            return;
        };
        let Some(transport) = self.connections.get_mut(transport_key) else {
            return;
        };
        if track.medium() == TrackMedium::Video && before.is_none() {
            transport.prepare_video(mid);
            transport.settle(self.now);
        }
        let waits_since = section.send(streams);
        let new = || Subscription {
            peer: key,
            transport: transport_key,
            mid,
            rewriter: Rewriter::new(),
            choice: LayerChoice::default(),
            payload: None,
            rate: RateMeter::new(self.now),
            is_paused: false,
            empty_packets: 0,
            waits_since: waits_since
                .filter(|_| track.medium() == TrackMedium::Video && !track.is_muted),
        };
        let subscription = before.map_or_else(new, Subscription::in_another_codec);
        track.subscriptions.push(subscription);
        self.note_subscribed(track_key);
    }

    /// Tells the publisher when its track is subscribed for the first time.
    fn note_subscribed(&mut self, track: TrackKey) {
        let Some(track) = self.tracks.get_mut(track) else {
            return;
        };
        let (publisher, sid) = (track.peer, track.sid.clone());
        if !std::mem::replace(&mut track.was_subscribed, true) {
            self.emit(publisher, PeerEvent::TrackSubscribed(sid));
        }
    }

    /// Lets a section wait until the publisher sends its track in a backup codec, for which it is asked.
    fn await_codec(&mut self, key: PeerKey, index: usize, codec: Codec) {
        let section = self
            .roster
            .get_mut(key)
            .and_then(|peer| peer.sections.get_mut(index));
        let Some((section, track_key)) =
            section.and_then(|section| section.track().map(|track| (section, track)))
        else {
            return;
        };
        let is_known = |awaiting: &&AwaitedCodec| awaiting.peer == key && awaiting.codec == codec;
        let known = self
            .tracks
            .get(track_key)
            .and_then(|track| track.awaiting.iter().find(is_known));
        let reported_at = known.map_or(Some(self.now + BACKUP_TIMEOUT), |known| known.reported_at);
        let subscription = self.tracks.take_subscription(section, key);
        if let Some(track) = self.tracks.get_mut(track_key) {
            track.awaiting.push(AwaitedCodec {
                peer: key,
                codec,
                subscription,
                reported_at,
            });
        }
        self.note_subscribed(track_key);
        self.report_quality_use(track_key);
    }

    /// Reports the subscriptions of a track that have waited too long for a codec.
    pub(super) fn report_missing_codecs(&mut self, key: TrackKey) {
        let Some(track) = self
            .tracks
            .get_mut(key)
            .filter(|track| !track.awaiting.is_empty())
        else {
            return;
        };
        let (sid, now) = (track.sid.clone(), self.now);
        let is_due = |awaiting: &mut AwaitedCodec| {
            awaiting
                .reported_at
                .take_if(|at| now >= *at)
                .map(|_| awaiting.peer)
        };
        let late: Vec<_> = track.awaiting.iter_mut().filter_map(is_due).collect();
        for peer in late {
            self.emit(peer, PeerEvent::CodecUnsupported(sid.clone()));
        }
    }

    fn refuse_codec(&mut self, key: PeerKey, index: usize, track: TrackKey) {
        let Some(sid) = self.tracks.get(track).map(|track| track.sid.clone()) else {
            return;
        };
        self.clear_section(key, index);
        if let Some(peer) = self.roster.get_mut(key) {
            peer.wanted.remove(&sid);
        }
        self.emit(key, PeerEvent::CodecUnsupported(sid));
        self.request_negotiation(key);
    }

    /// Sends a track to receivers in the codec that suits each of them now.
    pub(super) fn choose_codecs(&mut self, key: TrackKey, receivers: Vec<PeerKey>) {
        for peer in receivers {
            if let Some(section) = self
                .roster
                .get(peer)
                .and_then(|peer| peer.sections.carrying(key))
            {
                self.attach(peer, section);
                self.allocate(peer);
            }
        }
    }
}

/// Returns the parameters with which a client negotiated the codec on a section; `None` if it did not.
pub(super) fn negotiated(transport: &Transport, mid: Mid, codec: Codec) -> Option<PayloadParams> {
    let rtc = transport.rtc();
    let media = rtc.media(mid)?;
    let mut params = rtc
        .codec_config()
        .params()
        .iter()
        .filter(|params| media.remote_pts().contains(&params.pt()));
    params
        .find(|params| Codec::from_rtc(params.spec().codec) == Some(codec))
        .copied()
}

/// A codec of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedCodec {
    /// The codec's name, whatever its parameters.
    pub codec: Codec,
    /// Whether the publisher sends it. If not, it does so when it is asked.
    pub is_sent: bool,
}

/// How a receiver gets a track, by the index of the codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecChoice {
    /// In a codec that the publisher sends.
    Sent(usize),
    /// In a codec that the publisher is to be asked for.
    Awaited(usize),
}

/// Chooses the codec of a track for a receiver: of those that it can decode the first one that the publisher sends, or else the first
/// one that it would send. With `prefers_backup`, the codecs behind the first one come before that. `None` if it can decode none.
pub fn choose_codec(
    codecs: &[OfferedCodec],
    prefers_backup: bool,
    can_decode: impl Fn(Codec) -> bool,
) -> Option<CodecChoice> {
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
