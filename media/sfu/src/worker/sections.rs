//! Media sections on which the server sends to a participant, and the state of their negotiation.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use str0m::change::SdpPendingOffer;
use str0m::media::Mid;

use crate::codec::TrackMedium;
use crate::transport::{PeerKey, TrackKey};

/// Sections of a session description on which the server sends, in the order of their creation. They last as long as
/// the connection and carry one track after another, so that the description does not grow with each participant that
/// joins and leaves.
#[derive(Debug, Default)]
pub struct Sections(Vec<Section>);

/// Section on which the server sends.
#[derive(Debug)]
pub struct Section {
    /// Id; `None` until the first offer.
    mid: Option<Mid>,
    medium: TrackMedium,
    /// Track to carry, in its first codec.
    track: Option<TrackKey>,
    /// The same track in the codec that is being sent; `None` while nothing is sent.
    sent: Option<TrackKey>,
    /// Track that was last signalled to the client.
    signalled: Option<TrackKey>,
    /// Whether the client can receive on it. In single mode, its offer determines this.
    is_usable: bool,
    /// Whether retransmissions were negotiated for its sources.
    has_retransmissions: bool,
    /// Time since which its track has been waiting; `None` after it was first sent.
    waits_since: Option<Instant>,
}

impl Sections {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Section> {
        self.0.iter()
    }

    pub fn get(&self, index: usize) -> Option<&Section> {
        self.0.get(index)
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Section> {
        self.0.get_mut(index)
    }

    pub fn by_mid(&self, mid: Mid) -> Option<&Section> {
        self.0.iter().find(|section| section.mid == Some(mid))
    }

    /// Returns the index of the section that carries a track.
    pub fn carrying(&self, track: TrackKey) -> Option<usize> {
        self.0
            .iter()
            .position(|section| section.track == Some(track))
    }

    /// Returns the tracks that are being sent, each in its current codec.
    pub fn sent(&self) -> impl Iterator<Item = TrackKey> {
        self.0.iter().filter_map(|section| section.sent)
    }

    /// Assigns a track to the first free section with its medium, or to a new one if allowed. Returns whether there was
    /// one.
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
                // In single mode, only the client can add sections.
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

    /// Applies a client's offer for one section. Returns the index of a known section on which the client has stopped
    /// receiving.
    pub fn learn(&mut self, mid: Mid, medium: TrackMedium, is_usable: bool) -> Option<usize> {
        let known = self.0.iter().position(|section| section.mid == Some(mid));
        if let Some(section) = known.and_then(|index| self.0.get_mut(index)) {
            // Sections cannot be removed from a session description (RFC 3264, section 8), so this one stays.
            section.is_usable = is_usable;
            return known.filter(|_| !is_usable);
        }
        if is_usable {
            self.0.push(Section::new(Some(mid), medium));
        }
        None
    }

    /// Returns the sections without a track.
    pub fn unused(&mut self) -> impl Iterator<Item = &mut Section> {
        self.0.iter_mut().filter(|section| section.track.is_none())
    }

    /// Returns the sections with unsignalled changes, with their indices.
    pub fn changed(&mut self) -> impl Iterator<Item = (usize, &mut Section)> {
        let sections = self.0.iter_mut().enumerate();
        sections.filter(|(_, section)| section.track != section.signalled)
    }

    /// Returns whether any section has unsignalled changes.
    pub fn has_news(&self) -> bool {
        self.0
            .iter()
            .any(|section| section.track != section.signalled)
    }

    /// Records that all sections are being signalled in their current state. Returns the mapping from sections to
    /// tracks.
    pub fn signal(&mut self) -> Vec<(Mid, TrackKey)> {
        for section in &mut self.0 {
            section.signalled = section.track;
        }
        let carried = |section: &Section| Some((section.mid?, section.track?));
        self.0.iter().filter_map(carried).collect()
    }

    /// Returns the indices of sections whose track the client knows.
    pub fn ready(&self) -> Vec<usize> {
        let is_ready =
            // A track that was assigned after the offer waits for the next one.
            |section: &Section| section.track.is_some() && section.signalled == section.track;
        let sections = self.0.iter().enumerate();
        sections
            .filter(|(_, section)| is_ready(section))
            .map(|(index, _)| index)
            .collect()
    }

    /// Resets new sections after their offer was discarded: the client does not know them.
    pub fn discard(&mut self, new: Vec<usize>) {
        for index in new {
            if let Some(section) = self.0.get_mut(index) {
                // The track stays assigned.
                (section.mid, section.signalled) = (None, None);
            }
        }
    }
}

impl Section {
    /// Creates a section without a track.
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

    /// Returns whether a track can be assigned: the section is empty, and the client knows this.
    fn is_free(&self, medium: TrackMedium) -> bool {
        // Until the change is signalled, the client would take the new track's packets for the old track's.
        self.is_usable && self.medium == medium && self.track.is_none() && self.signalled.is_none()
    }

    /// Returns the id; `None` until the first offer.
    pub const fn mid(&self) -> Option<Mid> {
        self.mid
    }

    /// Sets the id from the first offer.
    pub fn set_mid(&mut self, mid: Mid) {
        self.mid = Some(mid);
    }

    pub const fn medium(&self) -> TrackMedium {
        self.medium
    }

    /// Returns the track to carry, in its first codec.
    pub const fn track(&self) -> Option<TrackKey> {
        self.track
    }

    /// Returns the track in the codec that is being sent; `None` while nothing is sent.
    pub const fn sent(&self) -> Option<TrackKey> {
        self.sent
    }

    /// Returns the track in the codec that is being sent, or else in its first codec.
    pub fn carried(&self) -> Option<TrackKey> {
        self.sent.or(self.track)
    }

    /// Returns whether retransmissions were negotiated for its sources.
    pub const fn has_retransmissions(&self) -> bool {
        self.has_retransmissions
    }

    /// Remembers whether its sources had retransmissions, for the next track's sources.
    pub fn set_retransmissions(&mut self, has_retransmissions: bool) {
        self.has_retransmissions = has_retransmissions;
    }

    /// Starts sending the track in this codec. Returns the start of the wait, the first time.
    pub fn send(&mut self, streams: TrackKey) -> Option<Instant> {
        self.sent = Some(streams);
        self.waits_since.take()
    }

    /// Stops sending the track. Returns it in the codec that was sent.
    pub fn cease(&mut self) -> Option<TrackKey> {
        self.sent.take()
    }

    /// Removes the track.
    pub fn clear(&mut self) {
        // `signalled` stays: the section is free only when the client knows that it is.
        self.track = None;
    }
}

/// Negotiation state for the sections.
#[derive(Default)]
pub struct Negotiation {
    /// Dual mode: unanswered offer.
    pub outstanding: Option<OutstandingOffer>,
    /// Id of the last offer.
    pub last_offer_id: u32,
    /// Dual mode: whether the next offer restarts ICE.
    pub wants_ice_restart: bool,
    /// Single mode: whether the client has made an offer.
    pub has_offer: bool,
    /// Single mode: time at which an offer that has not arrived was last requested from the client.
    pub requested_at: Option<Instant>,
    /// Dual mode: time of the last offer.
    pub last_offer_at: Option<Instant>,
    /// Time at which changes must be negotiated, if there are any.
    pub needed_at: Option<Instant>,
}

/// Unanswered offer by the server.
pub struct OutstandingOffer {
    /// State that str0m needs for the answer.
    pub pending: SdpPendingOffer,
    pub offer_id: u32,
    /// Creation time.
    pub at: Instant,
    /// Indices of the sections that it adds.
    pub new_sections: Vec<usize>,
    /// Whether it adds the data channels.
    pub has_channels: bool,
}

/// Time for which a requested offer is expected. After it, one is requested from another client.
const EXPECTED: Duration = Duration::from_secs(1);

/// Requested offers that have not arrived. Clients are not all asked at once when something changes: a worker handles
/// one offer after another, and its queue is bounded.
#[derive(Debug, Default)]
pub struct RequestedOffers {
    offers: HashMap<PeerKey, (Instant, usize)>,
    bytes: usize,
}

impl RequestedOffers {
    /// Adds a client's offer of this size, if it fits into `most` bytes together with the others.
    pub fn add(&mut self, peer: PeerKey, bytes: usize, most: usize, now: Instant) -> bool {
        // A repeated request replaces the earlier one.
        self.remove(peer);
        // Clients may ignore the request, so old ones are discarded when space is short.
        if self.bytes + bytes > most {
            self.offers
                .retain(|_, (at, _)| now.saturating_duration_since(*at) < EXPECTED);
            self.bytes = self.offers.values().map(|(_, bytes)| bytes).sum();
        }
        // A single offer is always allowed, however large: otherwise the client would wait forever.
        let fits = self.offers.is_empty() || self.bytes + bytes <= most;
        if fits {
            self.bytes += bytes;
            self.offers.insert(peer, (now, bytes));
        }
        fits
    }

    /// Removes a client's offer, which has arrived or will not.
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

    /// Returns three tracks.
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
        let (mut asked, now) = (RequestedOffers::default(), Instant::now());
        assert!(
            asked.add(first, 100, 50, now),
            "one offer is always allowed"
        );
        assert!(!asked.add(second, 10, 50, now));
        assert!(asked.add(second, 10, 50, now + EXPECTED));
        asked.remove(second);
        assert!(asked.add(first, 50, 50, now + EXPECTED));
    }
}
