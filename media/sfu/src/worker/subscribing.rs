//! Which tracks a participant receives, and on which sections.

use conclave_model::TrackSid;
use str0m::media::Mid;

use super::Worker;
use super::codecs::take_subscription;
use super::roster::Section;
use crate::command::TrackSettings;
use crate::sdp::{OfferedSection, SectionChange};
use crate::track::TrackMedium;
use crate::transport::{PeerKey, TrackKey};

impl Worker {
    /// Notes that a participant is to receive a track, now or as soon as it is published.
    pub(super) fn subscribe(&mut self, key: PeerKey, sid: TrackSid) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        peer.wanted.entry(sid).or_default();
        self.request_negotiation(key);
    }

    /// Ends the forwarding of a track to a participant at once.
    pub(super) fn unsubscribe(&mut self, key: PeerKey, sid: &TrackSid) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        peer.wanted.remove(sid);
        let Some(track) = self
            .rooms
            .get(peer.room)
            .and_then(|room| room.tracks.get(sid).copied())
        else {
            return;
        };
        if let Some(section) = peer.section_of(track) {
            self.clear_section(key, section);
            self.request_negotiation(key);
        }
    }

    /// Applies what a subscriber asks of a track.
    pub(super) fn set_track_settings(
        &mut self,
        key: PeerKey,
        sid: &TrackSid,
        settings: TrackSettings,
    ) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Some(wanted) = peer.wanted.get_mut(sid) else {
            return;
        };
        *wanted = settings;
        self.allocate(key);
        if let Some(track) = self
            .peers
            .get(key)
            .and_then(|peer| self.rooms.get(peer.room)?.tracks.get(sid).copied())
        {
            self.report_quality_use(track);
        }
    }

    /// Negotiates with the participants that wait for a track which has just been published.
    pub(super) fn offer_to_waiting(&mut self, publisher: PeerKey, sid: &TrackSid) {
        let Some(room) = self
            .peers
            .get(publisher)
            .and_then(|peer| self.rooms.get(peer.room))
        else {
            return;
        };
        let waits = |key: &PeerKey| {
            self.peers
                .get(*key)
                .is_some_and(|peer| peer.wanted.contains_key(sid))
        };
        let waiting: Vec<_> = room.peers.iter().copied().filter(waits).collect();
        for key in waiting {
            self.request_negotiation(key);
        }
    }

    /// Takes a track that ends from all who receive it or want to.
    pub(super) fn withdraw_track(&mut self, track: TrackKey, sid: &TrackSid) {
        let Some(room) = self
            .tracks
            .get(track)
            .and_then(|track| self.peers.get(track.peer))
            .map(|peer| peer.room)
        else {
            return;
        };
        let peers = self
            .rooms
            .get(room)
            .map(|room| room.peers.clone())
            .unwrap_or_default();
        for key in peers {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            peer.wanted.remove(sid);
            if let Some(section) = peer.section_of(track) {
                self.clear_section(key, section);
                self.request_negotiation(key);
            }
        }
    }

    /// Takes the track from a section; nothing more is sent on it.
    pub(super) fn clear_section(&mut self, key: PeerKey, index: usize) {
        let Some(section) = self
            .peers
            .get_mut(key)
            .and_then(|peer| peer.sections.get_mut(index))
        else {
            return;
        };
        let subscription = take_subscription(&mut self.tracks, section, key);
        section.track = None;
        let Some(subscription) = subscription else {
            return;
        };
        if let Some(transport) = self.transports.get_mut(subscription.transport)
            && let Some(has_retransmissions) = transport.remove_sources(subscription.mid)
        {
            section.has_retransmissions = has_retransmissions;
        }
        self.touch(subscription.transport);
    }

    /// Takes the sources from the sections that carry nothing, so that no padding is sent on them. A negotiation has given them some.
    pub(super) fn silence_free_sections(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Some(transport) = self.transports.get_mut(peer.subscriber) else {
            return;
        };
        for section in peer
            .sections
            .iter_mut()
            .filter(|section| section.track.is_none())
        {
            if let Some(has_retransmissions) =
                section.mid.and_then(|mid| transport.remove_sources(mid))
            {
                section.has_retransmissions = has_retransmissions;
            }
        }
        let subscriber = peer.subscriber;
        self.touch(subscriber);
    }

    /// Puts every wanted track that has been published and has no section onto one, if there is a free one. Creates
    /// sections if `may_create`. Returns how many of audio and of video are missing.
    pub(super) fn assign_sections(&mut self, key: PeerKey, may_create: bool) -> [u32; 2] {
        let mut missing = [0, 0];
        for (track, medium) in self.unassigned(key) {
            let Some(peer) = self.peers.get_mut(key) else {
                break;
            };
            if !peer.sections.iter().any(|section| section.is_free(medium)) && may_create {
                peer.sections.push(Section::new(None, medium));
            }
            match peer
                .sections
                .iter_mut()
                .find(|section| section.is_free(medium))
            {
                Some(section) => {
                    section.track = Some(track);
                    section.waits_since = Some(self.now);
                }
                None => missing[usize::from(medium == TrackMedium::Video)] += 1,
            }
        }
        missing
    }

    /// Returns the tracks that a participant wants, that are published, and that are on none of its sections.
    fn unassigned(&self, key: PeerKey) -> Vec<(TrackKey, TrackMedium)> {
        let Some(peer) = self.peers.get(key) else {
            return Vec::new();
        };
        let Some(room) = self.rooms.get(peer.room) else {
            return Vec::new();
        };
        let published = peer
            .wanted
            .keys()
            .filter_map(|sid| room.tracks.get(sid).copied());
        let missing = published.filter(|track| peer.section_of(*track).is_none());
        let tracks = missing.filter_map(|key| self.tracks.get(key).map(|track| (key, track)));
        tracks
            .filter(|(_, track)| track.peer != key)
            .map(|(key, track)| (key, track.medium()))
            .collect()
    }

    /// Single mode: learns from an offer on which sections the client receives, and puts wanted tracks onto them.
    pub(super) fn prepare_answer(&mut self, key: PeerKey, offered: &[OfferedSection]) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| peer.is_single()) else {
            return;
        };
        peer.negotiation.has_offer = true;
        peer.negotiation.asked_at = None;
        if let Some(room) = self.rooms.get_mut(peer.room) {
            room.asked.remove(key);
        }
        let mut lost = Vec::new();
        for offer in offered {
            let mid = Mid::from(offer.mid.as_str());
            let is_usable = offer.receives && !offer.sends;
            match peer
                .sections
                .iter_mut()
                .position(|section| section.mid == Some(mid))
            {
                Some(index) => {
                    peer.sections[index].is_usable = is_usable;
                    lost.extend((!is_usable).then_some(index));
                }
                None if is_usable => peer.sections.push(Section::new(Some(mid), offer.medium)),
                None => {}
            }
        }
        for section in lost {
            self.clear_section(key, section);
        }
        self.assign_sections(key, false);
    }

    /// Returns what our description says of a section on which the server could send.
    pub(super) fn sending_section(&self, key: PeerKey, mid: &str) -> SectionChange {
        let track = self.peers.get(key).and_then(|peer| {
            let mid = Some(Mid::from(mid));
            let section = peer.sections.iter().find(|section| section.mid == mid)?;
            self.tracks.get(section.track?)
        });
        let publisher = track.and_then(|track| self.peers.get(track.peer));
        match (track, publisher) {
            (Some(track), Some(publisher)) => SectionChange::Sending {
                stream: format!("{}|{}", publisher.info.sid, track.sid),
                track: track.sid.to_string(),
            },
            _ => SectionChange::Inactive,
        }
    }

    /// Notes that all sections are being signalled to the client as they are. Returns which of them carries which track.
    pub(super) fn signal_sections(&mut self, key: PeerKey) -> Vec<(String, TrackSid)> {
        let Some(peer) = self.peers.get_mut(key) else {
            return Vec::new();
        };
        let mut signalled = Vec::new();
        for section in &mut peer.sections {
            section.signalled = section.track;
            let track = section.track.and_then(|track| self.tracks.get(track));
            if let (Some(mid), Some(track)) = (section.mid, track) {
                signalled.push((mid.to_string(), track.sid.clone()));
            }
        }
        signalled
    }

    /// Starts to send on every section whose track the client knows.
    pub(super) fn attach_signalled(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(key) else {
            return;
        };
        let is_ready =
            |section: &&Section| section.track.is_some() && section.signalled == section.track;
        let ready: Vec<_> = peer
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| is_ready(section))
            .map(|(index, _)| index)
            .collect();
        for index in ready {
            self.attach(key, index);
        }
        self.allocate(key);
    }
}
