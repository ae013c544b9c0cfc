//! Negotiation of the server's media: by its own offers in dual mode, by requesting an offer in single mode.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use str0m::channel::{ChannelConfig, Reliability};
use str0m::ice::IceCreds;
use str0m::media::{Direction, MediaKind};

use super::Worker;
use super::roster::Peer;
use super::sections::{OutstandingOffer, Section};
use crate::codec::TrackMedium;
use crate::config::Limits;
use crate::event::{FailureReason, PeerEvent};
use crate::sdp;
use crate::transport::{PeerKey, Transport, TransportKey};

/// Time limit for a client's answer, as in LiveKit's server.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval after which a requested offer is requested again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Delay that merges several changes into one offer: a participant that returns causes several.
const SETTLE: Duration = Duration::from_millis(20);

/// Minimum interval between two offers, as in LiveKit's server. Pion clients have missed tracks when two offers came 1
/// ms apart: they seem to apply an answered offer later.
const BETWEEN_OFFERS: Duration = Duration::from_millis(150);

/// Participants whose sections may have unsignalled changes, ordered by the time of the next comparison.
#[derive(Debug, Default)]
pub struct Negotiations(BTreeSet<(Instant, PeerKey)>);

impl Negotiations {
    /// Schedules a comparison. A later one stays scheduled.
    fn plan(&mut self, peer: PeerKey, at: Instant) {
        self.0.insert((at, peer));
    }

    /// Returns the time of the next comparison.
    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes and returns the next comparison that is due, with its scheduled time.
    fn take_due(&mut self, now: Instant) -> Option<(PeerKey, Instant)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(at, peer)| (peer, at))
    }
}

impl Worker {
    /// Requests negotiation of a participant's sections. In single mode, it follows at the end of the input batch, as
    /// the client decides when to make an offer. In dual mode, several changes are merged.
    pub(super) fn request_negotiation(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        let last = peer
            .negotiation
            .last_offer_at
            // The first offer and ICE restarts must not wait: the client has no media without them.
            .filter(|_| !peer.is_single() && !peer.negotiation.wants_ice_restart);
        let at = last.map_or(self.now, |last| {
            (self.now + SETTLE).max(last + BETWEEN_OFFERS)
        });
        if peer.negotiation.needed_at.is_none_or(|needed| at < needed) {
            peer.negotiation.needed_at = Some(at);
            self.negotiations.plan(key, at);
        }
    }

    /// Runs the negotiations that are due. Returns whether there were any.
    pub(super) fn run_negotiations(&mut self) -> bool {
        let mut has_any = false;
        while let Some((key, at)) = self.negotiations.take_due(self.now) {
            self.negotiate(key, at);
            has_any = true;
        }
        has_any
    }

    /// Negotiates a participant's changed sections, unless an earlier offer is unanswered.
    fn negotiate(&mut self, key: PeerKey, at: Instant) {
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        // Otherwise it has already run, at an earlier time.
        let is_needed = peer
            .negotiation
            .needed_at
            .take_if(|needed| *needed == at)
            .is_some();
        if !is_needed || peer.has_failed || peer.negotiation.outstanding.is_some() {
            return;
        }
        if peer.is_single() {
            self.request_offer(key);
        } else {
            self.make_offer(key);
        }
    }

    /// Requests an offer in single mode, if there is anything to negotiate.
    pub(super) fn request_offer(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get(key).filter(|peer| peer.is_single()) else {
            return;
        };
        let is_pending = peer
            .negotiation
            .requested_at
            .is_some_and(|at| self.now < at + ASK_AGAIN);
        // Before the first offer there is no connection to receive on, and the client sends that offer anyway.
        if !peer.negotiation.has_offer || is_pending {
            return;
        }
        let missing = self.assign_sections(key, false);
        let Some((peer, room)) = self.roster.with_room(key) else {
            return;
        };
        let ([num_audios, num_videos], bytes) = sections_to_request(peer, missing, &self.limits);
        if num_audios + num_videos == 0 && !peer.sections.has_news() {
            return;
        }
        if !room
            .requested
            .add(key, bytes, self.limits.asked_bytes, self.now)
        {
            // `check_group` tries again within a second.
            return;
        }
        peer.negotiation.requested_at = Some(self.now);
        self.emit(
            key,
            PeerEvent::MediaSectionsRequired {
                num_audios,
                num_videos,
            },
        );
    }

    /// Creates the data channels on a connection that the server offers.
    pub(super) fn create_channels(&mut self, key: TransportKey) {
        // Labels and reliability are as in LiveKit. A client counts as connected only when this connection is up, so that
        // its first offer needs these channels even without tracks.
        let lossy = Reliability::MaxRetransmits { retransmits: 0 };
        let kinds = [
            ("_reliable", true, Reliability::Reliable),
            ("_lossy", false, lossy),
            ("_data_track", false, lossy),
        ];
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        let channels = kinds
            .into_iter()
            .map(|(label, ordered, reliability)| ChannelConfig {
                label: label.to_owned(),
                ordered,
                reliability,
                ..Default::default()
            })
            .collect();
        transport.create_channels(channels);
    }

    /// Offers the sections in dual mode, if they have changed since they were last offered.
    fn make_offer(&mut self, key: PeerKey) {
        self.assign_sections(key, true);
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        let transport_key = peer.subscriber;
        let Some(transport) = self.connections.get_mut(transport_key) else {
            return;
        };
        let Some((text, offer, credentials)) = change_sections(peer, transport, self.now) else {
            return;
        };
        let offer_id = offer.offer_id;
        peer.negotiation.outstanding = Some(offer);
        peer.negotiation.last_offer_at = Some(self.now);
        transport.count_sections(&text);
        if let Some(credentials) = credentials {
            self.connections.restart_ice(transport_key, credentials);
        }
        self.connections.touch(transport_key);
        let sdp = sdp::rewrite(&text, |mid| self.offered_section(key, mid));
        let mid_to_track_id = self.signal_sections(key);
        self.emit(
            key,
            PeerEvent::Offered {
                offer_id,
                sdp,
                mid_to_track_id,
            },
        );
    }

    /// Returns the changes to a section in the offer; `None` for the data section.
    fn offered_section(&self, key: PeerKey, mid: &str) -> Option<sdp::SectionChange> {
        let peer = self.roster.get(key)?;
        let is_known = peer
            .sections
            .iter()
            .any(|section| section.mid().is_some_and(|known| &*known == mid));
        is_known.then(|| self.sending_section(key, mid))
    }

    /// Handles an answer in dual mode, and offers further changes.
    pub(super) fn handle_answer(&mut self, key: PeerKey, offer_id: u32, text: &str) {
        let Some(peer) = self
            .roster
            .get_mut(key)
            .filter(|peer| !peer.is_single() && !peer.has_failed)
        else {
            return;
        };
        // LiveKit's Rust and Python clients answer with id 0, whatever the offer's.
        let is_current = |offer: &mut OutstandingOffer| offer_id == 0 || offer.offer_id == offer_id;
        let Some(outstanding) = peer.negotiation.outstanding.take_if(is_current) else {
            return;
        };
        let transport_key = peer.subscriber;
        let Some(transport) = self.connections.get_mut(transport_key) else {
            return;
        };
        // An answer has about as many sections as the connection, so its size is bounded by their number.
        // One more for the session's own lines.
        let lines = (transport.media_sections() + 1) * self.limits.answer_lines;
        let limits = Limits {
            sdp_lines: lines.min(self.limits.sdp_lines),
            ..self.limits.clone()
        };
        if sdp::check(text, &limits).is_err() {
            return self.refuse_client(key, FailureReason::Negotiation);
        }
        if transport.accept_answer(outstanding.pending, text).is_err() {
            return self.fail_peer(key, FailureReason::Negotiation);
        }
        self.connections.touch(transport_key);
        self.attach_signalled(key);
        self.silence_free_sections(key);
        // Changes since the offer have waited for this answer.
        self.request_negotiation(key);
    }
}

/// Size of a section of an offer.
#[derive(Clone, Copy)]
struct SectionSize {
    bytes: usize,
    /// Lines, without codecs that are not forwarded.
    lines: usize,
}

/// Upper limits for a browser's audio section, video section, and the rest. Measured with Chromium 156: 1 kB and 23
/// lines, 5.2 kB and 86 lines, 1 kB and 20 lines.
const AUDIO: SectionSize = SectionSize {
    bytes: 1_100,
    lines: 26,
};
const VIDEO: SectionSize = SectionSize {
    bytes: 5_500,
    lines: 120,
};
const OTHER: SectionSize = SectionSize {
    bytes: 4_000,
    lines: 100,
};

/// Returns the number of missing audio and video sections that a client may be asked for without making its offer too
/// large, and the offer's expected size in bytes.
fn sections_to_request(peer: &Peer, missing: [u32; 2], limits: &Limits) -> ([u32; 2], usize) {
    let SectionSize {
        mut bytes,
        mut lines,
    } = OTHER;
    let size_of = |section: &Section| {
        if section.medium() == TrackMedium::Audio {
            AUDIO
        } else {
            VIDEO
        }
    };
    for size in peer
        .sections
        .iter()
        .map(size_of)
        // The medium does not matter much: few tracks are published, and video is the upper limit.
        .chain(peer.published.iter().map(|_| VIDEO))
    {
        (bytes, lines) = (bytes + size.bytes, lines + size.lines);
    }
    let mut sections = peer.published.len() + peer.sections.len();
    let asked = [(missing[0], AUDIO), (missing[1], VIDEO)].map(|(missing, size)| {
        let by_bytes = limits.sdp_bytes.saturating_sub(bytes) / size.bytes;
        let by_lines = limits.offer_lines.saturating_sub(lines) / size.lines;
        let most = by_bytes
            .min(by_lines)
            .min(limits.media_sections.saturating_sub(sections));
        let count = most.min(usize::try_from(missing).unwrap_or(most));
        (bytes, lines) = (bytes + count * size.bytes, lines + count * size.lines);
        sections += count;
        u32::try_from(count).unwrap_or(missing)
    });
    (asked, bytes)
}

/// Creates an offer with changed sections, new data channels, and an ICE restart if one is due. Returns its text, the
/// offer, and the credentials of the restart; `None` if there is nothing to offer.
fn change_sections(
    peer: &mut Peer,
    transport: &mut Transport,
    now: Instant,
) -> Option<(String, OutstandingOffer, Option<IceCreds>)> {
    // A client that has never sent anything is still connecting, so it needs no restart.
    let restarts = std::mem::take(&mut peer.negotiation.wants_ice_restart)
        && transport.last_packet().is_some();
    let channels = transport.take_new_channels();
    let (has_channels, mut new_sections) = (!channels.is_empty(), Vec::new());
    for section in peer
        .sections
        .iter()
        .filter(|section| section.track().is_some())
    {
        // The sources go into the offer, so they must exist before it is made.
        if let Some(mid) = section.mid() {
            transport.add_sources(mid, section.has_retransmissions());
        }
    }
    let mut credentials = None;
    let (offer, pending) = transport.offer(|changes| {
        for channel in channels {
            changes.add_channel_with_config(channel);
        }
        for (index, section) in peer.sections.changed() {
            let direction = if section.track().is_some() {
                Direction::SendOnly
            } else {
                Direction::Inactive
            };
            if let Some(mid) = section.mid() {
                changes.set_direction(mid, direction);
            } else {
                let kind = media_kind(section.medium());
                section.set_mid(changes.add_media(kind, direction, None, None, None));
                new_sections.push(index);
            }
        }
        // Keeps the local candidates: the server's addresses are the same.
        credentials = restarts.then(|| changes.ice_restart(true));
    })?;
    peer.negotiation.last_offer_id += 1;
    let offer_id = peer.negotiation.last_offer_id;
    Some((
        offer.to_sdp_string(),
        OutstandingOffer {
            pending,
            offer_id,
            at: now,
            new_sections,
            has_channels,
        },
        credentials,
    ))
}

const fn media_kind(medium: TrackMedium) -> MediaKind {
    match medium {
        TrackMedium::Audio => MediaKind::Audio,
        TrackMedium::Video => MediaKind::Video,
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn negotiations_are_due_in_the_order_for_which_they_are_planned() {
        let mut keys = SlotMap::with_key();
        let [alice, bob] = [keys.insert(()), keys.insert(())];
        let (now, mut negotiations) = (Instant::now(), Negotiations::default());
        negotiations.plan(alice, now + 2 * SETTLE);
        negotiations.plan(bob, now + SETTLE);
        assert_eq!(negotiations.take_due(now), None);
        assert_eq!(negotiations.next(), Some(now + SETTLE));
        let later = now + 2 * SETTLE;
        let due: Vec<_> = std::iter::from_fn(|| negotiations.take_due(later)).collect();
        assert_eq!(due, [(bob, now + SETTLE), (alice, later)]);
        assert_eq!(negotiations.next(), None);
    }
}
