//! Clients' offers, and the tracks in them.

use conclave_model::TrackSid;
use str0m::format::PayloadParams;
use str0m::media::Mid;

use super::Worker;
use super::roster::Peer;
use super::tracks::{Feed, Mirror, PublishedTrack};
use crate::codec::{Codec, TrackMedium};
use crate::event::{FailureReason, PeerEvent};
use crate::packet::Incoming;
use crate::sdp::{self, OfferedSection, Receiving, SectionChange};
use crate::track::NewTrack;
use crate::transport::{PeerKey, TrackKey, TransportKey};

impl Worker {
    /// Handles a client's offer, and answers it.
    pub(super) fn handle_offer(&mut self, key: PeerKey, offer_id: u32, text: &str) {
        if self.roster.get(key).is_none_or(|peer| peer.has_failed) {
            return;
        }
        // Before anything is parsed: the cost of an offer grows with its size.
        if let Err(error) = sdp::check(text, &self.limits) {
            self.warn(key, "a client's offer is too large", &error);
            return self.refuse_client(key, FailureReason::Negotiation);
        }
        let text = &sdp::without_unused_codecs(text);
        // Browsers list codecs that are not forwarded. Only the lines that remain reach str0m, so they are counted
        // again.
        if text.lines().count() > self.limits.offer_lines {
            self.warn(
                key,
                "a client's offer is too large",
                &sdp::DescriptionTooLarge::Lines,
            );
            return self.refuse_client(key, FailureReason::Negotiation);
        }
        let sections = sdp::read_sections(text);
        // A participant without a connection has no client that could make an offer.
        let Some(transport) = self.publisher_transport(key) else {
            return self.fail_peer(key, FailureReason::Negotiation);
        };
        let accepted = self
            .connections
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
        if let Some(transport) = self.connections.get_mut(transport) {
            let named = sections.iter().flat_map(|section| &section.retransmissions);
            transport.set_retransmissions(named.copied());
            transport.count_sections(&answer);
        }
        // The offer may have restarted ICE.
        self.connections.renew_credentials(transport);
        self.connections.touch(transport);
        self.match_sections(key, transport, &sections);
        self.prepare_answer(key, &sections);
        let sdp = sdp::rewrite(&answer, |mid| {
            self.answer_section(key, transport, mid, &sections)
        });
        // In dual mode, the offer concerns the connection on which the participant only sends.
        let is_single = self.roster.get(key).is_some_and(Peer::is_single);
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
        // With the answer, the client knows its sections' tracks, so sending may start.
        if is_single {
            self.attach_signalled(key);
            self.silence_free_sections(key);
            self.request_offer(key);
        }
    }

    /// Admits a track, and assigns it an unclaimed section if one names it.
    pub(super) fn announce_track(&mut self, key: PeerKey, track: NewTrack) {
        let Some(peer) = self.roster.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        // A mirror's source is on another worker, from where its publication arrives as a notice.
        if peer.is_source() && peer.is_here() {
            return self.publish_source_track(key, track);
        }
        peer.announced.push(track);
        let (transport, sections) = (peer.publisher, std::mem::take(&mut peer.unclaimed));
        for section in &sections {
            // By id only: these sections may belong to tracks that are not announced yet.
            self.match_section(key, transport, section, true);
        }
        self.keep_unclaimed(key, transport, sections);
    }

    /// Publishes a track of a participant without a connection.
    pub(super) fn publish_source_track(&mut self, key: PeerKey, info: NewTrack) {
        let fallback = if info.medium == TrackMedium::Audio {
            Codec::Opus
        } else {
            Codec::H264
        };
        let (sid, codec) = (info.sid.clone(), info.codec.unwrap_or(fallback));
        let feed = Feed::Source { sequence: 0 };
        let mut track = PublishedTrack::new(info, codec, key, feed, self.now);
        // A source has a single layer.
        track.set_layers(&[], self.now);
        // Receivers negotiate payload types by codec parameters, so the source needs some, too.
        let params = self
            .connections
            .codecs()
            .into_iter()
            .find(|params| is_codec(params, codec));
        track.payload = params.map(|params| {
            (
                params.pt(),
                Some(Incoming {
                    params,
                    is_red: false,
                }),
            )
        });
        self.insert_track(key, track, String::new());
        self.offer_to_waiting(key, &sid);
    }

    /// Publishes a track of a participant on another worker.
    pub(super) fn publish_mirror(
        &mut self,
        key: PeerKey,
        info: NewTrack,
        codec: Codec,
        rids: &[String],
    ) {
        let (sid, is_backup) = (info.sid.clone(), info.is_backup);
        let feed = Feed::Mirror(Mirror::default());
        let mut track = PublishedTrack::new(info, codec, key, feed, self.now);
        track.set_layers(rids, self.now);
        if is_backup {
            self.insert_backup(key, track, String::new());
        } else {
            self.insert_track(key, track, String::new());
        }
        self.offer_streams(key, &sid, is_backup);
    }

    /// Offers a newly published track to participants that wait for it, or for this codec.
    fn offer_streams(&mut self, key: PeerKey, sid: &TrackSid, is_backup: bool) {
        self.use_backups(key, sid);
        if !is_backup {
            self.offer_to_waiting(key, sid);
        }
    }

    /// Remembers sending sections that no track claims, for a track that is announced after the offer.
    fn keep_unclaimed(
        &mut self,
        key: PeerKey,
        transport: TransportKey,
        mut sections: Vec<OfferedSection>,
    ) {
        let Some(transport) = self.connections.get(transport) else {
            return;
        };
        sections.retain(|section| {
            let mid = Mid::from(section.mid.as_str());
            section.sends && transport.track_on(mid).is_none()
        });
        if let Some(peer) = self.roster.get_mut(key) {
            peer.unclaimed = sections;
        }
    }

    /// Assigns the sections of an offer to tracks, and ends tracks whose section has stopped sending.
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
                .connections
                .get(transport)
                .and_then(|transport| transport.track_on(mid));
            match known {
                Some(track) if section.sends => self.update_layers(track, &section.rids),
                Some(track) => ended.push(track),
                None => {}
            }
        }
        self.tracks.first_codecs_first(&mut ended);
        ended
            .into_iter()
            .for_each(|track| self.end_own_track(key, track));
        // All ids first: otherwise a section without a match could take a track that a later section names.
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

    /// Assigns a sending section the announced track that it names, or else the first announced track for the same
    /// medium, since Firefox invents track ids. A track is refused if its section has no codec that is forwarded.
    fn match_section(
        &mut self,
        key: PeerKey,
        transport: TransportKey,
        section: &OfferedSection,
        by_id: bool,
    ) {
        let mid = Mid::from(section.mid.as_str());
        if self
            .connections
            .get(transport)
            .is_none_or(|transport| transport.track_on(mid).is_some())
        {
            return;
        }
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        // A section without usable codecs refuses its track, so it must be the track named by the section.
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
        let backup = info.codec.filter(|_| info.is_backup);
        self.share_end(key, &info.sid, backup);
        let refused = match backup {
            Some(codec) => PeerEvent::BackupEnded {
                track: info.sid,
                codec,
            },
            None => PeerEvent::TrackRefused(info.sid),
        };
        self.emit(key, refused);
    }

    /// Publishes a track on a section of its publisher's connection.
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
        let feed = Feed::Connection { transport, mid };
        let mut track = PublishedTrack::new(info, codec, key, feed, self.now);
        track.set_layers(&section.rids, self.now);
        let mid_text = section.mid.clone();
        let track_key = if is_backup {
            self.insert_backup(key, track, mid_text)
        } else {
            self.insert_track(key, track, mid_text)
        };
        if let Some(transport) = self.connections.get_mut(transport) {
            transport.add_track(mid, track_key);
        }
        self.offer_streams(key, &sid, is_backup);
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
        if let Some((peer, room)) = self.roster.with_room(key) {
            peer.published.push(track_key);
            peer.meter.record_sent_codec(codec.name());
            room.tracks.insert(sid.clone(), track_key);
        }
        self.share_track(track_key);
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

    /// Returns the changes to a section in the answer.
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
        let transport = self.connections.get(transport)?;
        let track = self.tracks.get(transport.track_on(Mid::from(mid))?)?;
        Some(SectionChange::Receiving(Receiving {
            codec: track.codec,
            is_stereo: track.info.is_stereo,
            uses_dtx: track.info.uses_dtx,
            uses_red: track.info.uses_red,
            bitrates: section.bitrates.clone(),
        }))
    }

    /// Ends a track that the client has stopped, and reports this.
    fn end_own_track(&mut self, key: PeerKey, track: TrackKey) {
        let Some(PublishedTrack {
            sid, codec, info, ..
        }) = self.tracks.get(track)
        else {
            return;
        };
        // Copied, since the track is removed before the report.
        let (sid, backup) = (sid.clone(), Some(*codec).filter(|_| info.is_backup));
        self.share_end(key, &sid, backup);
        let ended = match backup {
            Some(codec) => PeerEvent::BackupEnded { track: sid, codec },
            None => PeerEvent::TrackEnded(sid),
        };
        self.end_track(track);
        self.emit(key, ended);
    }

    /// Ends a track at the control side's request.
    pub(super) fn unpublish_track(&mut self, key: PeerKey, sid: &TrackSid) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        // It may end before it has a media section.
        peer.announced.retain(|track| track.sid != *sid);
        let tracks = self.tracks_of(key, sid);
        self.end_tracks(tracks);
    }

    /// Returns a participant's published track in all its codecs.
    pub(super) fn tracks_of(&self, key: PeerKey, sid: &TrackSid) -> Vec<TrackKey> {
        let peer = self.roster.get(key);
        peer.map_or_else(Vec::new, |peer| self.tracks.with_sid(&peer.published, sid))
    }

    /// Returns a participant's published track in its first codec.
    pub(super) fn track_of(&self, key: PeerKey, sid: &TrackSid) -> Option<TrackKey> {
        let peer = self.roster.get(key)?;
        self.tracks.first_with_sid(&peer.published, sid)
    }

    /// Ends tracks, as [`Worker::end_track`] does.
    pub(super) fn end_tracks(&mut self, mut tracks: Vec<TrackKey>) {
        self.tracks.first_codecs_first(&mut tracks);
        tracks.into_iter().for_each(|track| self.end_track(track));
    }

    /// Ends a track or a backup codec: forwarding stops, and the receivers' sections become free or carry another
    /// codec.
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
        // Receivers first, while the track is still known.
        self.withdraw_track(key, &sid);
        backups
            .into_iter()
            .chain([key])
            .for_each(|streams| self.remove_streams(streams));
        if let Some((_, room)) = self.roster.with_room(publisher) {
            room.tracks.remove(&sid);
        }
    }

    /// Removes a track in one codec, after its receivers.
    pub(super) fn remove_streams(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.remove(key) else {
            return;
        };
        if let Feed::Connection { transport, mid } = track.feed
            && let Some(transport) = self.connections.get_mut(transport)
        {
            transport.remove_track(mid);
        }
        if let Some(peer) = self.roster.get_mut(track.peer) {
            peer.published.retain(|track| *track != key);
        }
    }

    /// Stops or resumes forwarding.
    pub(super) fn set_muted(&mut self, key: PeerKey, sid: &TrackSid, muted: bool) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        // A track may be muted before it has a media section.
        peer.announced
            .iter_mut()
            .filter(|track| track.sid == *sid)
            .for_each(|track| track.is_muted = muted);
        peer.data_tracks.set_muted(sid, muted);
        for track_key in self.tracks_of(key, sid) {
            let Some(track) = self
                .tracks
                .get_mut(track_key)
                .filter(|track| track.is_muted != muted)
            else {
                continue;
            };
            track.is_muted = muted;
            // After a pause, decoders need a key frame.
            track.restart_receivers();
            // The time until the first frame would contain the pause.
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

/// Returns whether these parameters belong to a codec. The first ones of a codec do for a source's packets.
fn is_codec(params: &PayloadParams, codec: Codec) -> bool {
    Codec::from_rtc(params.spec().codec) == Some(codec)
}

/// Returns the codec for the answer: the announced one if it is offered, or else VP8. Without an announcement, it is
/// the first offered codec, as some clients send no other. Only codecs that the client may use count.
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
