//! In which of its codecs a track is sent to a receiver.

use std::time::Duration;

use slotmap::SlotMap;
use str0m::format::PayloadParams;
use str0m::media::Mid;

use super::Worker;
use super::codec_choice::{CodecChoice, OfferedCodec, choose_codec};
use super::roster::Section;
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
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        let Some(section) = peer.sections.get(index) else {
            return;
        };
        let (Some(mid), Some(track_key)) = (section.mid, section.track) else {
            return;
        };
        let Some(track) = self.tracks.get(track_key) else {
            return;
        };
        if section.sent == Some(track_key) && track.backups.is_empty() {
            return;
        }
        let Some(transport) = self.transports.get(peer.subscriber) else {
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
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let transport_key = peer.subscriber;
        let Some(section) = peer
            .sections
            .get_mut(index)
            .filter(|section| section.sent != Some(streams))
        else {
            return;
        };
        let (Some(mid), Some(track_key)) = (section.mid, section.track) else {
            return;
        };
        let before = take_subscription(&mut self.tracks, section, key);
        let Some(track) = self.tracks.get_mut(streams) else {
            return;
        };
        let Some(transport) = self.transports.get_mut(transport_key) else {
            return;
        };
        if track.medium() == TrackMedium::Video && before.is_none() {
            transport.prepare_video(mid);
            transport.settle(self.now);
        }
        section.sent = Some(streams);
        let waits_since = section.waits_since.take();
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
            .peers
            .get_mut(key)
            .and_then(|peer| peer.sections.get_mut(index));
        let Some((section, track_key)) =
            section.and_then(|section| section.track.map(|track| (section, track)))
        else {
            return;
        };
        let is_known = |awaiting: &&AwaitedCodec| awaiting.peer == key && awaiting.codec == codec;
        let known = self
            .tracks
            .get(track_key)
            .and_then(|track| track.awaiting.iter().find(is_known));
        let reported_at = known.map_or(Some(self.now + BACKUP_TIMEOUT), |known| known.reported_at);
        let subscription = take_subscription(&mut self.tracks, section, key);
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
        if let Some(peer) = self.peers.get_mut(key) {
            peer.wanted.remove(&sid);
        }
        self.emit(key, PeerEvent::CodecUnsupported(sid));
        self.request_negotiation(key);
    }

    /// Returns those who receive a track in any of its codecs, or wait for one.
    pub(super) fn receivers_of(&self, key: TrackKey) -> Vec<PeerKey> {
        let Some(first) = self.tracks.get(key) else {
            return Vec::new();
        };
        let backups = first
            .backups
            .iter()
            .filter_map(|backup| self.tracks.get(backup.streams?));
        let receivers = std::iter::once(first)
            .chain(backups)
            .flat_map(|track| &track.subscriptions);
        let awaiting = first.awaiting.iter().map(|awaiting| awaiting.peer);
        receivers
            .map(|subscription| subscription.peer)
            .chain(awaiting)
            .collect()
    }

    /// Sends a track to receivers in the codec that suits each of them now.
    pub(super) fn choose_codecs(&mut self, key: TrackKey, receivers: Vec<PeerKey>) {
        for peer in receivers {
            if let Some(section) = self.peers.get(peer).and_then(|peer| peer.section_of(key)) {
                self.attach(peer, section);
                self.allocate(peer);
            }
        }
    }
}

/// Takes from a section the stream that is sent on it, or would be if its codec were there.
pub(super) fn take_subscription(
    tracks: &mut SlotMap<TrackKey, PublishedTrack>,
    section: &mut Section,
    peer: PeerKey,
) -> Option<Subscription> {
    if let Some(sent) = section.sent.take() {
        let subscriptions = &mut tracks.get_mut(sent)?.subscriptions;
        let position = subscriptions
            .iter()
            .position(|subscription| subscription.peer == peer)?;
        return Some(subscriptions.swap_remove(position));
    }
    let awaiting = &mut tracks.get_mut(section.track?)?.awaiting;
    let position = awaiting.iter().position(|awaiting| awaiting.peer == peer)?;
    awaiting.swap_remove(position).subscription
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
