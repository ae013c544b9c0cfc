//! What the server sends to a participant, as it is negotiated: the sections of the session description, and the offers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use str0m::change::SdpPendingOffer;
use str0m::media::Mid;

use crate::codec::TrackMedium;
use crate::transport::{PeerKey, TrackKey};

/// The sections of the session description on which the server sends to a participant, in the order of their creation. They exist as
/// long as the connection and carry one track after another, so that the description does not grow with every participant that comes
/// and goes.
#[derive(Debug, Default)]
pub struct Sections(Vec<Section>);

/// A section of the session description on which the server sends to a participant.
#[derive(Debug)]
pub struct Section {
    /// The id; `None` until it is first offered.
    mid: Option<Mid>,
    /// Sound or pictures.
    medium: TrackMedium,
    /// The track that it is to carry, in its first codec.
    track: Option<TrackKey>,
    /// The same track in the codec in which it is sent; `None` while it is not.
    sent: Option<TrackKey>,
    /// The track that was last signalled to the client.
    signalled: Option<TrackKey>,
    /// Whether the client can receive on it. In single mode it is its offer that says so.
    is_usable: bool,
    /// Whether its sources have retransmissions, as the client negotiated it.
    has_retransmissions: bool,
    /// Since when its track is to be sent; `None` once it has been attached.
    waits_since: Option<Instant>,
}

impl Sections {
    /// Returns the number of sections.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the sections.
    pub fn iter(&self) -> impl Iterator<Item = &Section> {
        self.0.iter()
    }

    /// Returns the section with an index.
    pub fn get(&self, index: usize) -> Option<&Section> {
        self.0.get(index)
    }

    /// Returns the section with an index, to change.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Section> {
        self.0.get_mut(index)
    }

    /// Returns the section with an id.
    pub fn by_mid(&self, mid: Mid) -> Option<&Section> {
        self.0.iter().find(|section| section.mid == Some(mid))
    }

    /// Returns the index of the section that carries a track.
    pub fn carrying(&self, track: TrackKey) -> Option<usize> {
        self.0
            .iter()
            .position(|section| section.track == Some(track))
    }

    /// Returns the tracks that are sent, each in the codec in which it is.
    pub fn sent(&self) -> impl Iterator<Item = TrackKey> {
        self.0.iter().filter_map(|section| section.sent)
    }

    /// Puts a track onto the first free section of its medium, or onto a new one if there may be one. Returns whether there was one.
    pub fn assign(
        &mut self,
        track: TrackKey,
        medium: TrackMedium,
        may_create: bool,
        now: Instant,
    ) -> bool {
        let free = self
            .0
            .iter()
            .position(|section| section.is_free(medium))
            .or_else(|| {
                may_create.then(|| {
                    self.0.push(Section::new(None, medium));
                    self.0.len() - 1
                })
            });
        let Some(section) = free.and_then(|index| self.0.get_mut(index)) else {
            return false;
        };
        section.track = Some(track);
        section.waits_since = Some(now);
        true
    }

    /// Learns from a client's offer whether it receives on a section. Returns the index of a known section on which it does so no more.
    pub fn learn(&mut self, mid: Mid, medium: TrackMedium, is_usable: bool) -> Option<usize> {
        let known = self.0.iter().position(|section| section.mid == Some(mid));
        if let Some(section) = known.and_then(|index| self.0.get_mut(index)) {
            section.is_usable = is_usable;
            return known.filter(|_| !is_usable);
        }
        if is_usable {
            self.0.push(Section::new(Some(mid), medium));
        }
        None
    }

    /// Returns the sections that carry nothing.
    pub fn unused(&mut self) -> impl Iterator<Item = &mut Section> {
        self.0.iter_mut().filter(|section| section.track.is_none())
    }

    /// Returns the sections that differ from what was signalled to the client, with their indices.
    pub fn changed(&mut self) -> impl Iterator<Item = (usize, &mut Section)> {
        let sections = self.0.iter_mut().enumerate();
        sections.filter(|(_, section)| section.track != section.signalled)
    }

    /// Returns whether a section differs from what was signalled to the client.
    pub fn has_news(&self) -> bool {
        self.0
            .iter()
            .any(|section| section.track != section.signalled)
    }

    /// Notes that all sections are being signalled to the client as they are. Returns which of them carries which track.
    pub fn signal(&mut self) -> Vec<(Mid, TrackKey)> {
        for section in &mut self.0 {
            section.signalled = section.track;
        }
        let carried = |section: &Section| Some((section.mid?, section.track?));
        self.0.iter().filter_map(carried).collect()
    }

    /// Returns the indices of the sections whose track the client knows.
    pub fn ready(&self) -> Vec<usize> {
        let is_ready =
            |section: &Section| section.track.is_some() && section.signalled == section.track;
        let sections = self.0.iter().enumerate();
        sections
            .filter(|(_, section)| is_ready(section))
            .map(|(index, _)| index)
            .collect()
    }

    /// Forgets what was offered of new sections, with these indices: the client does not know them.
    pub fn discard(&mut self, new: Vec<usize>) {
        for index in new {
            if let Some(section) = self.0.get_mut(index) {
                (section.mid, section.signalled) = (None, None);
            }
        }
    }
}

impl Section {
    /// Creates a section that carries nothing.
    fn new(mid: Option<Mid>, medium: TrackMedium) -> Self {
        Self {
            mid,
            medium,
            track: None,
            sent: None,
            signalled: None,
            is_usable: true,
            has_retransmissions: false,
            waits_since: None,
        }
    }

    /// Returns whether a track can be put on it: nothing is on it, and the client knows that.
    fn is_free(&self, medium: TrackMedium) -> bool {
        self.is_usable && self.medium == medium && self.track.is_none() && self.signalled.is_none()
    }

    /// Returns the id; `None` until it is first offered.
    pub const fn mid(&self) -> Option<Mid> {
        self.mid
    }

    /// Sets the id with which it is offered.
    pub fn set_mid(&mut self, mid: Mid) {
        self.mid = Some(mid);
    }

    /// Sound or pictures.
    pub const fn medium(&self) -> TrackMedium {
        self.medium
    }

    /// Returns the track that it is to carry, in its first codec.
    pub const fn track(&self) -> Option<TrackKey> {
        self.track
    }

    /// Returns the same track in the codec in which it is sent; `None` while it is not.
    pub const fn sent(&self) -> Option<TrackKey> {
        self.sent
    }

    /// Returns the track as it is sent, or else as it is to be.
    pub fn carried(&self) -> Option<TrackKey> {
        self.sent.or(self.track)
    }

    /// Returns whether its sources have retransmissions, as the client negotiated it.
    pub const fn has_retransmissions(&self) -> bool {
        self.has_retransmissions
    }

    /// Keeps whether its sources had retransmissions, for those of the next track.
    pub fn set_retransmissions(&mut self, has_retransmissions: bool) {
        self.has_retransmissions = has_retransmissions;
    }

    /// Starts to send the track, in this codec. Returns since when it waits, unless it was sent before.
    pub fn send(&mut self, streams: TrackKey) -> Option<Instant> {
        self.sent = Some(streams);
        self.waits_since.take()
    }

    /// Ceases to send the track. Returns it in the codec in which it was sent.
    pub fn cease(&mut self) -> Option<TrackKey> {
        self.sent.take()
    }

    /// Takes the track from it.
    pub fn clear(&mut self) {
        self.track = None;
    }
}

/// The state of the negotiation of what the server sends.
#[derive(Default)]
pub struct Negotiation {
    /// Dual mode: the offer that the client has not answered.
    pub outstanding: Option<OutstandingOffer>,
    /// The `id` of the last offer.
    pub last_offer_id: u32,
    /// Dual mode: whether the next offer restarts ICE.
    pub wants_ice_restart: bool,
    /// Single mode: whether the client has made an offer.
    pub has_offer: bool,
    /// Single mode: when the client was asked for an offer, if that has not come.
    pub asked_at: Option<Instant>,
    /// Dual mode: when the last offer was made.
    pub last_offer_at: Option<Instant>,
    /// When what has changed has to be signalled to the client, if anything has.
    pub needed_at: Option<Instant>,
}

/// An offer of the server that the client has not answered.
pub struct OutstandingOffer {
    /// What str0m applies when the answer comes.
    pub pending: SdpPendingOffer,
    /// The `id` of the offer.
    pub offer_id: u32,
    /// When it was made.
    pub at: Instant,
    /// The sections that it adds, by their index.
    pub new_sections: Vec<usize>,
    /// Whether it adds the data channels.
    pub has_channels: bool,
}

/// How long an offer that was asked for is expected before others are asked in its place.
const EXPECTED: Duration = Duration::from_secs(1);

/// The offers that clients were asked for and that have not come. Not all are asked at once when something changes: the worker
/// handles one after the other, and what waits for it is bounded.
#[derive(Debug, Default)]
pub struct AskedOffers {
    offers: HashMap<PeerKey, (Instant, usize)>,
    bytes: usize,
}

impl AskedOffers {
    /// Adds the offer of a client, of so many bytes, if it fits into the most bytes beside the others.
    pub fn add(&mut self, peer: PeerKey, bytes: usize, most: usize, now: Instant) -> bool {
        self.remove(peer);
        if self.bytes + bytes > most {
            self.offers
                .retain(|_, (at, _)| now.saturating_duration_since(*at) < EXPECTED);
            self.bytes = self.offers.values().map(|(_, bytes)| bytes).sum();
        }
        let fits = self.offers.is_empty() || self.bytes + bytes <= most;
        if fits {
            self.bytes += bytes;
            self.offers.insert(peer, (now, bytes));
        }
        fits
    }

    /// Removes the offer of a client: it has come, or comes no more.
    pub fn remove(&mut self, peer: PeerKey) {
        if let Some((_, bytes)) = self.offers.remove(&peer) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    const VIDEO: TrackMedium = TrackMedium::Video;

    /// Three tracks.
    fn tracks() -> [TrackKey; 3] {
        let mut keys = SlotMap::with_key();
        [keys.insert(()), keys.insert(()), keys.insert(())]
    }

    #[test]
    fn a_section_is_free_again_when_the_client_knows_that_it_carries_nothing() {
        let ([first, second, third], now) = (tracks(), Instant::now());
        let mut sections = Sections::default();
        assert!(!sections.assign(first, VIDEO, false, now), "there is none");
        assert!(sections.assign(first, VIDEO, true, now));
        assert!(
            !sections.assign(second, VIDEO, false, now),
            "it carries a track"
        );
        sections.get_mut(0).unwrap().set_mid("0".into());
        assert!(sections.ready().is_empty() && sections.has_news());
        assert_eq!(sections.signal(), [("0".into(), first)]);
        assert_eq!((sections.ready(), sections.has_news()), (vec![0], false));
        sections.get_mut(0).unwrap().clear();
        assert!(
            !sections.assign(second, VIDEO, false, now),
            "the client expects the first track still"
        );
        sections.signal();
        assert!(!sections.assign(second, TrackMedium::Audio, false, now));
        assert!(sections.assign(second, VIDEO, false, now));
        assert!(sections.assign(third, VIDEO, true, now));
        assert_eq!(
            [first, second, third].map(|track| sections.carrying(track)),
            [None, Some(0), Some(1)]
        );
    }

    #[test]
    fn an_offer_of_the_client_adds_sections_and_takes_them() {
        let ([track, ..], now) = (tracks(), Instant::now());
        let mut sections = Sections::default();
        assert_eq!(sections.learn("1".into(), VIDEO, false), None);
        assert_eq!(sections.len(), 0, "it does not receive on it");
        assert_eq!(sections.learn("1".into(), VIDEO, true), None);
        assert_eq!(sections.learn("1".into(), VIDEO, false), Some(0));
        assert!(!sections.assign(track, VIDEO, false, now));
        assert_eq!(sections.learn("1".into(), VIDEO, true), None);
        assert!(sections.assign(track, VIDEO, false, now));
        assert_eq!(sections.len(), 1);
    }

    #[test]
    fn a_discarded_offer_leaves_its_tracks_to_the_next_one() {
        let ([track, ..], now) = (tracks(), Instant::now());
        let mut sections = Sections::default();
        sections.assign(track, VIDEO, true, now);
        sections.get_mut(0).unwrap().set_mid("0".into());
        sections.signal();
        sections.discard(vec![0]);
        assert_eq!(sections.by_mid("0".into()).map(Section::track), None);
        let changed: Vec<_> = sections.changed().map(|(index, _)| index).collect();
        assert_eq!((changed, sections.carrying(track)), (vec![0], Some(0)));
    }

    #[test]
    fn the_wait_for_a_track_is_told_once() {
        let ([track, backup, _], now) = (tracks(), Instant::now());
        let mut sections = Sections::default();
        sections.assign(track, VIDEO, true, now);
        let section = sections.get_mut(0).unwrap();
        assert_eq!(
            (section.send(track), section.send(backup)),
            (Some(now), None)
        );
        assert_eq!(section.carried(), Some(backup));
        assert_eq!(
            (section.cease(), section.carried()),
            (Some(backup), Some(track))
        );
    }

    #[test]
    fn offers_that_do_not_come_make_room_for_others_after_a_second() {
        let mut keys = SlotMap::with_key();
        let [first, second] = [keys.insert(()), keys.insert(())];
        let (mut asked, now) = (AskedOffers::default(), Instant::now());
        assert!(asked.add(first, 100, 50, now), "one is always asked");
        assert!(!asked.add(second, 10, 50, now));
        assert!(asked.add(second, 10, 50, now + EXPECTED));
        asked.remove(second);
        assert!(asked.add(first, 50, 50, now + EXPECTED));
    }
}
