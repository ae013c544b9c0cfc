//! Clients' offers, and the tracks that they bring.

use conclave_model::TrackSid;
use str0m::media::Mid;
use str0m::rtp::Ssrc;

use super::Worker;
use super::roster::Peer;
use super::tracks::PublishedTrack;
use crate::event::{FailureReason, PeerEvent};
use crate::sdp::{self, OfferedSection, Receiving, SectionChange};
use crate::track::{Codec, NewTrack, TrackMedium};
use crate::transport::{PeerKey, TrackKey, TransportKey};

impl Worker {
    /// Handles an offer of a client and answers it.
    pub(super) fn handle_offer(&mut self, key: PeerKey, offer_id: u32, text: &str) {
        if self.peers.get(key).is_none_or(|peer| peer.has_failed) {
            return;
        }
        if let Err(error) = sdp::check(text, &self.limits) {
            self.warn(key, "a client's offer is too large", &error);
            return self.refuse_client(key, FailureReason::Negotiation);
        }
        let text = &sdp::without_unused_codecs(text);
        if text.lines().count() > self.limits.offer_lines {
            self.warn(
                key,
                "a client's offer is too large",
                &sdp::DescriptionTooLarge::Lines,
            );
            return self.refuse_client(key, FailureReason::Negotiation);
        }
        let sections = sdp::read_sections(text);
        let Some(transport) = self.publisher_transport(key) else {
            return self.fail_peer(key, FailureReason::Negotiation);
        };
        let accepted = self
            .transports
            .get_mut(transport)
            .map(|transport| transport.accept_offer(text));
        let answer = match accepted {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                self.warn(key, "a client's offer cannot be used", &error);
                return self.fail_peer(key, FailureReason::Negotiation);
            }
            None => return,
        };
        self.note_retransmissions(transport, &sections);
        self.register_credentials(transport);
        self.count_sections(transport, &answer);
        self.touch(transport);
        self.match_sections(key, transport, &sections);
        self.prepare_answer(key, &sections);
        let sdp = sdp::rewrite(&answer, |mid| {
            self.answer_section(key, transport, mid, &sections)
        });
        // In dual mode the answer is about another connection than that on which the participant receives.
        let is_single = self.peers.get(key).is_some_and(Peer::is_single);
        let mid_to_track_id = if is_single {
            self.signal_sections(key)
        } else {
            Vec::new()
        };
        self.emit(
            key,
            PeerEvent::Answered {
                offer_id,
                sdp,
                mid_to_track_id,
            },
        );
        self.keep_unclaimed(key, transport, sections);
        if is_single {
            self.attach_signalled(key);
            self.silence_free_sections(key);
            self.ask_for_offer(key);
        }
    }

    /// Notes where the retransmissions of a client come from, as its offer says.
    fn note_retransmissions(&mut self, transport: TransportKey, sections: &[OfferedSection]) {
        let Some(transport) = self.transports.get_mut(transport) else {
            return;
        };
        let named = sections.iter().flat_map(|section| &section.retransmissions);
        transport.retransmissions = named
            .map(|(source, other)| (Ssrc::from(*source), Ssrc::from(*other)))
            .collect();
    }

    /// Admits a track, and takes a section that already sends it.
    pub(super) fn announce_track(&mut self, key: PeerKey, track: NewTrack) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        if peer.is_source() {
            return self.publish_source_track(key, track);
        }
        peer.announced.push(track);
        let (transport, sections) = (peer.publisher, std::mem::take(&mut peer.unclaimed));
        for section in &sections {
            self.match_section(key, transport, section, true);
        }
        self.keep_unclaimed(key, transport, sections);
    }

    /// Keeps the sections that send and that no track claims, for one that is announced after the offer.
    fn keep_unclaimed(
        &mut self,
        key: PeerKey,
        transport: TransportKey,
        mut sections: Vec<OfferedSection>,
    ) {
        let Some(published) = self
            .transports
            .get(transport)
            .map(|transport| &transport.published)
        else {
            return;
        };
        sections.retain(|section| {
            section.sends && !published.contains_key(&Mid::from(section.mid.as_str()))
        });
        if let Some(peer) = self.peers.get_mut(key) {
            peer.unclaimed = sections;
        }
    }

    /// Finds the tracks of the sections of an offer, and ends those whose section sends no more.
    fn match_sections(
        &mut self,
        key: PeerKey,
        transport: TransportKey,
        sections: &[OfferedSection],
    ) {
        let mut ended = Vec::new();
        for section in sections {
            let mid = Mid::from(section.mid.as_str());
            let known = self
                .transports
                .get(transport)
                .and_then(|transport| transport.published.get(&mid).copied());
            match known {
                Some(track) if section.sends => self.update_layers(track, &section.rids),
                Some(track) => ended.push(track),
                None => {}
            }
        }
        self.first_codecs_first(&mut ended);
        ended
            .into_iter()
            .for_each(|track| self.end_own_track(key, track));
        for by_id in [true, false] {
            for section in sections.iter().filter(|section| section.sends) {
                self.match_section(key, transport, section, by_id);
            }
        }
    }

    fn update_layers(&mut self, track: TrackKey, rids: &[String]) {
        let now = self.now;
        if let Some(track) = self.tracks.get_mut(track) {
            track.set_layers(rids, now);
        }
    }

    /// Gives a sending section the announced track that it names, or else the first one of its medium: Firefox invents the
    /// ids of tracks. A track is refused if the section that names it has no codec that is forwarded.
    fn match_section(
        &mut self,
        key: PeerKey,
        transport: TransportKey,
        section: &OfferedSection,
        by_id: bool,
    ) {
        let mid = Mid::from(section.mid.as_str());
        if self
            .transports
            .get(transport)
            .is_none_or(|transport| transport.published.contains_key(&mid))
        {
            return;
        }
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let by_id = by_id || section.codecs.is_empty();
        let matches = |track: &NewTrack| {
            track.medium == section.medium
                && (!by_id || section.track_id.as_deref() == Some(track.cid.as_str()))
        };
        let Some(position) = peer.announced.iter().position(matches) else {
            return;
        };
        let info = peer.announced.remove(position);
        let is_refused = !section
            .codecs
            .iter()
            .any(|codec| info.allowed_codecs.contains(codec))
            || self.is_unknown_backup(key, &info);
        if is_refused {
            self.refuse_track(key, info);
        } else {
            self.publish_track(key, transport, section, info);
        }
    }

    fn refuse_track(&mut self, key: PeerKey, info: NewTrack) {
        self.warn(
            key,
            "a client offers a track only with codecs that are not forwarded, or that it may not use",
            &info.sid,
        );
        let refused = match info.codec.filter(|_| info.is_backup) {
            Some(codec) => PeerEvent::BackupEnded {
                track: info.sid,
                codec,
            },
            None => PeerEvent::TrackRefused(info.sid),
        };
        self.emit(key, refused);
    }

    fn publish_track(
        &mut self,
        key: PeerKey,
        transport: TransportKey,
        section: &OfferedSection,
        info: NewTrack,
    ) {
        let mid = Mid::from(section.mid.as_str());
        let codec = preferred_codec(&info, &section.codecs);
        let (sid, is_backup) = (info.sid.clone(), info.is_backup);
        let mut track = PublishedTrack::new(info, codec, key, transport, mid, self.now);
        track.set_layers(&section.rids, self.now);
        let mid_text = section.mid.clone();
        let track_key = if is_backup {
            self.insert_backup(key, track, mid_text)
        } else {
            self.insert_track(key, track, mid_text)
        };
        if let Some(transport) = self.transports.get_mut(transport) {
            transport.published.insert(mid, track_key);
            // Packets that came before were cached as claimed by no track.
            transport.layers.clear();
        }
        self.use_backups(key, &sid);
        if !is_backup {
            self.offer_to_waiting(key, &sid);
        }
    }

    /// Adds a track to its publisher and its room, and reports it.
    pub(super) fn insert_track(
        &mut self,
        key: PeerKey,
        track: PublishedTrack,
        mid: String,
    ) -> TrackKey {
        let (sid, codec, layers) = (track.sid.clone(), track.codec, track.qualities());
        let track_key = self.tracks.insert(track);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.published.push(track_key);
            if let Some(room) = self.rooms.get_mut(peer.room) {
                room.tracks.insert(sid.clone(), track_key);
            }
        }
        self.emit(
            key,
            PeerEvent::TrackPublished {
                track: sid,
                mid,
                codec,
                layers,
            },
        );
        track_key
    }

    /// Returns what our answer says of a section.
    fn answer_section(
        &self,
        key: PeerKey,
        transport: TransportKey,
        mid: &str,
        sections: &[OfferedSection],
    ) -> Option<SectionChange> {
        let section = sections.iter().find(|section| section.mid == mid)?;
        if !section.sends {
            return Some(self.sending_section(key, mid));
        }
        let track = *self
            .transports
            .get(transport)?
            .published
            .get(&Mid::from(mid))?;
        let track = self.tracks.get(track)?;
        Some(SectionChange::Receiving(Receiving {
            codec: track.codec,
            is_stereo: track.info.is_stereo,
            uses_dtx: track.info.uses_dtx,
            uses_red: track.info.uses_red,
            bitrates: section.bitrates.clone(),
        }))
    }

    /// Ends a track because the client does, and says so.
    fn end_own_track(&mut self, key: PeerKey, track: TrackKey) {
        let Some(PublishedTrack {
            sid, codec, info, ..
        }) = self.tracks.get(track)
        else {
            return;
        };
        let sid = sid.clone();
        let ended = if info.is_backup {
            PeerEvent::BackupEnded {
                track: sid,
                codec: *codec,
            }
        } else {
            PeerEvent::TrackEnded(sid)
        };
        self.end_track(track);
        self.emit(key, ended);
    }

    /// Stops a track because the control side says so.
    pub(super) fn unpublish_track(&mut self, key: PeerKey, sid: &TrackSid) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.announced.retain(|track| track.sid != *sid);
        let tracks = self.tracks_of(key, sid);
        self.end_tracks(tracks);
    }

    /// Returns a published track of a participant in its codecs.
    pub(super) fn tracks_of(&self, key: PeerKey, sid: &TrackSid) -> Vec<TrackKey> {
        let is_of = |key: &TrackKey| self.tracks.get(*key).is_some_and(|track| track.sid == *sid);
        self.peers
            .get(key)
            .into_iter()
            .flat_map(|peer| &peer.published)
            .copied()
            .filter(is_of)
            .collect()
    }

    /// Returns a published track of a participant in its first codec.
    pub(super) fn track_of(&self, key: PeerKey, sid: &TrackSid) -> Option<TrackKey> {
        let is_of = |track: &PublishedTrack| track.sid == *sid && !track.info.is_backup;
        self.peers
            .get(key)?
            .published
            .iter()
            .copied()
            .find(|key| self.tracks.get(*key).is_some_and(is_of))
    }

    /// Puts tracks in their first codec in front. So the end of a track ends its backup codecs as well, before a receiver gets one of
    /// them instead.
    fn first_codecs_first(&self, tracks: &mut [TrackKey]) {
        tracks.sort_by_key(|key| {
            self.tracks
                .get(*key)
                .is_some_and(|track| track.info.is_backup)
        });
    }

    /// Removes tracks as [`Worker::end_track`] does.
    pub(super) fn end_tracks(&mut self, mut tracks: Vec<TrackKey>) {
        self.first_codecs_first(&mut tracks);
        tracks.into_iter().for_each(|track| self.end_track(track));
    }

    /// Removes a track, or a track in a backup codec: from now on nothing of it is forwarded, and its receivers' sections become free
    /// or carry another codec.
    pub(super) fn end_track(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get(key) else {
            return;
        };
        if track.info.is_backup {
            return self.end_backup(key);
        }
        let (publisher, sid) = (track.peer, track.sid.clone());
        let backups: Vec<_> = track
            .backups
            .iter()
            .filter_map(|backup| backup.streams)
            .collect();
        self.withdraw_track(key, &sid);
        backups
            .into_iter()
            .chain([key])
            .for_each(|streams| self.remove_streams(streams));
        if let Some(room) = self
            .peers
            .get(publisher)
            .and_then(|peer| self.rooms.get_mut(peer.room))
        {
            room.tracks.remove(&sid);
        }
    }

    /// Removes a track in one codec that has no receivers any more.
    pub(super) fn remove_streams(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.remove(key) else {
            return;
        };
        if let Some(transport) = self.transports.get_mut(track.transport) {
            transport.published.remove(&track.mid);
            transport.layers.clear();
        }
        if let Some(peer) = self.peers.get_mut(track.peer) {
            peer.published.retain(|track| *track != key);
        }
    }

    /// Stops or resumes the forwarding of a track.
    pub(super) fn set_muted(&mut self, key: PeerKey, sid: &TrackSid, muted: bool) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.announced
            .iter_mut()
            .filter(|track| track.sid == *sid)
            .for_each(|track| track.is_muted = muted);
        if let Some(track) = peer.data_tracks.iter_mut().find(|track| track.sid == *sid) {
            track.is_muted = muted;
        }
        for track_key in self.tracks_of(key, sid) {
            let Some(track) = self
                .tracks
                .get_mut(track_key)
                .filter(|track| track.is_muted != muted)
            else {
                continue;
            };
            track.is_muted = muted;
            track.restart_receivers();
            track
                .subscriptions
                .iter_mut()
                .for_each(|subscription| subscription.waits_since = None);
            if !muted {
                self.request_key_frames(track_key);
            }
        }
    }
}

/// Returns the codec to ask for: the announced one if it is offered, else VP8. If none is announced, the one that the client
/// offers first: some clients send no other. All that only of those that the client may use.
fn preferred_codec(info: &NewTrack, offered: &[Codec]) -> Codec {
    let fallback = if info.medium == TrackMedium::Audio {
        Codec::Opus
    } else {
        Codec::Vp8
    };
    let mut usable = offered
        .iter()
        .copied()
        .filter(|codec| info.allowed_codecs.contains(codec));
    let announced = info.codec.into_iter().flat_map(|codec| [codec, fallback]);
    let announced = announced
        .into_iter()
        .find(|codec| usable.clone().any(|usable| usable == *codec));
    announced.or_else(|| usable.next()).unwrap_or(fallback)
}

#[cfg(test)]
mod tests {
    use conclave_model::participant::TrackSource;

    use super::*;

    #[test]
    fn an_announced_codec_is_preferred_and_without_one_the_first_that_is_offered() {
        let track = |codec| NewTrack {
            sid: "TR_VC1".parse().unwrap(),
            cid: "cid".into(),
            medium: TrackMedium::Video,
            source: TrackSource::Camera,
            codec,
            allowed_codecs: vec![Codec::Vp8, Codec::H264, Codec::Av1],
            is_stereo: false,
            uses_dtx: false,
            uses_red: false,
            is_muted: false,
            layers: Vec::new(),
            backup_codecs: Vec::new(),
            prefers_backup: false,
            is_backup: false,
        };
        let (vp8, h264) = (Codec::Vp8, Codec::H264);
        for (announced, offered, codec) in [
            (None, &[h264, vp8][..], h264),
            (None, &[vp8, h264], vp8),
            (None, &[], vp8),
            (Some(h264), &[vp8, h264], h264),
            (Some(vp8), &[h264, vp8], vp8),
            (Some(h264), &[vp8], vp8),
            (Some(vp8), &[h264], h264),
            (Some(Codec::Av1), &[vp8, Codec::Av1], Codec::Av1),
            (Some(Codec::Vp9), &[h264, Codec::Vp9], h264),
            (None, &[Codec::Vp9, h264], h264),
        ] {
            assert_eq!(
                preferred_codec(&track(announced), offered),
                codec,
                "{announced:?} of {offered:?}"
            );
        }
    }
}
