//! A participant's received tracks: on which sections, and in which codec.

use std::time::Duration;

use conclave_model::TrackSid;
use str0m::media::Mid;

use super::Worker;
use super::codecs::{CodecChoice, choose_codec, negotiated};
use super::subscription::{LayerChoice, Subscription};
use super::tracks::AwaitedCodec;
use crate::adapt::Rewriter;
use crate::codec::{Codec, TrackMedium};
use crate::command::TrackSettings;
use crate::event::PeerEvent;
use crate::measure::{FrameMeter, RateMeter};
use crate::sdp::{OfferedSection, SectionChange};
use crate::transport::{PeerKey, TrackKey};

/// Time for which a receiver waits for a backup codec until its subscription is reported as unsupported. The codec may
/// still arrive later.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(10);

impl Worker {
    /// Subscribes a participant to a track, which may be published later.
    pub(super) fn subscribe(&mut self, key: PeerKey, sid: TrackSid) {
        let Some(peer) = self.roster.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        // A repeated subscription keeps its settings.
        peer.wanted.entry(sid).or_default();
        self.request_negotiation(key);
    }

    /// Stops forwarding a track to a participant immediately.
    pub(super) fn unsubscribe(&mut self, key: PeerKey, sid: &TrackSid) {
        let track = self.roster.track_in_room(key, sid);
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        peer.wanted.remove(sid);
        if let Some(section) = track.and_then(|track| peer.sections.carrying(track)) {
            self.clear_section(key, section);
            self.request_negotiation(key);
        }
    }

    /// Applies a subscriber's settings for a track.
    pub(super) fn set_track_settings(
        &mut self,
        key: PeerKey,
        sid: &TrackSid,
        settings: TrackSettings,
    ) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        let Some(wanted) = peer.wanted.get_mut(sid) else {
            return;
        };
        *wanted = settings;
        self.allocate(key);
        if let Some(track) = self.roster.track_in_room(key, sid) {
            self.report_quality_use(track);
        }
    }

    /// Starts negotiation with participants that wait for a newly published track.
    pub(super) fn offer_to_waiting(&mut self, publisher: PeerKey, sid: &TrackSid) {
        let Some(room) = self.roster.get(publisher).map(|peer| peer.room) else {
            return;
        };
        let waits = |key: &PeerKey| {
            self.roster
                .get(*key)
                .is_some_and(|peer| peer.wanted.contains_key(sid))
        };
        let mut waiting = self.roster.members(room);
        waiting.retain(waits);
        for key in waiting {
            self.request_negotiation(key);
        }
    }

    /// Removes a track that ends from all its receivers and from the wishes for it.
    pub(super) fn withdraw_track(&mut self, track: TrackKey, sid: &TrackSid) {
        let Some(room) = self
            .tracks
            .get(track)
            .and_then(|track| self.roster.get(track.peer))
            .map(|peer| peer.room)
        else {
            return;
        };
        for key in self.roster.members(room) {
            let Some(peer) = self.roster.get_mut(key) else {
                continue;
            };
            // The sid is not used again, so the wish ends, too.
            peer.wanted.remove(sid);
            if let Some(section) = peer.sections.carrying(track) {
                self.clear_section(key, section);
                self.request_negotiation(key);
            }
        }
    }

    /// Removes the track from a section. Nothing more is sent on it.
    pub(super) fn clear_section(&mut self, key: PeerKey, index: usize) {
        let Some(section) = self
            .roster
            .get_mut(key)
            .and_then(|peer| peer.sections.get_mut(index))
        else {
            return;
        };
        let sent = section.sent();
        let subscription = self.tracks.take_subscription(section, key);
        section.clear();
        let Some(subscription) = subscription else {
            return;
        };
        // Without a source, str0m sends no padding on it. The next track needs a new SSRC anyway: see
        // `Transport::remove_sources`.
        if let Some(transport) = self.connections.get_mut(subscription.transport)
            && let Some(has_retransmissions) = transport.remove_sources(subscription.mid)
        {
            section.set_retransmissions(has_retransmissions);
        }
        self.connections.touch(subscription.transport);
        // The last receiver here may have left: then the mirror's ring is released.
        self.update_ring(sent);
    }

    /// Removes the sources from unused sections, so that no padding is sent on them. Negotiation has added them.
    pub(super) fn silence_free_sections(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        let Some(transport) = self.connections.get_mut(peer.subscriber) else {
            return;
        };
        for section in peer.sections.unused() {
            if let Some(has_retransmissions) =
                section.mid().and_then(|mid| transport.remove_sources(mid))
            {
                section.set_retransmissions(has_retransmissions);
            }
        }
        self.connections.touch(peer.subscriber);
    }

    /// Assigns each wanted and published track to a free section, if it has none. Creates sections if `may_create`.
    /// Returns the number of missing audio and video sections.
    pub(super) fn assign_sections(&mut self, key: PeerKey, may_create: bool) -> [u32; 2] {
        let mut missing = [0, 0];
        for (track, medium) in self.unassigned(key) {
            let Some(peer) = self.roster.get_mut(key) else {
                break;
            };
            if !peer.sections.assign(track, medium, may_create, self.now) {
                missing[usize::from(medium == TrackMedium::Video)] += 1;
            }
        }
        missing
    }

    /// Returns a participant's wanted and published tracks without a section.
    fn unassigned(&self, key: PeerKey) -> Vec<(TrackKey, TrackMedium)> {
        let Some(peer) = self.roster.get(key) else {
            return Vec::new();
        };
        let Some(room) = self.roster.room(peer.room) else {
            return Vec::new();
        };
        let published = peer
            .wanted
            .keys()
            .filter_map(|sid| room.tracks.get(sid).copied());
        let missing = published.filter(|track| peer.sections.carrying(*track).is_none());
        let tracks = missing.filter_map(|key| self.tracks.get(key).map(|track| (key, track)));
        tracks
            // Nobody receives their own tracks.
            .filter(|(_, track)| track.peer != key)
            .map(|(key, track)| (key, track.medium()))
            .collect()
    }

    /// Reads the client's receiving sections from an offer in single mode, and assigns wanted tracks to them.
    pub(super) fn prepare_answer(&mut self, key: PeerKey, offered: &[OfferedSection]) {
        let member = self.roster.with_room(key);
        let Some((peer, room)) = member.filter(|(peer, _)| peer.is_single()) else {
            return;
        };
        peer.negotiation.has_offer = true;
        peer.negotiation.requested_at = None;
        // The requested offer has arrived, so another client's may be requested.
        room.requested.remove(key);
        let mut lost = Vec::new();
        for offer in offered {
            let (mid, is_usable) = (
                Mid::from(offer.mid.as_str()),
                // Once its track is unpublished, the client offers a section without sending, and can receive on it.
                offer.receives && !offer.sends,
            );
            lost.extend(peer.sections.learn(mid, offer.medium, is_usable));
        }
        for section in lost {
            self.clear_section(key, section);
        }
        self.assign_sections(key, false);
    }

    /// Returns the description of a section on which the server may send.
    pub(super) fn sending_section(&self, key: PeerKey, mid: &str) -> SectionChange {
        let track = self.roster.get(key).and_then(|peer| {
            let section = peer.sections.by_mid(Mid::from(mid))?;
            self.tracks.get(section.track()?)
        });
        let publisher = track.and_then(|track| self.roster.get(track.peer));
        match (track, publisher) {
            (Some(track), Some(publisher)) => SectionChange::Sending {
                // LiveKit's clients take participant and track from the `msid`. The Rust client drops ids without
                // exactly one `|`.
                stream: format!("{}|{}", publisher.info.sid, track.sid),
                track: track.sid.to_string(),
            },
            _ => SectionChange::Inactive,
        }
    }

    /// Records that all sections are being signalled in their current state. Returns the mapping from sections to
    /// tracks, the only source of sids for LiveKit's Rust client in single mode.
    pub(super) fn signal_sections(&mut self, key: PeerKey) -> Vec<(String, TrackSid)> {
        let peer = self.roster.get_mut(key);
        let signalled = peer.map_or_else(Vec::new, |peer| peer.sections.signal());
        let named = |(mid, track): (Mid, TrackKey)| {
            let track = self.tracks.get(track)?;
            Some((mid.to_string(), track.sid.clone()))
        };
        signalled.into_iter().filter_map(named).collect()
    }

    /// Starts sending on each section whose track the client knows.
    pub(super) fn attach_signalled(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        for index in peer.sections.ready() {
            self.attach(key, index);
        }
        self.allocate(key);
    }

    /// Starts sending a section's track in the best codec for the client, unless it is already sent in this codec.
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
        // Nothing to choose: it is already being sent in its only codec.
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

    /// Sends a section's track in this codec, unless it is already sent in it.
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
        let sent_before = section.sent();
        let before = self.tracks.take_subscription(section, key);
        let Some(track) = self.tracks.get_mut(streams) else {
            return;
        };
        let Some(transport) = self.connections.get_mut(transport_key) else {
            return;
        };
        // A change of the codec continues the stream, so it is already prepared.
        if before.is_none() {
            match track.medium() {
                TrackMedium::Audio => transport.prepare_audio(mid),
                TrackMedium::Video => {
                    transport.prepare_video(mid);
                    transport.settle(self.now);
                }
            }
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
            frames: FrameMeter::default(),
            switches: 0,
            empty_packets: 0,
            waits_since: waits_since
                // Audio and muted video have no first frame to wait for.
                .filter(|_| track.medium() == TrackMedium::Video && !track.is_muted),
        };
        let subscription = before.map_or_else(new, Subscription::in_another_codec);
        track.subscriptions.push(subscription);
        let codec = track.codec.name();
        if let Some(peer) = self.roster.get_mut(key) {
            peer.meter.record_received_codec(codec);
        }
        // Both codecs may be mirrors, and each counts its receivers.
        self.update_ring(sent_before);
        self.update_ring(Some(streams));
        self.record_subscription(track_key);
    }

    /// Reports a track's first subscription to its publisher.
    pub(super) fn record_subscription(&mut self, track_key: TrackKey) {
        let Some(track) = self.tracks.get_mut(track_key) else {
            return;
        };
        let (publisher, sid) = (track.peer, track.sid.clone());
        if !std::mem::replace(&mut track.was_subscribed, true) {
            self.notify_subscription(track_key);
            self.emit(publisher, PeerEvent::TrackSubscribed(sid));
        }
    }

    /// Makes a section wait for a backup codec, which is requested from the publisher.
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
        // A receiver that was already waiting keeps its deadline.
        let reported_at = known.map_or(Some(self.now + BACKUP_TIMEOUT), |known| known.reported_at);
        let sent_before = section.sent();
        // Stops the codec that was sent: the client cannot decode it any longer, or it has ended.
        let subscription = self.tracks.take_subscription(section, key);
        if let Some(track) = self.tracks.get_mut(track_key) {
            track.awaiting.push(AwaitedCodec {
                peer: key,
                codec,
                subscription,
                reported_at,
            });
        }
        self.update_ring(sent_before);
        self.record_subscription(track_key);
        self.report_quality_use(track_key);
    }

    /// Reports subscriptions that have waited too long for a codec.
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
                // Each is reported once.
                .take_if(|at| now >= *at)
                .map(|_| awaiting.peer)
        };
        let late: Vec<_> = track.awaiting.iter_mut().filter_map(is_due).collect();
        for peer in late {
            self.emit(peer, PeerEvent::CodecUnsupported(sid.clone()));
        }
    }

    /// Ends a subscription for which the track has no codec that the client can decode.
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

    /// Switches receivers to the best codec for each of them.
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
